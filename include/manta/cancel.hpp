// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/exec/context.hpp>
#include <manta/future.hpp>

// Stopping work that nobody needs any more: by hand, and by time.

namespace manta::inline v0 {

/// How cancel goes about it.
struct cancel_options {
  /// Also cancels what the task called, and what those called, as far as it has not ended.
  bool recursive = true;
  /// Ends what runs even when it does not look. A thread can't be ended from outside: inside one
  /// process this throws manta::unsupported; it needs isolated workers.
  bool force = false;
};

namespace detail {

MANTA_API bool cancel_job(exec::job* j, const cancel_options& how);

}  // namespace detail

/// Cancels the work behind a future. Work that has not begun never runs, and its future ends with
/// manta::cancelled at once; work that runs is asked to stop: it finds out by this_task::check,
/// this_task::is_cancelled or its stop token, and goes on if it never looks. A value that it still
/// returns is the future's. A future that stands for another one's work (delegation) cancels that.
/// Waits of what is asked to stop end at once with manta::cancelled where they are co_await, a
/// stream's next, or a channel's, a semaphore's or a barrier's; get and wait go on.
///
/// True when the work had not ended: it was cancelled or asked to stop. False when it had, or when
/// the future is nobody's work (a part of split, a monitor, a group's ready): nothing changes.
/// Throws invalid_argument for an empty future and unsupported for `force`. Any thread; stop
/// callbacks run on this one. Cost: one compare-and-swap for queued work, a lock and a look at all
/// threads for running work.
template <class T>
bool cancel(const future<T>& f, const cancel_options& how = {}) {
  if (!f.valid()) detail::raise_empty_future();
  return detail::cancel_job(detail::access::job(f), how);
}

/// Cancels each of them; gives the number that had not ended.
template <class T>
std::size_t cancel(const std::vector<future<T>>& futures, const cancel_options& how = {}) {
  std::size_t count = 0;
  for (const future<T>& f : futures) count += cancel(f, how) ? 1 : 0;
  return count;
}

/// While it lives, the calls that this caller makes have to end within a time: they get its
/// deadline as if each had been given a timeout, unless they have an earlier one. Tasks pass their
/// deadline on to what they call in the same way.
///
///     const manta::deadline_scope within(200ms);
///     auto answer = manta::remote<search>(query);   // timed_out in 200 ms at the latest
///
/// Scopes nest: an inner one can only be earlier. Construct and destroy it in the same task or on
/// the same thread of the driver, in reverse order. Throws invalid_argument for a time that is not
/// above 0, and no_runtime.
class MANTA_API deadline_scope {
 public:
  /// Begins the scope: `within` from now, more than 0. Throws invalid_argument and no_runtime.
  explicit deadline_scope(duration within);
  ~deadline_scope();
  deadline_scope(const deadline_scope&) = delete;
  deadline_scope& operator=(const deadline_scope&) = delete;

 private:
  base::time_point before_;
};

}  // namespace manta::inline v0
