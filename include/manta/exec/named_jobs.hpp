// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include <manta/base/export.hpp>
#include <manta/exec/job.hpp>

// Jobs that other processes know by a name, and jobs that stand for one of another process.
//
// Problem. A future inside of a value leaves its process as a name. While anybody has that name,
// the job has to stay; and when the job goes, whoever counts has to hear of it. A future that came
// has no value here, and may never need one.
//
// Idea. Two bits of the job's word. `named`: who destroys the block says so first. `unasked`: the
// value is elsewhere; the first who waits for it, or looks whether it is there, takes the bit away
// and asks. Jobs without the bits cost nothing.
//
// A job with one of the bits may go without ever having become ready.
//
// A third bit, `recorded`, is of jobs that another node runs, or ran: who destroys one says so,
// since the record of how it is run again may go then. Which record, says job::needs, which such
// a job has no other use for; 0: it came back, and has none.
//
// Threads: any, all at once; `gone` also under a user's destructor.

namespace manta::inline v0::exec {

struct far_cancel {
  bool with_children = true;
  bool at_once = false;  ///< what runs it ends
  bool waits = false;    ///< the answer is what it became; else it may be true too early
};

struct named_jobs {
  /// Once: the value of an unasked job is wanted. Somebody holds it meanwhile.
  void (*wanted)(job* j) noexcept;
  /// Somebody looks whether such a job is ready, and will not sleep: what came may be taken now.
  void (*looked_at)();
  /// What stands for another process's work is to be cancelled, see cancel_job. False: it had
  /// ended, or is nobody's work.
  bool (*cancel)(job* j, const far_cancel& how) noexcept;
  /// A job here is an unresolved alias of another one, or stands for that now: who else knows both
  /// hears of it. Under delegation_mutex.
  void (*delegates)(job* from, job* to) noexcept;
  /// What an image of another process's job gets its value from, with a hold; null: it is none.
  job* (*behind)(job* image) noexcept;
  /// The value is about to be moved out, by who seems to be its only holder: nobody gets the job by
  /// its name from now on. False: somebody has.
  bool (*taken)(job* j) noexcept;
  /// The last holder has left: nothing but the name may be looked at.
  void (*gone)(job* j) noexcept;
  /// The same of one that is recorded.
  void (*unrecorded)(job* j) noexcept;
};

/// Who knows the names; put here before the first job has one.
extern MANTA_API constinit std::atomic<const named_jobs*> knows_names;

/// Whether the only holder may move the value of a job out.
inline bool may_take(job* j) noexcept {
  return j->is_unique() && ((j->word() & job_bits::named) == 0 || knows_names.load()->taken(j));
}

/// Cancels what nobody runs here. False: it stands for nothing.
inline bool cancel_far(job* j, const far_cancel& how) noexcept {
  if ((j->word() & job_bits::named) == 0 || j->is_ready()) return false;
  return knows_names.load()->cancel(j, how);
}

}  // namespace manta::inline v0::exec
