// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <manta/exec/observer.hpp>
#include <manta/spec/config.hpp>
#include <manta/spec/history.hpp>

#include "control/rows.hpp"

// Collects what the engine tells of jobs, until the journal writes it down.
//
// Problem. A task's thread must not wait for a store, nor for other tasks' threads.
//
// Idea. Each thread has a list of its own behind a lock that only the journal shares, every 20 ms.
// An event in it is 64 bytes: names are numbers of a list of all names, found through a small table
// of the thread's own. An end that follows its start at once becomes a part of it. When a list is
// full the older half goes, and is counted.
//
// Invariant: a thread's list is in the order of time, but for runs that other processes told of.
//
// Threads: tell functions any, as exec/observer.hpp says; begin, end and take: the journal's.

namespace manta::inline v0::node {

/// The time of day.
inline wall_time wall_now() noexcept {
  return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
}

class recorder {
 public:
  static recorder& global();

  /// Begins to record for a runtime that is about to start. `bell` rings when there is something
  /// for who had taken all; on any thread, with locks of the engine held.
  void begin(event_mode mode, void (*bell)() noexcept);
  /// Nothing is told any more, once no thread runs jobs.
  void end() noexcept;

  /// A named actor that came or went.
  struct name_change {
    actor_record actor;
    bool is_there = false;
  };
  /// What was told since the last time, thread after thread: sorting is left to who reads. Texts
  /// lie here and with the recorder.
  struct batch {
    std::vector<control::event_row> events;
    std::vector<std::unique_ptr<std::string>> texts;
    std::vector<name_change> names;
    std::uint64_t dropped = 0;
  };
  batch take();

 private:
  struct event;
  struct lane;
  struct thread_lane;

  static const exec::run_observer& callbacks() noexcept;
  static lane& this_lane();
  static void tell(event_kind kind, const exec::job& of, const error* why,
                   std::optional<duration> ran = {}, bool has_ended = true) noexcept;
  static void tell_name(const std::string& name, const std::string& name_space, const char* type,
                        bool is_there) noexcept;
  static bool ends_last(lane& in, const event& end);
  void add(event_kind kind, const exec::job& of, const error* why, std::optional<duration> ran,
           bool has_ended);
  std::uint32_t name_of(lane& in, const exec::job& of);
  std::uint32_t number(std::string name);
  void ring() noexcept;
  void add_to(batch& out, event& from) const;

  void (*bell_)() noexcept = nullptr;
  std::atomic<bool> is_rung_{false};
  std::mutex mutex_;  // of all below; taken before a lane's
  std::deque<std::unique_ptr<lane>> lanes_;
  std::vector<lane*> free_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::deque<std::string> names_;
  std::vector<name_change> changes_;
};

}  // namespace manta::inline v0::node
