// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>
#include <manta/exec/job.hpp>
#include <manta/exec/parker.hpp>
#include <manta/exec/theft.hpp>
#include <manta/spec/error.hpp>

#include "base/chance.hpp"
#include "base/id_hash.hpp"
#include "life/membership.hpp"
#include "node/desk.hpp"
#include "node/early_messages.hpp"
#include "node/far_handles.hpp"
#include "node/far_streams.hpp"
#include "node/peers.hpp"
#include "node/reading_stop.hpp"
#include "node/stop_note.hpp"
#include "node/trip.hpp"
#include "sched/overflow.hpp"
#include "sched/resting_nodes.hpp"
#include "sched/vain_looks.hpp"
#include "wire/frame.hpp"
#include "wire/views.hpp"

// Tasks that go from this node's queues to other nodes, and those of others that are run here.
//
// Problem. A task is queued where it is made, by who knows of nobody else; when more wait here than
// elsewhere some should go, and whatever becomes of the other node each has to end once.
// Idea. Who submits asks nobody. One thread, the giver, looks at the queues once a millisecond
// while workers run, and not at all else. What lies above the level (sched/overflow.hpp) it takes
// as a worker would, claims it, writes it and sends it; the job stays here, with its arguments,
// until the other node has answered. When that is lost before, the job is pending once more and
// runs here, or goes to the next. Another thread, the looker, handles what comes back: who writes
// a value for a second holds nobody's result up (decisions/0057).
//
//   here:   queue --take--> [giver] --task--> peers ~~~> there: errand --run--> job
//           future <--fill-- [looker] <~~~~~~~ peers <--result--'
//
// What users' code reads and writes is done by these two and by workers, not on the loop's thread.
// Of a generator the items come before its result (far_streams.hpp).
// What has handles in it that can't go (streams, permits) stays where it is: that is found out
// when it is written, and kept in the job.
//
// A task that comes from elsewhere is a job like any other here; it has no way out once more, so it
// moves once at most. It ends early when who gave it ends. One that would wait here for long, and
// was not told to run here, goes back before anybody has read it.
//
// Threads: any.

namespace manta::inline v0::node {

class trade final : public exec::far_thief, public peers::visitor {
 public:
  static trade& global();

  /// For tests.
  struct eagerness {
    bool gives_all;      ///< that may go, and at once
    bool gives_actors;   ///< those that don't say where they live
    std::size_t awaits;  ///< so many others, for a while
  };
  /// What others have.
  struct offers {
    bool are_taken = false;    ///< tasks and actors that ask for amounts or labels go there
    std::size_t expected = 0;  ///< how many others there are to be; 0: any number may join
  };
  /// While a runtime runs: takes tasks of others, and gives them some, until call_back. Throws
  /// std::system_error.
  void open(peers& with, std::uint32_t workers, offers of_others,
            eagerness for_tests = {false, false, 0});
  /// Before the executor stops, with the door closed: nothing goes any more, and what is away is
  /// asked to stop. What has not begun, and with `at_once` all, ends with `ended_error`.
  void call_back(bool at_once) noexcept;
  /// After it: waits for what is still away.
  void close() noexcept;

  /// What others give from now on goes back to them: this node is about to leave.
  void close_door() noexcept;
  /// Whether there are tasks of others here, or what came of them has not arrived there.
  bool has_guests() const noexcept;

