// SPDX-License-Identifier: Apache-2.0
#include <manta/sched/pool.hpp>

#include <algorithm>

#include <manta/base/check.hpp>

namespace manta::inline v0::sched {

namespace {

constexpr std::int64_t whole = 1000;

template <class Entry>
std::int64_t seen(const Entry& e, horizon when) noexcept {
  switch (when) {
    case horizon::now:
      return e.free;
    case horizon::soon:
      return e.free + e.active;
    case horizon::ever:
      return e.total;
  }
  return 0;
}

// What of each gpu a need takes.
std::int64_t share_of(std::int64_t gpus) noexcept { return std::min(gpus, whole); }

}  // namespace

void pool::add(kind of, std::int64_t total) { accounts_.push_back({of, total, total, 0}); }
void pool::add_gpu(int index, std::int64_t share) { gpus_.push_back({index, share, share, 0}); }

pool::account* pool::find(kind of) noexcept {
  for (account& a : accounts_) {
    if (a.of == of) return &a;
  }
  return nullptr;
}

const pool::account* pool::find(kind of) const noexcept {
  return const_cast<pool*>(this)->find(of);
}

pool::gpu* pool::find_gpu(int index) noexcept {
  for (gpu& g : gpus_) {
    if (g.index == index) return &g;
  }
  return nullptr;
}

bool pool::fits(const need& asked, horizon when) const noexcept {
  for (const part& p : asked.parts) {
    const account* const a = find(p.of);
    if (a == nullptr || seen(*a, when) < p.amount) return false;
  }
  if (asked.gpus == 0) return true;
  const std::int64_t share = share_of(asked.gpus);
  const auto good = std::count_if(gpus_.begin(), gpus_.end(),
                                  [&](const gpu& g) { return seen(g, when) >= share; });
  return static_cast<std::size_t>(good) >= gpu_count(asked.gpus);
}

// The fullest one that fits: what is left stays in as few pieces as can be.
pool::gpu* pool::roomiest_fit(std::int64_t share) noexcept {
  gpu* best = nullptr;
  for (gpu& g : gpus_) {
    if (g.free >= share && (best == nullptr || g.free < best->free)) best = &g;
  }
  return best;
}

void pool::take(const need& asked, std::vector<int>& gpus) noexcept {
  for (const part& p : asked.parts) {
    account* const a = find(p.of);
    MANTA_CHECK(a != nullptr && a->free >= p.amount);
    a->free -= p.amount;
  }
  const std::int64_t share = share_of(asked.gpus);
  for (std::size_t left = gpu_count(asked.gpus); left > 0; --left) {
    gpu* const g = roomiest_fit(share);
    MANTA_CHECK(g != nullptr && gpus.size() < gpus.capacity());
    g->free -= share;
    gpus.push_back(g->index);
  }
}

void pool::give(const need& asked, const std::vector<int>& gpus) noexcept {
  for (const part& p : asked.parts) {
    account* const a = find(p.of);
    a->free += p.amount;
    MANTA_CHECK_VALUE(a->free <= a->total, a->free);
  }
  for (const int index : gpus) {
    gpu* const g = find_gpu(index);
    g->free += share_of(asked.gpus);
    MANTA_CHECK_VALUE(g->free <= g->total, g->free);
  }
}

void pool::count_active(const need& asked, const std::vector<int>& gpus, int sign) noexcept {
  for (const part& p : asked.parts) find(p.of)->active += sign * p.amount;
  for (const int index : gpus) find_gpu(index)->active += sign * share_of(asked.gpus);
}

void pool::lend_cpus(const need& asked, int sign) noexcept {
  for (const part& p : asked.parts) {
    if (p.of == cpu_kind) find(p.of)->free += sign * p.amount;
  }
}

void pool::absorb(const pool& child) noexcept {
  for (const account& from : child.accounts_) {
    account* const to = find(from.of);
    to->free += from.free;
    to->active += from.active;
  }
  for (const gpu& from : child.gpus_) {
    gpu* const to = find_gpu(from.index);
    to->free += from.free;
    to->active += from.active;
  }
}

void pool::reset() noexcept {
  for (account& a : accounts_) {
    a.free = a.total;
    a.active = 0;
  }
  for (gpu& g : gpus_) {
    g.free = g.total;
    g.active = 0;
  }
}

void pool::note_lent(std::int64_t& was, std::int64_t now) noexcept {
  account* const a = find(cpu_kind);
  if (a == nullptr) return;
  a->free -= was;
  was = std::clamp<std::int64_t>(now, 0, std::max<std::int64_t>(a->total - a->free, 0));
  a->free += was;
}

void pool::name_gpus(const std::vector<int>& indices) noexcept {
  MANTA_CHECK(indices.size() == gpus_.size());
  for (std::size_t i = 0; i < gpus_.size(); ++i) gpus_[i].index = indices[i];
}

void pool::look_ahead(horizon when) noexcept {
  for (account& a : accounts_) a.free = seen(a, when);
  for (gpu& g : gpus_) g.free = seen(g, when);
}

std::int64_t pool::load() const noexcept {
  std::int64_t most = 0;
  const auto look = [&most](std::int64_t total, std::int64_t free) {
    // In doubles: bytes times 1000 may not fit.
    if (total <= 0) return;
    const double used = static_cast<double>(total - free) / static_cast<double>(total);
    most = std::max(most, static_cast<std::int64_t>(used * 1000.0));
  };
  for (const account& a : accounts_) look(a.total, a.free);
  std::int64_t total = 0;
  std::int64_t free = 0;
  for (const gpu& g : gpus_) {
    total += g.total;
    free += g.free;
  }
  look(total, free);
  return most;
}

}  // namespace manta::inline v0::sched
