// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <manta/exec/wait_many.hpp>
#include <manta/future.hpp>
#include <manta/spec/options.hpp>

// Waiting for some of many futures, and getting many.

namespace manta::inline v0 {

/// What wait found, both in the order they had.
template <class T>
struct wait_result {
  std::vector<future<T>> ready;    ///< ended, with a value or an error; `count` at most
  std::vector<future<T>> pending;  ///< all others
};

namespace detail {

/// The position of the first job that is ready, when one is within the timeout.
[[nodiscard]] MANTA_API std::optional<std::size_t> first_ready(
    exec::job* const* jobs, std::size_t n, const std::optional<duration>& timeout);

template <class T>
exec::job* const* jobs_of(const std::vector<future<T>>& futures) noexcept {
  static_assert(sizeof(future<T>) == sizeof(exec::job*) && std::is_standard_layout_v<future<T>>);
  return reinterpret_cast<exec::job* const*>(futures.data());
}

/// Removes the elements from `first` up to `last`, which are empty futures. A future is one
/// pointer, so those behind move as bytes: one by one would make a loop over `wait` cost a
/// multiple.
template <class T>
void close_gap(std::vector<future<T>>& futures, std::size_t first, std::size_t last) {
  const std::size_t gap = last - first;
  const std::size_t behind = futures.size() - last;
  auto* const bytes = reinterpret_cast<unsigned char*>(futures.data());
  constexpr std::size_t one = sizeof(future<T>);
  std::memmove(bytes + first * one, bytes + last * one, behind * one);
  std::memset(bytes + (first + behind) * one, 0, gap * one);
  futures.resize(futures.size() - gap);
}

}  // namespace detail

/// Returns as soon as `how.count` of the futures are ready (with a value or an error), or after
/// `how.timeout` with what is ready then. `ready` has at most `count` futures, the first ones that
/// are; all others are in `pending`. Runs nothing on this thread; a worker lends its core while it
/// waits.
///
/// Throws self_wait for a wait of an actor for itself that can't end, and invalid_argument for a
/// count above the number of futures (an empty list is answered at once), for an empty future and
/// for one that is listed twice. Any thread. Cost: linear in the number of futures looked at; pass
/// an rvalue to move the futures instead of counting them.
template <class T>
wait_result<T> wait(std::vector<future<T>>&& futures, const wait_options& how = {}) {
  const exec::ready_prefix found =
      exec::wait_many(detail::jobs_of(futures), futures.size(), how.count, how.timeout);
  wait_result<T> out;
  out.ready.reserve(found.count);
  if (found.count == futures.size()) {
    out.ready = std::move(futures);
    return out;
  }
  // Up to found.end the two kinds are mixed; behind it all stay pending.
  std::size_t kept = 0;
  for (std::size_t i = 0; i < found.end; ++i) {
    if (out.ready.size() < found.count && futures[i].is_ready()) {
      out.ready.push_back(std::move(futures[i]));
    } else {
      std::swap(futures[kept++], futures[i]);
    }
  }
  detail::close_gap(futures, kept, found.end);
  out.pending = std::move(futures);
  return out;
}

/// The same for a list that stays: its futures are copied.
template <class T>
wait_result<T> wait(const std::vector<future<T>>& futures, const wait_options& how = {}) {
  return wait(std::vector<future<T>>(futures), how);
}

/// Returns as soon as one of the futures, whose types may differ, has ended (with a value or an
/// error): its position, the lowest one if several have. Runs nothing on this thread; a worker
/// lends its core while it waits. Throws as wait does. Any thread. Cost: linear in the number of
/// futures.
template <class... T>
std::size_t wait_any(const future<T>&... futures) {
  static_assert(sizeof...(T) > 0, "manta::wait_any: pass at least one future");
  const std::array<exec::job*, sizeof...(T)> jobs{detail::access::job(futures)...};
  return *detail::first_ready(jobs.data(), jobs.size(), std::nullopt);
}
/// The same with a limit: empty when none had ended after `timeout`. Zero asks without waiting.
template <class... T>
std::optional<std::size_t> wait_any(duration timeout, const future<T>&... futures) {
  static_assert(sizeof...(T) > 0, "manta::wait_any: pass at least one future");
  const std::array<exec::job*, sizeof...(T)> jobs{detail::access::job(futures)...};
  return detail::first_ready(jobs.data(), jobs.size(), timeout);
}

/// The values of all futures, in their order. Throws the error of the first one that failed. Copies
/// the values; an rvalue vector's are moved where nobody else holds them.
template <class T>
std::vector<T> get(const std::vector<future<T>>& futures) {
  std::vector<T> values;
  values.reserve(futures.size());
  for (const future<T>& f : futures) values.push_back(f.get());
  return values;
}
/// The same; the list is empty afterwards, and values that nobody else holds are moved out.
template <class T>
std::vector<T> get(std::vector<future<T>>&& futures) {
  std::vector<T> values;
  values.reserve(futures.size());
  for (future<T>& f : futures) values.push_back(std::move(f).get());
  futures.clear();
  return values;
}
/// Waits for all of them. Throws the error of the first one that failed.
inline void get(const std::vector<future<void>>& futures) {
  for (const future<void>& f : futures) f.get();
}
/// The same for a list that nobody needs any more.
inline void get(std::vector<future<void>>&& futures) {
  for (const future<void>& f : futures) f.get();
  futures.clear();
}

/// The same with a limit for all together: throws timed_out when one is not ready then. An error
/// that is there already is thrown at once, whatever else is pending.
template <class T>
std::vector<T> get(const std::vector<future<T>>& futures, duration timeout) {
  detail::time_limit limit(timeout);
  static_cast<void>(limit.end());  // it begins here
  exec::wait_all_or_failure(detail::jobs_of(futures), futures.size(), timeout);
  std::vector<T> values;
  values.reserve(futures.size());
  for (const future<T>& f : futures) values.push_back(detail::access::get_within(f, limit));
  return values;
}
/// The same with a limit for all together, as above.
inline void get(const std::vector<future<void>>& futures, duration timeout) {
  exec::wait_all_or_failure(detail::jobs_of(futures), futures.size(), timeout);
  for (const future<void>& f : futures) f.get(duration::zero());
}

}  // namespace manta::inline v0
