// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <manta/base/export.hpp>

// Memory for jobs: one block per task, taken and given back at millions per second.
//
// Problem. A task's block is made by the thread that submits and mostly freed by it too, but some
// are freed by the worker. General allocators pay 45-95 ns when a block changes threads, and a
// plain free list never gives a burst's memory back.
//
// Idea. Each thread has a heap; a heap has slabs of 64 KiB, each of one block size. A block's slab
// is found by masking its address. The owner frees onto a plain list; others push onto the slab's
// atomic list, which the owner takes whole when it runs dry.
//
//   heap (one thread)            slab, 64 KiB aligned
//   class 64 B:  current ------> | owner, local list, used | remote list (atomic) | blocks ...
//                others  ------> | ...
//   class 128 B: ...             empty slabs go to the process-wide pool, which returns pages
//                                to the system when they were not needed for a while
//
// Invariants: (1) only the owner of a heap touches a slab's local list and counts; (2) a block is
// on at most one list; (3) a slab goes back to the pool only when all its blocks are free.
// Limits: blocks above 1 KiB come from operator new. A thread's heap is handed to the next new
// thread when its thread ends, so there are as many heaps as there were threads at once.
// With AddressSanitizer in the program every block comes from operator new, so that it can watch.

namespace manta::inline v0::exec {

/// A block of at least `bytes`, aligned to 64. Throws std::bad_alloc. Any thread.
[[nodiscard]] MANTA_API void* allocate_block(std::size_t bytes);

/// Frees a block; `bytes` as it was asked for. Any thread.
MANTA_API void free_block(void* block, std::size_t bytes) noexcept;

/// Takes in what other threads freed of this thread's blocks and hands empty slabs to the pool.
/// Call it where the thread is about to sleep. Cost: linear in this thread's slabs.
MANTA_API void trim_blocks() noexcept;

/// Returns the pages of all unused slabs to the system, those of ended threads' heaps included. Any
/// thread; call it when nothing happened for a while.
MANTA_API void release_unused_blocks() noexcept;

/// What the pool holds, for tests and statistics. Any thread.
struct block_usage {
  std::size_t held_bytes = 0;    ///< slabs with pages, in use or kept
  std::size_t unused_bytes = 0;  ///< of these, kept for the next burst
};
MANTA_API block_usage usage_of_blocks() noexcept;

namespace testing {
/// Makes the n-th next allocation of this thread (1 = the next) throw; 0 turns it off.
MANTA_API void fail_allocation(int n) noexcept;
}  // namespace testing

}  // namespace manta::inline v0::exec
