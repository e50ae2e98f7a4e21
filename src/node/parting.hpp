// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <manta/base/clock.hpp>

#include "node/far_arrays.hpp"
#include "node/peers.hpp"

// How a node leaves in order that has arrays which others have not read yet.
//
// Problem. A large array of a result stays where it was made (node/far_pulls.hpp), and goes with
// its node. Who leaves in order has the time to have it fetched before; where, it knows from the
// counts of its handles.
// Idea. It says so to each node that has some and does not map them, and goes when none is left.
// It says it again every now and then: a handle may come to another node just then, and one that
// had no memory may have some. What is read in place is read on when it has gone (decisions/0037).
//
//   leaving: question take_arrays ~~~> holder: fetches, as if somebody read it
//            the counts <~~~~~~~~~~~~~ released
//
// Two that leave at a time fetch each other's, and go; each answers until then.
// Threads: one at a time, not the loop's.

namespace manta::inline v0::node {

class parting {
 public:
  /// null: there are no others.
  explicit parting(peers* others) noexcept : others_(others) {}
  /// Whether nothing is left. Otherwise those who have it have been asked for it.
  bool is_over() noexcept;
  /// What was left, as one line for people; empty: nothing.
  std::string text_of_left(const std::string& name, duration limit) const noexcept;

 private:
  peers* const others_;
  base::time_point next_{};
  far_arrays::stayed left_;
};

}  // namespace manta::inline v0::node
