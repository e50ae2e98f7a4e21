// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <manta/base/id.hpp>

// What codec and wire say to each other, who do not know each other: a value that was turned into
// bytes. The views borrow; who made them says for how long.

namespace manta::inline v0::spec {

/// A function of a program: the module (executable or shared library) that has it, named by the
/// first 8 bytes of its build id, and where its entry lies in it.
struct function_id {
  std::uint64_t module = 0;  ///< first 8 bytes of the build id, as a big-endian number
  std::uint64_t offset = 0;  ///< bytes from the module's load address to the entry
  friend constexpr bool operator==(const function_id&, const function_id&) = default;
};

/// What a handle inside of a value stands for.
enum class reference_kind : std::uint8_t {
  future,
  actor,
  weak_actor,
  stream,
  stop_token,
  channel,
  semaphore,
  permit,
  barrier,
  actor_pool,
  placement_group,
  array,
};

/// Where the bytes of an array lie, for processes of one machine.
struct array_place {
  std::uint64_t segment = 0;  ///< the node's name for it; 0: none was said
  std::uint64_t at = 0;       ///< bytes from its begin
  std::uint64_t bytes = 0;
  friend constexpr bool operator==(const array_place&, const array_place&) = default;
};

/// A handle that left with a value: the bytes have only its place in the list of these.
struct reference {
  base::id what;            ///< the task, object or actor
  base::id owner;           ///< who counts its references
  std::uint64_t type = 0;   ///< hash of the spelled type that the handle is of
  std::uint64_t local = 0;  ///< inside its own process: the handle itself, taken once; else 0
  reference_kind kind = reference_kind::future;
  array_place place{};       ///< of an array, between processes
  std::uint64_t values = 0;  ///< inside its own process, of a future: its values' carrier; else 0
  friend constexpr bool operator==(const reference&, const reference&) = default;
};

/// A large range of plain values, which travels beside the bytes.
struct segment_view {
  std::span<const std::byte> bytes;  ///< begins at a multiple of 64 where it is read
  std::uint64_t type = 0;            ///< hash of the spelled element type
  std::uint32_t element_bytes = 1;   ///< size of an element
};

/// An encoded value, borrowed.
struct parcel_view {
  std::span<const std::byte> head;         ///< the bytes of all that is small
  std::span<const segment_view> segments;  ///< in the order in which the head names them
  std::span<const reference> references;   ///< likewise
};

}  // namespace manta::inline v0::spec
