// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include <manta/exec/block_pool.hpp>

namespace manta::inline v0::exec {

inline constexpr std::size_t slab_bytes = 64U * 1024U;

/// Where empty slabs live. Slabs are cut from mapped regions of 4 MiB, which stay mapped; pages go
/// back by MADV_DONTNEED. Touched slabs are handed out first: a page fault costs more than the work
/// that a block is for.
///
/// What is kept follows need: every 200 ms the number of touched slabs that nobody asked for in
/// that time (the low-water mark) loses its pages. Any thread; one short lock per slab, not per
/// block.
class slab_pool {
 public:
  /// The process's pool; never destroyed, since blocks may outlive everything else.
  static slab_pool& global();

  void* acquire();
  void release(void* slab) noexcept;
  /// Returns the pages of every touched slab.
  void release_pages() noexcept;
  block_usage usage() noexcept;

 private:
  void map_region();
  void decay() noexcept;
  void drop_pages(std::size_t count) noexcept;

  std::mutex mutex_;
  std::vector<void*> touched_;
  std::vector<void*> untouched_;
  std::size_t in_use_ = 0;
  std::size_t low_water_ = 0;
  std::int64_t last_decay_ns_ = 0;
};

}  // namespace manta::inline v0::exec
