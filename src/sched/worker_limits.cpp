// SPDX-License-Identifier: Apache-2.0
#include "sched/worker_limits.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace manta::inline v0::sched {

namespace {

constexpr std::size_t most_named = 3;

// Up, so that what is past a limit looks like it.
std::int64_t mib(std::int64_t bytes) noexcept {
  constexpr std::int64_t one = std::int64_t{1} << 20U;
  return (bytes + one - 1) / one;
}

}  // namespace

worker_limits::verdict worker_limits::judge(const measure& of) const noexcept {
  if (memory_bytes > 0 && of.resident_bytes > memory_bytes) {
    return of.is_busy ? verdict::end : verdict::replace;
  }
  if (of.own_limit > 0 && of.own_bytes > of.own_limit) return verdict::end;
  // An actor's object is what its process is for.
  const bool has_grown = grown_bytes > 0 && of.resident_bytes > grown_bytes;
  return has_grown && !of.has_actor ? verdict::replace : verdict::keep;
}

std::string worker_limits::describe(const measure& of, std::vector<memory_user> all) const {
  const bool is_own = memory_bytes == 0 || of.resident_bytes <= memory_bytes;
  return is_own ? describe_overuse(of.own_bytes, of.own_limit, std::move(all))
                : describe_overuse(of.resident_bytes, memory_bytes, std::move(all));
}

std::string describe_overuse(std::int64_t used_bytes, std::int64_t limit_bytes,
                             std::vector<memory_user> all) {
  std::ranges::stable_sort(all, [](const memory_user& a, const memory_user& b) {
    return a.resident_bytes > b.resident_bytes;
  });
  std::string text =
      fmt::format("too much memory: used {} MiB of {} MiB; largest workers: ", mib(used_bytes),
                  mib(limit_bytes));
  for (std::size_t i = 0; i < std::min(all.size(), most_named); ++i) {
    text += fmt::format("{}{} {} MiB", i == 0 ? "" : ", ", all[i].name, mib(all[i].resident_bytes));
  }
  return text;
}

}  // namespace manta::inline v0::sched