  void woken() noexcept override;
  void stop(exec::job* j, bool with_children) noexcept override;
  void stop_children() noexcept override;
  void flow(exec::job* generator, std::uint64_t taken, std::uint32_t credits) noexcept override;
  bool take_all(exec::job* j) noexcept override;
  std::uint64_t place(const options& asked, const spec::demand& what) override;
  void take_placed(exec::job* j) noexcept override;
  /// How many tasks other nodes have had of this one so far.
  std::uint64_t given() const noexcept { return given_.load(); }
  void on_message(peers& by, std::uint64_t from, const base::id& request,
                  const peers::kept_message& message) override;
  void on_gone(peers& by, std::uint64_t node, const std::string& why) override;
  void on_news(peers& by) override;
  void on_begin(peers& by) override;
  void on_joined(peers& by, const spec::node_member& one) override;
  base::deadline on_turn(peers& by, base::time_point now) override;
  bool takes_offers() const noexcept { return takes_offers_.load(); }
  /// Of a job whose nodes are still joining: waits for one that can give that, for a while.
  void await_offers(const spec::demand& what, const placement& where) const;
  /// The same for all of them.
  void await_nodes() const;
  /// The loop's thread looks what is due, soon.
  void turn_soon() noexcept;
  /// See goes_to_its_data.
  bool follows_data(exec::job* j) noexcept;
  /// Whether the calling thread is the looker or the giver. What others have given, or are to get,
  /// goes through these two: neither waits for what another node has to do, but for word that the
  /// loop hears by itself.
  static bool is_own_thread() noexcept;

  // For far_rings.cpp.
  /// The node that has a task of this one, and the number it was given by; zeros: none.
  std::pair<std::uint64_t, std::uint64_t> where_is(const exec::job* j) const noexcept;
  /// Ends one of those with an error, whatever comes of it there.
  void end_flight(std::uint64_t node, std::uint64_t number, const error& why) noexcept;
  /// Whether a job here is a task of another node.
  bool has_visit(const exec::job* j) const noexcept;
  /// That node's, of that number, with a hold; null: it is not here, or not read yet.
  exec::job* visitor(std::uint64_t from, std::uint64_t number) const noexcept;

 private:
  trade() = default;

  /// A task of this node that another one has; it has the queue entry's hold.
  struct flight {
    exec::job* job = nullptr;
    std::uint64_t node = 0;
    std::uint32_t attempt = 0;
    std::uint64_t number = 0;  // of the request that gave it
    base::id task = {};
    bool may_come_back = false;  // at once, since it would wait there
  };
  // By number: a parent that runs again names its tasks as before.
  using flights = std::unordered_map<std::uint64_t, flight>;
  /// A task of another node that runs here.
  struct visit {
    std::uint64_t node = 0;
    std::uint64_t number = 0;  // that node's, of the request: others' tasks may have the same id
    base::id task = {};
    std::uint32_t attempt = 0;
    base::time_point at{};
    exec::job* job = nullptr;  // with a hold, while it is in here; null: it is being read
    bool is_in_line = true;    // no worker has come to it yet
    bool is_stopped = false;   // meanwhile
    bool is_answered = false;  // that it is cancelled: it was being read, which may take long
    bool is_unwanted = false;  // its node counts as lost here; it need not know that
    reading_stop* reading = nullptr;  // what ends its waits while it is read
    std::uint32_t unit = 0;           // its record: task_records.hpp
    bool asks = false;                // for amounts, and waits for them first
    bool has_begun = false;           // of one that does not
  };
  struct late_answer;
  /// A result that came, or an answer.
  struct landed {
    std::uint64_t from = 0;
    base::id request;
    peers::kept_message message;
    std::shared_ptr<far_arrivals> came;
  };
  /// A node that is lost.
  struct lost_node {
    std::uint64_t node = 0;
    std::string why;
    std::uint64_t last_request = 0;  // that was given before
  };

