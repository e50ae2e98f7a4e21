// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>
#include <manta/exec/job.hpp>

#include "base/chance.hpp"
#include "control/store.hpp"
#include "control/task_table.hpp"
#include "node/workbench.hpp"
#include "own/record_limits.hpp"
#include "own/units.hpp"
#include "sched/backoff.hpp"
#include "wire/views.hpp"

// The records of this node's tasks that go to other nodes, or came from them: how each is run
// again.
//
// Problem. A node may be lost with what it ran and what it had; what is to make that again has to
// lie elsewhere by then. Most tasks are over within milliseconds, and who sends one must not pay
// for more than a copy of the message that it has written anyway.
//
// Idea. The message of a task is its recipe. Who sends one has its bytes copied (own/units.hpp) and
// goes on; the job has a bit and the number of its record, so that who destroys it says that it is
// over (exec/named_jobs.hpp). What others may need is told: a thread of its own looks now and then
// (own/record_limits.hpp) what is still there, packs it (control/task_table.hpp) and has it written
// by who has the store, under task/<name>\0<epoch>/ (record_keeper.hpp).
//
//   trade --message--> units --> [writer] table ~~ question task_records ~~> keeper --> store
//   job destroyed -----'
//
// What is told no more than once keeps its place while the store can't be reached or has no room:
// batches go one at a time, a failed one again after a pause that doubles, and nothing is taken
// from the units meanwhile, which have a limit of their own.
//
// A job that comes home is a local one again, without a record. Of what an actor's method makes
// nothing above has one: actors are made again in their own way. A task with large ranges that went
// through the store, beside its message, has none: the message does not have all of it.
//
// Threads: any, but as said. The mutex is taken last, and nothing is called under it.

namespace manta::inline v0::node {

class record_keeper;

class task_records {
 public:
  static task_records& global();

  struct settings {
    std::string name = {};     ///< of this member
    std::uint64_t epoch = 0;   ///< and its number
    bool has_main = false;     ///< the job ends with it
    bool hosts_store = false;  ///< else the head is asked, if it answers
  };
  /// While a runtime shares its work, until close. Throws std::system_error, std::bad_alloc.
  void open(const settings& how);
  /// This node leaves in order: nothing is noted any more, and the head is told so, while it can
  /// be asked still.
  void leave() noexcept;
  /// After the last job that it may know.
  void close() noexcept;
  /// The same when no other node writes any more: with the job all records go.
  void end_job() noexcept;

  /// What goes into the message of a task, of its arguments: the same whenever a job makes the same
  /// call. Zero: that can't be said of them.
  static base::id digest_of(const spec::parcel_view& arguments);

  // Of tasks that leave, by who has claimed one.
  own::units::ancestor above(const exec::job& j) noexcept;
  /// Its message is written, and about to be sent; answers the bits to set. Without memory, or
  /// beyond the limits, it has no record.
  std::uint64_t left(exec::job* j, const own::units::ancestor& under, workbench& on) noexcept;
  /// It is about to be this node's again.
  void came_home(exec::job* j) noexcept;
  /// See named_jobs.
  void unrecorded(exec::job* j) noexcept { over(number_in(*j)); }

  // Of tasks that come. 0: it has none.
  own::units::number came(const wire::task_view& task, std::span<const std::byte> message) noexcept;
  /// A job of this node is others' to ask for: whose record it keeps. 0: none.
  own::units::number lent(const exec::job& j) noexcept;
  /// Each of these numbers, once.
  void over(own::units::number of) noexcept;

  struct counts {
    std::size_t units = 0;      ///< now
    std::size_t bytes = 0;      ///< of those
    std::uint64_t refused = 0;  ///< had no room, here or, values of them, in the store
    std::uint64_t writes = 0;   ///< batches so far
    std::size_t stored = 0;     ///< bytes that the store has of it, as far as it has answered
  };
  counts count() const;

 private:
  task_records() = default;

  static own::units::number number_in(const exec::job& j) noexcept {
    return static_cast<own::units::number>(j.needs.load(std::memory_order_relaxed));
  }
  own::units::recipe recipe_of(const own::units::ancestor& under, workbench& on) const;
  void ring(std::unique_lock<std::mutex>& lock) noexcept;
  void run() noexcept;
  bool has_more(std::unique_lock<std::mutex>& lock);
  void note(own::units::work& work);
  void say_farewell() noexcept;
  static void note_caller(const base::id& self, const base::id& caller) noexcept;
  void pack_sparse();
  bool send_all();
  bool give_up_puts(control::batch& of) noexcept;
  result<void> commit(const control::batch& what);
  void say_once(const error& why) noexcept;

  std::atomic<bool> is_open_{false};
  std::atomic<std::size_t> guests_{0};
  std::atomic<std::uint64_t> refused_{0};  // by the table, or the store
  std::atomic<std::uint64_t> writes_{0};
  std::atomic<std::size_t> stored_{0};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<own::units> units_;
  std::uint8_t life_ = 0;
  bool is_rung_ = false;
  bool is_ending_ = false;
  bool has_told_ = false;  // something was written
  bool has_left_ = false;  // the writer, after it has said so
  std::thread writer_;

  // The writer's.
  settings self_;
  std::string prefix_;
  std::optional<control::task_table> table_;
  std::vector<control::task_ticket> tickets_;  // by the number's lower bits
  std::deque<control::batch> unsent_;
  base::chance chance_{1};
  sched::backoff between_tries_{own::record_limits::between_writes,
                                own::record_limits::longest_pause};
  duration pause_{};  // before the next one
  int failures_ = 0;  // in a row
  bool has_spoken_ = false;
};

}  // namespace manta::inline v0::node
