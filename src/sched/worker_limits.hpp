// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// How long an isolated worker is kept, and how much memory it may have.
//
// What a worker has leaked, or a library keeps there, goes with its process: so it may be replaced
// between two tasks, after so many of them or when it has grown. Past its limit it is ended at
// once, whatever runs there, before the machine has to choose whom to end.
//
// Pure: what was measured goes in, what is to be done comes out. Threads: immutable.

namespace manta::inline v0::sched {

/// One who uses memory, for people.
struct memory_user {
  std::string name;
  std::int64_t resident_bytes = 0;
};

struct worker_limits {
  std::size_t tasks = 0;          ///< that one worker is given; 0: as many as come
  std::int64_t grown_bytes = 0;   ///< resident, past which it is replaced; 0: never
  std::int64_t memory_bytes = 0;  ///< resident, past which it is ended; 0: never

  /// What was measured of a worker.
  struct measure {
    std::int64_t resident_bytes = 0;
    bool is_busy = false;  ///< a task runs there, or an actor lives there
    bool has_actor = false;
    /// Of a task or an actor with a limit of its own: what its worker has had since it began, and
    /// that limit; 0: none.
    std::int64_t own_bytes = 0;
    std::int64_t own_limit = 0;
  };
  enum class verdict : std::uint8_t {
    keep,
    replace,  ///< it gets no more tasks, and goes when it has none
    end,      ///< at once: what runs there has cost it its life
  };

  bool measures_memory() const noexcept { return grown_bytes > 0 || memory_bytes > 0; }
  /// Whether that was the last task for a worker which was given so many.
  bool is_last(std::size_t given) const noexcept { return tasks > 0 && given >= tasks; }
  verdict judge(const measure& of) const noexcept;
  /// Why one was ended, with who uses most.
  std::string describe(const measure& of, std::vector<memory_user> all) const;
};

/// "too much memory: used 812 MiB of 512 MiB; largest workers: ..., ...".
std::string describe_overuse(std::int64_t used_bytes, std::int64_t limit_bytes,
                             std::vector<memory_user> all);

}  // namespace manta::inline v0::sched
