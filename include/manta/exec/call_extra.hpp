// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/exec/context.hpp>
#include <manta/exec/job.hpp>
#include <manta/exec/resource_gate.hpp>
#include <manta/exec/timer.hpp>
#include <manta/spec/error.hpp>
#include <manta/spec/options.hpp>

// What only a call with options has.
//
// Problem. Few calls carry options, and each option would make every task larger; a template
// argument for them would compile every task twice.
//
// Idea. The options of a call lie before its job in the same block, and a bit of the job's word
// says so (job.hpp). One task type serves both; a call without options neither has them nor looks
// for them: the bit is in words that are read anyway.
//
// Threads: written before the job is known to others; then attempt and retries_left belong to the
// runner, failure to the deadline's thread until the job is ready, the timer to itself.

namespace manta::inline v0::exec {

struct MANTA_API call_extra : timer_entry {
  call_extra();
  ~call_extra();
  call_extra(const call_extra&) = delete;
  call_extra& operator=(const call_extra&) = delete;

  /// The job has ended by its runner: the timer is not needed any more.
  void ended() noexcept;
  /// The queue's hold of a job that will not run is given up: what it asked for goes back.
  void entry_dropped() noexcept;
  /// `j` was ended before it ran: when it waits for resources, its entry goes now.
  void withdrawn(job* j) noexcept;
  /// Whether a user's exception may make it run again, so that its arguments have to be kept.
  bool may_repeat() const noexcept { return retry && retries_left > 0; }

  job* of = nullptr;  // whose it is
  base::time_point deadline = no_deadline;
  std::unique_ptr<std::string> name;
  std::unique_ptr<resource_claim> claim;  // null: it asked for nothing
  exception_filter retry;
  std::uint32_t retries_left = 3;
  std::uint32_t attempt = 0;
  priority level = priority::normal;
  bool losable = false;
  bool is_outside = false;  // runs in another process (outside.hpp); set before others know the job
  bool tells_begin = false;                 // with its number, to outside::began
  bool enforces_memory = false;             // the memory of its claim is a limit
  std::optional<isolation_mode> isolation;  // asked for
  std::optional<error> failure;
  std::uint64_t number = 0;  // in the worker that runs it: of the message that asked; 0: none
  // What its work in another process delegated to, with a hold; see delegation.hpp.
  std::atomic<job*> stands_for{nullptr};
};
static_assert(sizeof(call_extra) <= job::extra_size);

/// Whether a call made now has an extra though it was given no options: its caller has a deadline,
/// which it inherits.
inline bool inherits_extra() noexcept { return this_thread.current->deadline != no_deadline; }

/// Where a call's options come from; neither: only what is inherited.
struct extra_source {
  const options* task = nullptr;
  const call_options* call = nullptr;
};
extern MANTA_API const extra_source inherited_extra;

/// Makes an extra at `at`, the start of a block of at least job::extra_size. Throws std::bad_alloc.
MANTA_API void make_extra(char* at, const extra_source& from);
MANTA_API void drop_extra(char* at) noexcept;

/// Until when a call that was made now, with these options (null: none), may be held up.
MANTA_API base::deadline limit_of_call(const call_options* with);

/// Begins to watch the deadline, if it has one, of a job with extra that was just submitted; the
/// caller has a hold of it. Throws std::bad_alloc, std::system_error: the call goes on unwatched.
MANTA_API void watch_deadline(job* j);

/// job_ops::ready of tasks: queues it, unless it was withdrawn or has to wait for what it asked
/// for.
MANTA_API void ready_task(job* j) noexcept;

/// A failed job's runner asks whether it runs again. True: the error is gone, its attempt counted.
MANTA_API bool take_retry(job* j) noexcept;

}  // namespace manta::inline v0::exec
