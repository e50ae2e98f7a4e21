// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/work_books.hpp"
#include "sim/work_handles.hpp"
#include "sim/work_home.hpp"
#include "wire/views.hpp"

namespace sim::work {

/// A node's tasks, as node/desk.cpp and node/trade.cpp have them: a task waits in one line for
/// whichever node has room, and goes to the one whose amounts it was granted, where it asks again;
/// a task that asks for nothing may be sent back (sched::refuses). Who is lost gives nothing more,
/// then comes back with all that it had.
class tasks {
 public:
  tasks(home& of, handles& refs, books& with);
  ~tasks();
  tasks(const tasks&) = delete;
  tasks& operator=(const tasks&) = delete;

  // The workload's.
  struct wish {
    std::int64_t cpus = 0;  ///< 0: it asks for nothing, and goes of itself
    std::uint32_t retries = 0;
    node_number node = 0;  ///< where it is to run; 0: anywhere
    std::vector<id> things = {};
    bool is_probe = false;
  };
  void start(const wish& asked);
  void stop_one();
  std::size_t open() const { return own_.size(); }

  // What others say.
  void hear_task(node_number from, const id& request, const manta::wire::task_view& said,
                 handles::arrivals came);
  void hear_result(node_number from, const manta::wire::result_view& said,
                   const handles::arrivals& came);
  void hear_stop(node_number from, const manta::wire::ask_view& said);
  /// That node is lost: it gives nothing from here on, and what it has here is stopped. Then what
  /// it was given is lost.
  void gone(node_number who);
  void lose_flights(node_number who);
  std::string left() const;

 private:
  struct job;
  using job_ptr = std::unique_ptr<job>;
  using visitor = std::pair<node_number, std::uint64_t>;  // and the number of its request

  void ask(job& of);
  void note_line(entry::what is, const job& of) const;
  void granted(job& of);
  void send(job& of, node_number to);
  void give_back(job& of);
  void run(job& of);
  void leave(job& of);
  void finish(job& of);
  void end(job& of, ending how);
  void answer(job& of, ending how, bool runs_at_home = false);
  void lose_visits(node_number of);
  void go_on_here(job& of);
  job* find(const job* one, std::uint64_t turn) const;

  home& of_;
  handles& refs_;
  books& books_;
  std::map<std::uint64_t, job_ptr> own_;   // by what the log calls them
  std::map<visitor, job_ptr> visits_;      // of others
  std::map<std::uint64_t, job*> flights_;  // by the number of the request that gave them
  std::vector<job_ptr> forgotten_;         // of a broken build, with what they hold
  std::uint64_t turns_ = 0;
  std::uint64_t guests_ = 0;  // that run here and have asked for nothing
};

}  // namespace sim::work
