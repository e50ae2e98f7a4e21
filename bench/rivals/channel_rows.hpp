// SPDX-License-Identifier: Apache-2.0
//
// The channel rows for any bounded queue `Queue(std::size_t capacity)` with send(x) and receive().
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "harness/measure.hpp"
#include "rivals/rows.hpp"

namespace bench {

constexpr std::size_t channel_capacity = 1024;

template <class Queue>
contestant sent_alone(std::string name, std::shared_ptr<void> (*setup)() = nullptr) {
  contestant c{channel_alone, std::move(name)};
  c.start = [=](const plan& how) -> body {
    const auto environment = setup != nullptr ? setup() : nullptr;
    auto queue = std::make_shared<Queue>(channel_capacity);
    const std::size_t count = how.count(million);
    return [=](const turn&) {
      keep(environment);
      return time_per_operation(unit::nanoseconds, count, [&] {
        for (std::uint64_t i = 0; i < count; ++i) {
          queue->send(i);
          check(queue->receive() == i, "item of a channel");
        }
      });
    };
  };
  return c;
}

template <class Queue>
contestant sent_across(std::string name, std::shared_ptr<void> (*setup)() = nullptr) {
  contestant c{channel_pair, std::move(name)};
  c.start = [=](const plan& how) -> body {
    const auto environment = setup != nullptr ? setup() : nullptr;
    auto queue = std::make_shared<Queue>(channel_capacity);
    const std::size_t count = how.count(million);
    return [=](const turn&) {
      keep(environment);
      return time_per_operation(unit::nanoseconds, count, [&] {
        std::thread producer([&] {
          for (std::uint64_t i = 0; i < count; ++i) queue->send(i);
        });
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < count; ++i) sum += queue->receive();
        producer.join();
        check(sum == std::uint64_t{count} * (count - 1) / 2, "sum of the items");
      });
    };
  };
  return c;
}

}  // namespace bench
