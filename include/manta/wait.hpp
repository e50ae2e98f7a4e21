// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <iterator>
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
  std::vector<future<T>> ready;
  std::vector<future<T>> pending;
};

namespace detail {

template <class T>
exec::job* const* jobs_of(const std::vector<future<T>>& futures) noexcept {
  static_assert(sizeof(future<T>) == sizeof(exec::job*) && std::is_standard_layout_v<future<T>>);
  return reinterpret_cast<exec::job* const*>(futures.data());
}

}  // namespace detail

/// Returns as soon as `how.count` of the futures are ready (with a value or an error), or after
/// `how.timeout` with what is ready then. `ready` has at most `count` futures, the first ones that are;
/// all others are in `pending`. Runs nothing on this thread; a worker lends its core while it waits.
///
/// Throws invalid_argument for a count above the number of futures, for an empty future and for one that
/// is listed twice. Any thread. Cost: linear in the number of futures looked at; pass an rvalue to move
/// the futures instead of counting them.
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
  auto kept = futures.begin();
  const auto end = futures.begin() + static_cast<std::ptrdiff_t>(found.end);
  for (auto f = kept; f != end; ++f) {
    if (out.ready.size() < found.count && f->is_ready()) {
      out.ready.push_back(std::move(*f));
    } else {
      if (kept != f) *kept = std::move(*f);
      ++kept;
    }
  }
  futures.erase(kept, end);
  out.pending = std::move(futures);
  return out;
}

template <class T>
wait_result<T> wait(const std::vector<future<T>>& futures, const wait_options& how = {}) {
  return wait(std::vector<future<T>>(futures), how);
}

/// The values of all futures, in their order. Throws the error of the first one that failed. Copies the
/// values; an rvalue vector's are moved where nobody else holds them.
template <class T>
std::vector<T> get(const std::vector<future<T>>& futures) {
  std::vector<T> values;
  values.reserve(futures.size());
  for (const future<T>& f : futures) values.push_back(f.get());
  return values;
}
template <class T>
std::vector<T> get(std::vector<future<T>>&& futures) {
  std::vector<T> values;
  values.reserve(futures.size());
  for (future<T>& f : futures) values.push_back(std::move(f).get());
  futures.clear();
  return values;
}
inline void get(const std::vector<future<void>>& futures) {
  for (const future<void>& f : futures) f.get();
}

/// The same with a limit for all together: throws timed_out when one is not ready then. An error that is
/// there already is thrown at once, whatever else is pending.
template <class T>
std::vector<T> get(const std::vector<future<T>>& futures, duration timeout) {
  exec::wait_all_or_failure(detail::jobs_of(futures), futures.size(), timeout);
  std::vector<T> values;
  values.reserve(futures.size());
  for (const future<T>& f : futures) values.push_back(f.get(duration::zero()));
  return values;
}
inline void get(const std::vector<future<void>>& futures, duration timeout) {
  exec::wait_all_or_failure(detail::jobs_of(futures), futures.size(), timeout);
  for (const future<void>& f : futures) f.get(duration::zero());
}

}  // namespace manta::inline v0
