// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <manta/base/id.hpp>

namespace manta::inline v0::node {

/// The futures of this node (far_futures.hpp) in a message to another one, which stay known until
/// this ends: from then on it counts who has them.
class far_tray {
 public:
  far_tray() = default;
  ~far_tray() { clear(); }
  far_tray(const far_tray&) = delete;
  far_tray& operator=(const far_tray&) = delete;

  void reserve_one() {
    if (all_.size() == all_.capacity()) all_.reserve(2 * all_.size() + 8);
  }
  /// Takes one naming over; after reserve_one.
  void put(const base::id& id) noexcept { all_.push_back(id); }
  void clear() noexcept;

 private:
  std::vector<base::id> all_;
};

}  // namespace manta::inline v0::node
