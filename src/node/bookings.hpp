// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/spec/resources.hpp>

#include "node/peers.hpp"

// What nodes say to each other about placement groups whose bundles lie in several of them.
//
//   maker --book--> each node with a bundle      all have said yes: the group has its place
//         <-yes/no-                              one no: drop to all, and another try
//
// Each try has a number of its own, so that what is said of an older one is not taken for it. A
// node that is asked never waits: it sets the bundles aside at once, or says no. What is said to
// one node comes in its order, so a drop may be said before the answer has come.
// Everything here is said, and heard, by the loop's thread. What follows from it is decided by
// sched/group_steps.hpp, and done by the desk (desk_groups.cpp, desk_guests.cpp).

namespace manta::inline v0::node {

enum class booking_act : std::uint8_t {
  book,  ///< `bundles` are to be set aside
  drop,  ///< they are not needed any more
  yes,   ///< they are set aside
  no,
  lent  ///< so much of a bundle's cpus is lent by who sleeps there
};
struct booked_amount {
  std::string key;
  std::int64_t amount = 0;
};
/// A bundle, by its index in the group. Amounts as in spec::demand.
struct booked_bundle {
  std::uint32_t index = 0;
  std::int64_t cpus = 0;
  std::int64_t gpus = 0;
  std::int64_t memory_bytes = 0;
  std::vector<booked_amount> resources = {};  // in the order of their keys, each once
};
struct booking_note {
  std::uint8_t act = 0;      // a booking_act
  std::uint64_t group = 0;   // the maker's
  std::uint64_t number = 0;  // of the try; the maker's
  std::vector<booked_bundle> bundles = {};
  std::uint32_t bundle = 0;
  std::int64_t cpus = 0;
};
/// One of these for another node.
struct booking_letter {
  std::uint64_t node = 0;
  booking_note what = {};
};

namespace bookings {

/// Whether amounts that came can be those of bundles, each once and each asking for something.
bool are_sound(const std::vector<booked_bundle>& all) noexcept;
booked_bundle bundle_of(std::uint32_t index, const spec::demand& asked);
spec::demand demand_of(const booked_bundle& came);

/// The loop's thread: says what is due; when to be called again.
base::deadline turn(peers& by, base::time_point now);
/// The loop's thread. Throws decode_failed, std::bad_alloc.
void hear(peers& by, std::uint64_t from, std::span<const std::byte> message);

}  // namespace bookings

}  // namespace manta::inline v0::node
