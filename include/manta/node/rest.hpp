// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/node/array_block.hpp>

// Values with arrays that nobody reads.
//
// Problem. A handle keeps an array's values in memory. Results and objects that wait for somebody
// to read them have handles, too, so without more they could never go to the disk.
//
// Idea. While nobody reads a value that lies in a cell, its handles are replaced by stand-ins,
// which keep the array alive and not in memory. Who wants to read it says so first: all of its
// arrays, and those of whatever else is wanted together with it, come back in one request, and the
// handles are put back. When the last reader has ended they are replaced again, unless the value
// has been seen: then somebody may have a reference to it for as long as there is a future.
//
//     stored --put_to_rest--> at rest --begin_reading--> awake (n readers) --see--> awake for good
//                                ^------- end_reading, the last -'
//
// An array of a result may have stayed in the node that made it (node/far_pulls.hpp). Who wants to
// read it waits until its bytes have come, once; who only hands it on to a node that finds it need
// not. Its handle stays the same, so that both may go on at a time.
//
// Which handles a value has is found by its type (manta/at_rest.hpp).
// Threads: any. No lock is held while a disk or for room is waited for.

namespace manta::inline v0::node {

/// What a cell notes of its value.
class rest_note {
 public:
  /// Whether its handles stay: nobody has to ask any more.
  bool is_seen() const noexcept { return is_seen_.load(std::memory_order_acquire); }
  /// Whether some of its arrays may be in the node that made them; of a value that is ready.
  bool may_be_away() const noexcept { return may_be_away_.load(std::memory_order_relaxed); }

 private:
  friend class rest_steps;
  std::mutex mutex_;
  std::uint32_t readers_ = 0;
  bool is_at_rest_ = false;
  std::atomic<bool> may_be_away_{false};  // some of its arrays; written under the mutex
  // Release: who finds it set without the lock finds the handles, too.
  std::atomic<bool> is_seen_{false};
};

/// Who is to read a value: 0 this node, the number of another one, or a cell in any other.
inline constexpr std::uint64_t any_cell = UINT64_MAX;

/// A value in a cell: its note, and how its handles are visited, each as `each(to, handle)`; none
/// is null. `as_handles`: another node's reader gets these, and not what they stand for.
struct rested {
  rest_note* note = nullptr;
  void* value = nullptr;
  void (*visit)(void* value, void (*each)(void* to, array_block*& handle), void* to) = nullptr;
  bool as_handles = false;
};

/// By who has put a value into its cell, or replaced it: its arrays may leave memory.
MANTA_API void put_to_rest(const rested& what) noexcept;
/// All of these are read from now on, until end_reading; or none. Waits for room up to
/// config::store_wait_ms, for the disk, and, but not longer than `until`, for the node where an
/// array has stayed, unless `reader` finds that itself. False: that was too short; none is read.
/// Throws store_full, object_lost, node_lost, cancelled, std::bad_alloc.
MANTA_API bool begin_reading(std::span<const rested> all, std::uint64_t reader = 0,
                             const base::deadline& until = {});
/// The same when all of it is in memory. False: it would take time, or fail.
MANTA_API bool try_begin_reading(std::span<const rested> all, std::uint64_t reader = 0);
MANTA_API void end_reading(const rested& what) noexcept;
/// Calls each(to, handle) for its handles as they are at that moment.
MANTA_API void look_at_arrays(const rested& what, void (*each)(void* to, array_block*& handle),
                              void* to);
/// It is read from now on, as long as it exists. As begin_reading.
MANTA_API bool see(const rested& what, const base::deadline& until = {});

}  // namespace manta::inline v0::node
