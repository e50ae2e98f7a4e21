// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <manta/base/id.hpp>

// What the control store tells about runs: this one and, where it lies on a disk, earlier ones.

namespace manta::inline v0 {

/// A time of day, to the microsecond.
using wall_time = std::chrono::sys_time<std::chrono::microseconds>;

/// A run of a program: one runtime from its start to its end.
struct job_record {
  std::string id;                    ///< names it in the store; in the order of starts
  std::string program;               ///< the file's name
  std::string host;                  ///< the machine's name
  std::uint32_t pid = 0;             ///< its process there
  std::string version;               ///< of manta
  std::uint32_t workers = 0;         ///< as it was started
  wall_time started{};               ///< when
  std::optional<wall_time> ended{};  ///< none: it runs still, or its process was killed
  std::uint64_t functions = 0;       ///< hash of the list of its functions
  std::uint64_t tasks_run = 0;       ///< at its end
  std::uint64_t events_dropped = 0;  ///< those that are not in the store any more, at its end
};

/// An actor with a name.
struct actor_record {
  std::string name;        ///< as it was given
  std::string name_space;  ///< likewise
  std::string type;        ///< its class
  std::string job;         ///< the job that made it
  wall_time since{};       ///< when it got the name
};

/// What happens to a task, actor's call or constructor.
enum class event_kind : std::uint8_t {
  start,    ///< its function was called
  end,      ///< its function returned or threw, or its coroutine ended; not of a run before a retry
  retry,    ///< it failed and will run again
  failure,  ///< it failed, by an exception or with the end of what it needed
};

/// Something that happened.
struct event_record {
  wall_time at{};                       ///< when
  event_kind kind = event_kind::start;  ///< what
  /// How often it was run before, at its cost: one that was lost with a worker or node, and is
  /// charged nothing for that, has the same number again.
  std::uint32_t attempt = 0;
  base::id task;     ///< to whom
  base::id parent;   ///< who had called it
  std::string name;  ///< its name, or its function's
  std::string text;  ///< the cause of a retry or a failure
};

}  // namespace manta::inline v0
