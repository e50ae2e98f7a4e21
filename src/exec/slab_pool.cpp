// SPDX-License-Identifier: Apache-2.0
#include "slab_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <new>

#include <manta/base/clock.hpp>

namespace manta::inline v0::exec {

namespace {

constexpr std::size_t region_bytes = 4U * 1024U * 1024U;
constexpr std::int64_t decay_interval_ns = 200'000'000;

std::int64_t now_ns() { return std::chrono::nanoseconds(base::now().time_since_epoch()).count(); }

}  // namespace

slab_pool& slab_pool::global() {
  static slab_pool* const pool = new slab_pool;
  return *pool;
}

void* slab_pool::acquire() {
  const std::lock_guard lock(mutex_);
  decay();
  if (touched_.empty() && untouched_.empty()) map_region();
  std::vector<void*>& from = touched_.empty() ? untouched_ : touched_;
  void* slab = from.back();
  from.pop_back();
  low_water_ = std::min(low_water_, touched_.size());
  ++in_use_;
  return slab;
}

void slab_pool::release(void* slab) noexcept {
  const std::lock_guard lock(mutex_);
  --in_use_;
  touched_.push_back(slab);  // capacity was reserved when the slab was mapped
  decay();
}

void slab_pool::release_pages() noexcept {
  const std::lock_guard lock(mutex_);
  drop_pages(touched_.size());
  low_water_ = 0;
}

block_usage slab_pool::usage() noexcept {
  const std::lock_guard lock(mutex_);
  return {(in_use_ + touched_.size()) * slab_bytes, touched_.size() * slab_bytes};
}

void slab_pool::map_region() {
  // One slab more than needed, so that a run of aligned slabs fits whatever address comes back.
  constexpr std::size_t count = region_bytes / slab_bytes;
  const std::size_t known = in_use_ + touched_.size() + untouched_.size();
  touched_.reserve(known + count);
  untouched_.reserve(known + count);
  void* raw = mmap(nullptr, region_bytes + slab_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) throw std::bad_alloc();
  const auto address = reinterpret_cast<std::uintptr_t>(raw);
  const std::uintptr_t first = (address + slab_bytes - 1) & ~(slab_bytes - 1);
  for (std::size_t i = count; i-- > 0;) {
    untouched_.push_back(reinterpret_cast<void*>(first + i * slab_bytes));
  }
}

void slab_pool::decay() noexcept {
  const std::int64_t now = now_ns();
  if (now - last_decay_ns_ < decay_interval_ns) return;
  last_decay_ns_ = now;
  drop_pages(low_water_);
  low_water_ = touched_.size();
}

void slab_pool::drop_pages(std::size_t count) noexcept {
  for (; count > 0 && !touched_.empty(); --count) {
    void* slab = touched_.back();
    touched_.pop_back();
    madvise(slab, slab_bytes, MADV_DONTNEED);
    untouched_.push_back(slab);
  }
}

}  // namespace manta::inline v0::exec
