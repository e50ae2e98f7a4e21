// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <manta/node/array_block.hpp>
#include <manta/spec/parcel.hpp>

#include "node/workbench.hpp"

// Large ranges inside of values (a std::vector<double> of many MiB) between a node and its workers.
//
// Problem. A frame has a limit, and its bytes go through a ring of a MiB, a piece at a time, with
// both sides awake. Arrays have neither trouble.
//
// Idea. Such a range becomes an array of nobody: it is copied into the store once, and goes as a
// reference behind those that the value itself has, one for each segment that says no bytes, in
// their order. Who reads it copies it out of the store into the value, and gives the array back.
//
//   segments    [ 100 KiB ] [ - ] [ - ]
//   references  actor 7, array 3 (the value's), array 8 (segment 1), array 9 (segment 2)
//
// When the store has no room the range goes as its bytes, as others do; so nothing depends on it.
//
// To a node of this machine, which reads arrays in place (far_arrays.hpp), they go the same way,
// and what is too long for a message has to.

namespace manta::inline v0::node {

/// From so many bytes on they go through the store, whose pages were mostly written before.
inline constexpr std::size_t large_from_node = std::size_t{1} << 20U;
/// The same from a worker, whose first segments have new pages.
inline constexpr std::size_t large_from_worker = std::size_t{16} << 20U;

/// A value whose ranges are more than so many, or have more bytes together, has none of them in its
/// message, however small they are.
inline constexpr std::size_t most_ranges = 256;
inline constexpr std::size_t most_in_message = std::size_t{32} << 20U;

/// Moves the large ranges of a value into the store. `on` has them, and the list of segments, until
/// the message is sent.
void pack_large(workbench& on, spec::parcel_view& value);
/// The same for a message to another node, of those that it would read there; while the store has
/// room for them, which is waited for only when no message could have the value. Throws store_full.
void pack_for_node(workbench& on, spec::parcel_view& value);

/// A value that came, with its large ranges where they lie. Throws decode_failed.
class opened_parcel {
 public:
  explicit opened_parcel(const spec::parcel_view& came);
  ~opened_parcel();
  opened_parcel(const opened_parcel&) = delete;
  opened_parcel& operator=(const opened_parcel&) = delete;
  const spec::parcel_view& view() const noexcept { return view_; }

 private:
  void drop_all() noexcept;
  spec::parcel_view view_;
  std::vector<spec::segment_view> segments_;
  std::vector<array_block*> held_;
};

}  // namespace manta::inline v0::node
