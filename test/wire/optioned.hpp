// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "wire/messages.hpp"

namespace wire_test {

// A task with options as `change` makes them.
struct optioned {
  explicit optioned(const std::function<void(wire::options_view&)>& change) {
    change(options);
    task = small_task();
    task.options = &options;
  }
  optioned(const optioned&) = delete;
  optioned& operator=(const optioned&) = delete;
  wire::options_view options;
  wire::task_view task;
};

}  // namespace wire_test