  void start_threads();
  void join_threads() noexcept;
  void run(const char* name, void (trade::*work)() noexcept) noexcept;
  void give_all() noexcept;
  // The looker's thread.
  void hear_all() noexcept;
  void land() noexcept;
  void hand_out(const landed& one) noexcept;
  // trade_streams.cpp
  far_reader reader_of(std::uint64_t node, std::uint64_t number) const noexcept;
  void on_item(std::uint64_t from, std::uint64_t stream,
               std::span<const std::byte> message) noexcept;
  static void hear_flow(std::uint64_t from, std::uint64_t stream,
                        std::span<const std::byte> message);
  void end_generator(std::uint64_t node, std::uint64_t stream, const error& why) noexcept;
  // trade_overflow.cpp
  void look(base::time_point at) noexcept;
  std::vector<sched::overflow_peer> others(base::time_point at, std::size_t most);
  void give(std::uint64_t to, std::uint64_t tasks) noexcept;
  void on_refusal(std::uint64_t from, exec::job* j, const wire::result_view& came) noexcept;
  /// The loop's thread: how long a task waits here that may go back; zero: it is taken.
  duration too_long_a_wait() noexcept;
  // large: too much to move, as far as is known now of how long tasks take. waits: for arrays or
  // for room, which this thread must not.
  enum class outcome : std::uint8_t { given, stays, large, waits, full, gone };
  outcome give_one(std::uint64_t to, exec::job* j) noexcept;
  outcome give_claimed(std::uint64_t to, exec::job* j, error* why) noexcept;
  outcome send_away(std::uint64_t to, exec::job* j, std::uint64_t& noted, bool is_placed);
  static bool is_granted(const exec::job& j) noexcept;
  bool is_worth_moving(const workbench& on, const exec::job& j, bool is_surplus);
  static bool may_leave(const exec::job& j) noexcept;
  static bool may_go(const exec::job& j) noexcept;
  static bool comes_back(exec::job* j, bool stays) noexcept;
  void stop_if_cancelled(exec::job* j) noexcept;
  // trade_data.cpp
  static bool may_follow_data(const exec::job& j) noexcept;
  std::uint64_t node_of_data(exec::job* j);
  duration wait_here() const noexcept;
  duration wait_there(const peers::member& one) const noexcept;
  void follow_data(std::uint64_t to, exec::job* j) noexcept;
  static bool asks_for_more(const exec::call_extra& with) noexcept;
  // Those that say where they run: trade_placed.cpp.
  std::uint64_t next_in_turn();
  static desk::departure may_be_elsewhere(const exec::job& j) noexcept;
  static std::uint64_t data_of(const exec::job& j) noexcept;
  bool give_placed(std::uint64_t to, exec::job* j, error& why) noexcept;
  bool leave_to_giver(exec::job* j) noexcept;
  void place_granted() noexcept;
  void place_now(exec::job* j) noexcept;
  void place_claimed(exec::job* j) noexcept;
  bool place_by_errand(exec::job* j, error& why) noexcept;
  static error leaves_error() noexcept;
  static error why_not_there(const exec::job& j, const wire::result_view& came) noexcept;
  static error lost_with_node(const exec::job& of) noexcept;
  // Of a run that was begun elsewhere: whether that is told, and whether it is charged.
  enum class lost_run : std::uint8_t { none, free, charged };
  void goes_nowhere(exec::job* j, const error& why, lost_run of = lost_run::none) noexcept;
  static void asks_again(exec::job* j, const error& why);
  void go_on_here(exec::job* j, const error& why, lost_run of) noexcept;
  void see_offers(peers& by) noexcept;
  void forget_lost(const std::vector<lost_node>& nodes) const noexcept;
  static std::uint32_t attempt_of(const exec::job& j) noexcept;

