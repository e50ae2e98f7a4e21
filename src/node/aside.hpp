// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "node/node_things.hpp"

namespace manta::inline v0::node {

/// Does something as it ends.
template <class F>
class done_at_end {
 public:
  explicit done_at_end(F what) noexcept : what_(std::move(what)) {}
  done_at_end(const done_at_end&) = delete;
  done_at_end& operator=(const done_at_end&) = delete;
  ~done_at_end() { what_(); }

 private:
  F what_;
};

/// Has it done, once and in any case, by who may wait for room in what goes to that node: the
/// looker must not, and writes no arrays into the store. Also when the line of that node is closed,
/// by who drops it; here, when there is no memory or no thread, or no such node (0).
template <class F>
void do_aside_surely(std::uint64_t node, F what) noexcept {
  std::shared_ptr<done_at_end<F>> soon;
  try {
    soon = std::make_shared<done_at_end<F>>(std::move(what));
  } catch (...) {
    return what();  // was not moved from: there was no place to
  }
  try {
    if (node != 0) node_things::global().do_aside(node, [held = std::move(soon)] {});
  } catch (...) {
    return;  // it was done as that ended
  }
}

}  // namespace manta::inline v0::node
