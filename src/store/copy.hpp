// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

// Copies of what is too large for any cache.
//
// Problem. A plain copy reads each line of its destination before it writes it, and throws out of
// the caches what others had there. One core does not have all of a machine's bandwidth, and where
// pages are new, the kernel clears them on one core only.
//
// Idea. From a size on lines are written past the caches (streaming stores), and from another one
// on the destination is divided between some threads, which are started for it.
//
// Threads: any; returns when all is written.

namespace manta::inline v0::store {

/// From so many bytes on lines are written past the caches.
inline constexpr std::size_t stream_from = std::size_t{4} << 20U;
/// Each thread has at least so many.
inline constexpr std::size_t copy_piece = std::size_t{4} << 20U;
/// More than memory can feed.
inline constexpr std::size_t most_copiers = 8;

/// Copies as many bytes as `to` has. With fewer threads when no more can be started.
void copy_large(std::span<std::byte> to, const std::byte* from) noexcept;

/// The same by this thread alone.
void copy_streaming(std::span<std::byte> to, const std::byte* from) noexcept;

}  // namespace manta::inline v0::store
