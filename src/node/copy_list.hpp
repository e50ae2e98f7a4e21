// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>

#include <manta/base/clock.hpp>
#include <manta/node/array_block.hpp>

// Copies of arrays with a hold each, by when they were used: those used last are at the end.
//
// Threads: externally synchronised. A block may end when it is dropped, and with it much else: what
// is taken out is dropped by drop_all, when that lock is free again.

namespace manta::inline v0::node {

/// `Name`: what its owner finds one by, and takes out of its own maps.
template <class Name>
class copy_list {
 public:
  struct entry {
    Name name = {};
    array_block* block = nullptr;  // with a hold
    std::uint64_t bytes = 0;
    base::time_point used{};
  };
  using entries = std::list<entry>;
  using iterator = typename entries::iterator;

  copy_list() = default;
  copy_list(const copy_list&) = delete;
  copy_list& operator=(const copy_list&) = delete;

  std::uint64_t bytes() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return all_.size(); }
  /// The one used least lately.
  iterator oldest() noexcept { return all_.begin(); }

  /// Moves the only entry of `one` to the end, with a hold of its own; iterators to it stay good.
  void add(entries& one) noexcept {
    one.front().block->hold();
    bytes_ += one.front().bytes;
    all_.splice(all_.end(), one);
  }
  void use(iterator which, base::time_point now) noexcept {
    which->used = now;
    all_.splice(all_.end(), all_, which);
  }
  /// With a hold.
  array_block* give(iterator which, base::time_point now) noexcept {
    use(which, now);
    which->block->hold();
    return which->block;
  }
  /// Uses all of which is_one(name) is true.
  template <class Test>
  void use_all(base::time_point now, const Test& is_one) noexcept {
    std::size_t left = all_.size();  // those that are moved come behind them
    for (auto at = all_.begin(); left > 0; --left) {
      const auto which = at++;
      if (is_one(which->name)) use(which, now);
    }
  }
  void take_out(iterator which, entries& into) noexcept {
    bytes_ -= which->bytes;
    into.splice(into.end(), all_, which);
  }
  /// Whether the oldest was not used for so long.
  bool has_unused(base::time_point now, duration kept_for) const noexcept {
    return !all_.empty() && now - all_.front().used >= kept_for;
  }
  /// When that will be true next, if ever.
  base::deadline due(duration kept_for) const noexcept {
    if (all_.empty()) return {};
    return all_.front().used + kept_for;
  }
  void take_all(entries& into) noexcept {
    bytes_ = 0;
    into.splice(into.end(), all_);
  }
  static void drop_all(const entries& taken) noexcept {
    for (const entry& one : taken) one.block->drop();
  }

 private:
  entries all_;
  std::uint64_t bytes_ = 0;
};

}  // namespace manta::inline v0::node