  // Workers.
  using bytes_view = std::span<const std::byte>;
  using sent_back = wire::result_view::sent_back;
  void on_result(std::uint64_t from, bytes_view message) noexcept;
  using visitor_key = std::pair<std::uint64_t, std::uint64_t>;  // node, number
  struct key_hash {
    std::size_t operator()(const visitor_key& of) const noexcept {
      return base::id_hash{}({of.first, of.second});
    }
  };
  void hear(peers& by, std::uint64_t from, const base::id& request,
            const peers::kept_message& message) noexcept;
  void take_in(peers& by, const visitor_key& who, const peers::kept_message& message,
               std::shared_ptr<far_arrivals> came, std::optional<duration> wait = {});
  void run_visit(peers& by, const visitor_key& who, peers::kept_message message,
                 const std::shared_ptr<far_arrivals>& came, bool may_go_back) noexcept;
  void send_home(peers& by, const visitor_key& who, bytes_view message,
                 const way_back& how = {.runs_at_home = true}) noexcept;
  bool leaves_line(const visitor_key& who) noexcept;
  bool comes_in(const visit& of, reading_stop& reading) noexcept;
  bool sits_down(const visit& of);
  void answer(peers& by, const visit& of) noexcept;
  void answer_when_ready(peers& by, const visit& of) noexcept;
  visit takes_leave(const visitor_key& who) noexcept;
  void ends(const visit& of) noexcept;
  void refuse(peers& by, const visit& of, const error& why, const way_back& how) noexcept;
  void say_refusal(peers& by, const visit& of, const error& why, const way_back& how) noexcept;
  void return_all() noexcept;
  void end_flights() noexcept;
  void lose_flights(std::uint64_t node, std::uint64_t last) noexcept;
  void stop_visits(std::uint64_t node) noexcept;
  void ask_to_stop(const flight& of, bool with_children) noexcept;

  std::optional<flight> take_flight(std::uint64_t number, std::uint64_t node) noexcept;
  flight flight_of(const exec::job* j) const noexcept;
  void stop_visit(peers& by, std::uint64_t from, const stop_note& asked) noexcept;

  std::atomic<peers*> peers_{nullptr};
  base::time_point next_sweep_{};  // the loop's thread only
  std::uint32_t workers_ = 1;
  std::thread looker_;
  exec::parker nap_;  // the looker's
  std::thread giver_;
  exec::parker giver_nap_;
  std::atomic<bool> is_open_{false};
  std::atomic<bool> is_asleep_{false};  // the giver
  std::atomic<bool> is_closing_{false};
  std::atomic<bool> is_door_open_{false};
  // The giver's.
  sched::service_pace pace_;
  sched::overflow_window window_;
  std::uint64_t offered_ = 0;              // tasks that went of themselves
  std::atomic<std::uint64_t> refused_{0};  // of these, came back at once: the looker says so
  sched::vain_looks vain_looks_;
  base::chance chance_{1};
  // What it saw last, and what has come since.
  std::atomic<std::uint64_t> in_line_{0};
  std::atomic<std::int64_t> task_ns_{0};
  std::atomic<std::uint64_t> came_{0};
  std::atomic<bool> gives_all_{false};  // in the check mode
  early_messages early_;                // the loop's

  mutable std::mutex mutex_;
  std::condition_variable is_home_;  // a flight has ended, after call_back
  flights away_;
  std::unordered_map<const exec::job*, std::uint64_t> numbers_;  // of away_
  std::unordered_map<std::uint64_t, std::uint32_t> sent_;        // how many of away_, by node
  std::unordered_map<visitor_key, visit, key_hash> visits_;
  std::vector<landed> landed_;
  std::vector<exec::job*> granted_;    // what other nodes have, for the giver to send
  std::vector<lost_node> lost_nodes_;  // whose actors the looker ends
  sched::resting_nodes full_;          // who sent some back
  bool has_looker_ = false;
  int ready_ = 0;  // of the two threads
  flights lost_;   // of a node that is gone; they are ended, or run again, by the looker

  std::atomic<int> givers_{0};  // threads in take_all
  std::atomic<std::size_t> turn_{0};
  std::atomic<std::uint64_t> places_{0};  // tasks that were to lie spread
  std::atomic<bool> takes_offers_{false};
  std::atomic<std::size_t> expected_{0};  // others; 0: any number
  std::atomic<std::size_t> joined_{0};    // of them, at a time, so far
  std::atomic<std::uint64_t> given_{0};
  std::atomic<std::uint64_t> last_request_{0};
  std::atomic<std::uint64_t> guests_{0};   // tasks of others that have come, and are not answered
  std::atomic<std::uint32_t> reading_{0};  // of these, read just now
};

}  // namespace manta::inline v0::node
