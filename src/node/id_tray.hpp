// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <manta/base/id.hpp>

namespace manta::inline v0::node {

/// The ids of a message that is handled, or written, each given back when this ends.
template <void (*GiveBack)(const base::id& id) noexcept>
class id_tray {
 public:
  id_tray() = default;
  ~id_tray() { clear(); }
  id_tray(const id_tray&) = delete;
  id_tray& operator=(const id_tray&) = delete;

  void reserve_one() {
    if (all_.size() == all_.capacity()) all_.reserve(2 * all_.size() + 8);
  }
  /// Takes one count over; after reserve_one.
  void put(const base::id& id) noexcept { all_.push_back(id); }
  void clear() noexcept {
    for (const base::id& one : all_) GiveBack(one);
    all_.clear();
  }

 private:
  std::vector<base::id> all_;
};

/// The futures and arrays of this node (far_futures.hpp, far_arrays.hpp) in a message to another
/// one: they stay known until it counts who has them.
void far_is_named(const base::id& id) noexcept;
using far_tray = id_tray<&far_is_named>;

/// Those in a message with an isolated worker (future_names.hpp), counted once each.
void give_back_future(const base::id& id) noexcept;
using future_tray = id_tray<&give_back_future>;

}  // namespace manta::inline v0::node
