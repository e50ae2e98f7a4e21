// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <manta/spec/config.hpp>
#include <manta/spec/history.hpp>

#include "control/store.hpp"
#include "node/recorder.hpp"

// The control store of this process's runtime, and what the runtime itself writes there: its job,
// the functions of its program, named actors, events.
//
// Problem. Whoever runs tasks must not wait for a store, and a store must stay bounded whatever
// runs.
//
// Idea. One thread writes. It sleeps until the recorder rings, gives events 20 ms to gather, takes
// all there are and commits them, many in one value. Events beyond most_kept_events of a job go,
// oldest first, and are counted; at the start so do jobs beyond most_kept_jobs, with their events,
// and the actors of runtimes that are gone. Between writes it takes away the keys whose time has
// come. Reads of the history queue up for the same thread, which first writes what was told before.
//
// Threads: open and close: who starts and ends the runtime; the rest: any.

namespace manta::inline v0::node {

inline constexpr std::size_t most_kept_events = 262144;
inline constexpr std::size_t most_kept_jobs = 1000;
inline constexpr std::size_t events_in_a_value = 1024;

class journal {
 public:
  static journal& global();

  /// Opens the store that `settings` name and begins to record. Throws what a store that can't be
  /// opened says. While no runtime runs.
  void open(const config& settings);
  /// Writes the end of the job down and closes the store. After the last job ended.
  void close(std::uint64_t tasks_run) noexcept;

  /// The store, which outlives the runtime with who holds it, closed; null while none is open.
  std::shared_ptr<control::store> store() const;
  /// The name of this job; empty while none runs.
  std::string job() const;

  /// Calls `what` on the journal's thread when all that was told before is in the store. False when
  /// none is open.
  bool after_writing(std::function<void(control::store&)> what);
  /// A key has been written that goes at this time; see control/expiry.hpp.
  void note_end(wall_time at);
  /// Drops `what` on the journal's thread, or when the store is closed.
  void end_later(std::shared_ptr<void> what);

 private:
  struct chunk {
    std::uint64_t number = 0;
    std::size_t events = 0;
  };

  static void ring() noexcept;
  void wait_for_work(std::unique_lock<std::mutex>& lock);
  void sweep_ends(std::size_t most);
  void write_all() noexcept;
  template <class Step>
  void try_to(const Step& step) noexcept;
  void write_told();
  void introduce();
  void forget_old();
  void forget_functions();
  std::size_t add_events(control::batch& to, const std::vector<control::event_row>& rows);
  void add_names(control::batch& to, const std::vector<recorder::name_change>& names);
  bool commit(control::batch what);
  control::change job_change() const;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<control::store> store_;
  job_record row_;
  bool has_news_ = false;
  bool is_ending_ = false;
  std::optional<wall_time> next_end_;
  std::vector<std::function<void(control::store&)>> asked_;
  std::vector<std::shared_ptr<void>> ending_;
  std::thread writer_;
  // The writer's.
  std::deque<chunk> chunks_;
  std::size_t kept_ = 0;
  std::uint64_t next_chunk_ = 0;
  std::uint64_t dropped_ = 0;
  bool has_sweep_failed_ = false;
  std::optional<errc> commit_failed_;  // how the last one did, and it was said
  bool has_lost_ = false;              // and said so
};

}  // namespace manta::inline v0::node
