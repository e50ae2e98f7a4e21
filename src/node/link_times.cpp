// SPDX-License-Identifier: Apache-2.0
#include "node/link_times.hpp"

#include <chrono>
#include <limits>
#include <new>

namespace manta::inline v0::node {

link_times& link_times::global() {
  static auto* const made = new link_times;
  return *made;
}

void link_times::clear() noexcept {
  const std::lock_guard lock(mutex_);
  arrivals_.clear();
  leaving_.clear();
  sent_.clear();
  sent_count_.store(0);
  paces_.clear();
  has_any_.store(false);
}

sched::byte_pace link_times::of(std::uint64_t from, std::uint64_t to) const noexcept {
  if (from == to || !has_any()) return {};
  const std::lock_guard lock(mutex_);
  return paces_.of({from, to}, base::now());
}

void link_times::lost(std::uint64_t node) noexcept {
  const std::lock_guard lock(mutex_);
  paces_.lost(node);
  std::erase_if(sent_, [node](const auto& one) { return one.first.first == node; });
  sent_count_.store(sent_.size());
  leaving_.forget(node);
  has_any_.store(!paces_.is_empty());
}

void link_times::begins(std::uint64_t node) {
  const std::lock_guard lock(mutex_);
  arrivals_.begins(node, base::now());
}

void link_times::begins_again(std::uint64_t node) noexcept {
  const std::lock_guard lock(mutex_);
  arrivals_.begins_again(node, base::now());
}

std::optional<sched::transfer> link_times::came(std::uint64_t node, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  const base::time_point now = base::now();
  const auto out = arrivals_.came(node, bytes, now);
  if (out.has_value()) note({node, 0}, *out, now);
  return out;
}

std::optional<sched::transfer> link_times::ends(std::uint64_t node) noexcept {
  const std::lock_guard lock(mutex_);
  const base::time_point now = base::now();
  const auto out = arrivals_.ends(node, now);
  if (out.has_value()) note({node, 0}, *out, now);
  return out;
}

// Under the mutex.
void link_times::note(const sched::link& on, const sched::transfer& what,
                      base::time_point now) noexcept {
  try {
    paces_.saw(on, what, now);
    has_any_.store(!paces_.is_empty());
  } catch (const std::bad_alloc&) {
    return;  // the next one counts
  }
}

void link_times::sends(std::uint64_t node, std::uint64_t number, std::uint64_t bytes) noexcept {
  if (!sched::is_telling_message(bytes)) return;
  const std::lock_guard lock(mutex_);
  try {
    if (!sent_.try_emplace({node, number}, bytes).second) return;
    sent_count_.store(sent_.size());
    leaving_.begins(node, base::now());
  } catch (const std::bad_alloc&) {
    return;  // it is not measured
  }
}

void link_times::unsent(std::uint64_t node, std::uint64_t number) noexcept {
  if (sent_count_.load() == 0) return;
  const std::lock_guard lock(mutex_);
  if (sent_.erase({node, number}) == 0) return;
  sent_count_.store(sent_.size());
  const base::time_point now = base::now();
  if (const auto is = leaving_.ends(node, now)) note({0, node}, *is, now);
}

// Sequentially consistent, as in sends: who has an answer of what was sent finds the count.
void link_times::has_come(std::uint64_t node, std::uint64_t number) noexcept {
  if (sent_count_.load() == 0) return;
  const std::lock_guard lock(mutex_);
  const auto found = sent_.find({node, number});
  if (found == sent_.end()) return;
  const std::uint64_t bytes = found->second;
  sent_.erase(found);
  sent_count_.store(sent_.size());
  const base::time_point now = base::now();
  const auto part = leaving_.came(node, bytes, now);
  if (part.has_value()) note({0, node}, *part, now);
  if (const auto rest = leaving_.ends(node, now)) note({0, node}, *rest, now);
}

void link_times::hear(std::uint64_t node, const transfer_note& said) noexcept {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<duration::rep>::max());
  if (said.took_ns > most) return;
  const sched::transfer what{said.bytes, duration(static_cast<duration::rep>(said.took_ns))};
  const std::lock_guard lock(mutex_);
  note({0, node}, what, base::now());
}

}  // namespace manta::inline v0::node
