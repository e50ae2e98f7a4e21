// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/exec/job.hpp>
#include <manta/spec/error.hpp>

// Who is told what becomes of jobs.
//
// Problem. What happened is to be written down, and a task of 30 ns can't pay for somebody who
// might want to know.
//
// Idea. What is rare anyway asks for the observer: failures, retries, names. Starts and ends are
// told only when they are watched; then every caller counts as one that may have been cancelled,
// which a run looks at in any case, and the way aside that this leads to tells the observer.
//
// Threads: the observer is set while no runtime runs. It is called on any thread, with locks of the
// engine held: it must not call the engine, block or throw.

namespace manta::inline v0::exec {

struct run_observer {
  /// A call is about to begin, for the first time or again. Only with watches_runs.
  void (*began)(const job& j) noexcept;
  /// Its function has returned or thrown, or its coroutine ended, and it does not run again. Only
  /// with watches_runs.
  void (*ended)(const job& j) noexcept;
  /// The same of one that another process ran, for so long until about now. Not its end if it
  /// `runs_again`: then `retries` follows. Only with watches_runs.
  void (*ran_elsewhere)(const job& j, duration ran, bool runs_again) noexcept;
  /// It failed and is to run again. The attempt is still the one that failed.
  void (*retries)(const job& j, const error& why) noexcept;
  /// A future failed, whether the job ran or not.
  void (*failed)(const job& j, const error& why) noexcept;
  /// An actor has a name, and has lost it.
  void (*named)(const std::string& name, const std::string& name_space, const char* type) noexcept;
  void (*unnamed)(const std::string& name, const std::string& name_space) noexcept;
};

/// Null: nobody. Through it everybody else asks.
extern MANTA_API constinit std::atomic<const run_observer*> observer;
/// Whether starts and ends are told.
extern MANTA_API constinit std::atomic<bool> watches_runs;

inline const run_observer* observing() noexcept { return observer.load(std::memory_order_acquire); }

/// Of a job whose result has come from another process, and is not its future's yet.
inline void tell_run_elsewhere(const job& j, duration ran) noexcept {
  if (!watches_runs.load(std::memory_order_relaxed)) [[likely]]
    return;
  if (const run_observer* const by = observing()) by->ran_elsewhere(j, ran, false);
}

/// Of a job that failed in another process, or was lost with it, and is to run again. The attempt
/// is still that one's.
inline void tell_retry_elsewhere(const job& j, duration ran, const error& why) noexcept {
  const run_observer* const by = observing();
  if (by == nullptr) return;
  if (watches_runs.load(std::memory_order_relaxed)) by->ran_elsewhere(j, ran, true);
  by->retries(j, why);
}

}  // namespace manta::inline v0::exec
