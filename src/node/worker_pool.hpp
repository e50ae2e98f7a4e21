// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <manta/exec/outside.hpp>
#include <manta/exec/parker.hpp>
#include <manta/spec/config.hpp>
#include <manta/spec/error.hpp>

#include "node/array_names.hpp"
#include "node/future_names.hpp"
#include "node/memory_use.hpp"
#include "node/order_line.hpp"
#include "node/passed_job.hpp"
#include "node/worker_output.hpp"
#include "node/worker_work.hpp"
#include "node/zygote.hpp"
#include "sched/early_deaths.hpp"
#include "sched/patience.hpp"
#include "sched/roster.hpp"
#include "sched/spent_runs.hpp"
#include "sched/worker_grace.hpp"
#include "sched/worker_limits.hpp"
#include "store/lane.hpp"
#include "wire/frame_line.hpp"
#include "wire/worker_line.hpp"

// The isolated workers of a node, seen from the node.
//
// Problem. A call to another process must not cost a thread of this one: each thread between the
// caller and the worker is a wake more. But somebody has to take the results when nobody waits.
//
// Idea. Who submits a task writes it into a worker's ring, and who waits looks into all rings and
// finishes what came, whosever it is (`pump`). One more thread, the collector, does the same once a
// millisecond while anything is under way, sleeps on the rings while nobody else does, and
// otherwise sleeps for good; it also hears of deaths. Which worker gets what: sched/roster.hpp.
//
//   submit:  pending -> (roster: who) -> slot `sent` -> encode -> ring -> bell
//   pump:    ring -> result -> slot free -> decode -> finish -> submit what waits
//   death:   what is left in the ring; then the slot that is `running` with the highest number has
//            cost a run, all others go back to pending as they were
//
// An actor has a worker of its own, which is not the roster's: worker_pool_actors.cpp.
//
// Invariants
//   1. a job is claimed before its message is written, and from then on belongs to its flight: a
//      slot of a worker, or an entry of pending that says so.
//   2. a flight ends once: by its result, by the death of its worker, or by being taken back.
//   3. messages of a worker that knows actors have their effects in their order: one thread at a
//      time handles them, unless a user's code that it runs there begins to wait.
//   4. no lock is held while a user's code runs (encoding, decoding, destructors).
// Threads: any. Locks: mutex_ for what is not atomic; a hand's up_mutex before it, never after.

namespace manta::inline v0::node {

struct actor_question;
struct carrier;
class worker_monitors;
class worker_things;

class worker_pool final : public exec::outside {
 public:
  static worker_pool& global();

  /// Starts with a runtime whose isolation is `processes`, after the zygote and before the
  /// executor: takes_all; or with the first call that needs it. Throws std::system_error: no thread
  /// can be started.
  void open(const config& settings, bool all_calls);
  /// A runtime begins with these settings whose calls run in threads, unless they ask for workers.
  void offer(const config& settings);
  /// One of them does. Throws unsupported (no zygote can be made), cancelled (the runtime ends),
  /// std::system_error.
  void need();
  /// Ends what has not begun, waits for what runs, and lets the workers go. Harmless when not open.
  /// asks_to_stop: what runs is cancelled, as by stop().
  void close(bool asks_to_stop) noexcept;
  /// Whether calls of this process go to isolated workers.
  bool is_open() const noexcept { return is_open_.load(std::memory_order_acquire); }

  using work = pool_work;
  using worker_part = worker_work;
  /// What workers have done in all runtimes of this process, in this one, and each that lives.
  work work_of_all();
  work work_since_open();
  std::vector<worker_part> work_of_each();
  void take(exec::job* j) noexcept override;
  bool sleep(exec::parker& p, const base::deadline& deadline, exec::job* awaited) override;
  bool take_back(exec::job* j, const error& reason) noexcept override;
  void stop(exec::job* j) noexcept override;
  void end(exec::job* j) noexcept override;
  void construct(exec::actor_core* of, exec::job* construction) noexcept override;
  bool must_not_wait(const exec::job* call) const noexcept override;
  bool wakes_at_once(exec::job* call) noexcept override;
  void forward(exec::actor_core* to, exec::job* call, bool has_more) noexcept override;
  bool leave(exec::actor_core* of, exec::leaving how) noexcept override;
  void kill(exec::actor_core* of) noexcept override;
  bool gives_turn(exec::actor_core* /*to*/) noexcept override { return false; }
  void flow(exec::job* generator, std::uint64_t taken, std::uint32_t credits) noexcept override;
  void abandon(exec::job* generator) noexcept override;

 private:
  struct flight;
  struct hand;
  using hand_ptr = std::shared_ptr<hand>;
  struct tenant;
  struct hosted;
  struct waiting {
    exec::job* job = nullptr;
    bool is_claimed = false;  // it was sent before
  };
  /// What a thread looks at: renewed when workers come or go.
  struct view {
    std::uint64_t generation = 0;
    std::vector<hand_ptr> hands;
    sched::patience patience;
  };
  static view& my_view() noexcept;
  const std::vector<hand_ptr>& look();

  // worker_pool.cpp: tasks
  void put_pending(waiting w, bool first);
  bool pop_pending(waiting& w);
  bool has_pending() const noexcept;
  hand_ptr claim_place(exec::job* j, std::uint64_t& number) noexcept;
  void dispatch() noexcept;
  enum class step : std::uint8_t { sent, skipped, nothing, wants_worker };
  step dispatch_one(hand_ptr& to) noexcept;
  std::uint64_t board(hand& to, exec::job* j) noexcept;
  bool send_to(const hand_ptr& to, exec::job* j, std::uint64_t number, bool is_awaited) noexcept;
  void leave(hand& of, flight& f) noexcept;
  void free_place(hand& of, flight& f) noexcept;
  void fail_flight(hand& of, std::uint64_t number, error reason) noexcept;
  bool pump() noexcept;
  void make_room() noexcept;
  bool drain_one(const hand_ptr& from, bool waits = false) noexcept;
  void handle_in_order(const hand_ptr& from, workbench& on) noexcept;
  static void let_others_order() noexcept;
  struct ordering;
  void on_frame(const hand_ptr& from, workbench& on) noexcept;
  exec::job* end_flight(hand& from, const wire::envelope& head,
                        const wire::result_view& arrived) noexcept;
  void finish(exec::job* j, const wire::result_view& arrived,
              std::span<const std::byte> frame) noexcept;
  void on_task(const hand_ptr& from, std::span<const std::byte> frame,
               const wire::message_view& arrived);
  bool repeats(exec::job* j, const wire::result_view& arrived) noexcept;
  void answer(passed_job* j) noexcept;
  void watch_stack(hand& of) noexcept;
  void watch_places(hand& of) noexcept;
  void watch_block(const hand_ptr& of) noexcept;
  void take_back(hand& from) noexcept;
  bool unqueue(const exec::job* j) noexcept;
  bool take_from_another(const exec::job* j) noexcept;
  bool charge_spent(passed_job& j) noexcept;
  bool give_awaited(const hand_ptr& to, std::uint64_t awaits) noexcept;
  bool has_news(const std::vector<hand_ptr>& hands) noexcept;
  void sleep_on_rings(exec::parker& p, base::time_point until) noexcept;
  std::chrono::microseconds spin_time() const noexcept;
  void wake_collector() noexcept;

  // worker_pool_stats.cpp: what was done
  void count(hand& of, duration ran) noexcept;

  // worker_pool_actors.cpp: actors
  hand_ptr house(exec::actor_core* core, exec::job* construction) noexcept;
  std::unique_ptr<tenant> evict(hand& from) noexcept;
  void vacate(const hand_ptr& one) noexcept;
  static void note_gpus(hand& at, exec::actor_core& lives_there) noexcept;
  static error lost_error(const exec::actor_core& of) noexcept;
  bool send_spawn(hand& to, exec::actor_core* of, exec::job* construction);
  void send_call(hand_ptr to, exec::job* call, std::uint64_t number, bool has_more) noexcept;
  hand_ptr take_seat(exec::actor_core* of, exec::job* call, std::uint64_t& number) noexcept;
  void ring_for(const exec::actor_core& of) noexcept;
  bool try_send_call(hand& to, exec::job* call, std::uint64_t number, bool has_more) noexcept;
  exec::job* end_call(hand& from, std::uint64_t number) noexcept;
  bool on_actor_result(const hand_ptr& from, std::uint64_t number, const wire::result_view& arrived,
                       std::span<const std::byte> frame) noexcept;
  void finish_call(exec::job* call, const wire::result_view& arrived,
                   std::span<const std::byte> frame) noexcept;
  static void lend(hand& to, const base::id& what);
  void on_releases(hand& from, const wire::changes_view& changes) noexcept;
  exec::actor_core* on_own_handles(hand& from, std::span<const spec::reference> handles) noexcept;
  static void address(passed_job& j, const hand& from, const wire::call_view& call);
  void adopt(passed_job& j, hand& from, const wire::spawn_view& asked);
  void end_from_afar(hand& from, const wire::actor_end_view& asked) noexcept;
  bool stop_call(exec::job* j) noexcept;
  void order_kill(hand& at) noexcept;
  void keep_late_calls(hand& of) noexcept;
  void after_late_call(const hand_ptr& of) noexcept;
  void on_actor_end(const hand_ptr& from, const wire::actor_end_view& said) noexcept;
  void send_leave(hand& at, workbench& on) noexcept;
  static void fail_calls(std::vector<exec::job*>& calls, exec::actor_core* core,
                         const error& why) noexcept;
  static std::vector<exec::job*> calls_of(tenant& t) noexcept;
  void close_actors(bool asks_to_stop) noexcept;
  void forget_actors() noexcept;

  // worker_pool_restart.cpp: deaths of actors' workers
  bool is_made_anew(const tenant& t) noexcept;
  void expect_restart(hand& dead) noexcept;
  void on_tenant_death(hand& dead, const std::string& how) noexcept;
  bool restart(hand& dead, const std::string& how) noexcept;
  bool move_in(hand& dead, const hand_ptr& into, std::vector<exec::job*>& lost) noexcept;
  void replay_some() noexcept;
  bool replay_some(hand& to) noexcept;
  bool replay_next(hand& to, bool is_last) noexcept;
  static bool is_handling() noexcept;
  void let_replay_pass(const exec::actor_core& of) noexcept;
  void lose_tenant(hand& dead, const std::string& how) noexcept;

  // worker_pool_asks.cpp: questions
  void on_ask(const hand_ptr& from, std::uint64_t number, const wire::ask_view& asked);
  void on_find(const hand_ptr& from, std::uint64_t number, const actor_question& asked);
  void find_afar(const hand_ptr& from, std::uint64_t number, const actor_question& asked);
  void on_monitor(const hand_ptr& from, std::uint64_t number, const wire::ask_view& asked);
  void tell_monitors_of_end() noexcept;
  void on_reservation(const hand_ptr& from, std::uint64_t number, const wire::spawn_view& asked);
  using taking = std::function<exec::actor_core*()>;
  void settle_reservation(hand& from, std::uint64_t number, const base::id& id,
                          exec::actor_core* made, const taking& take) noexcept;
  void turn_out(hand& from, const base::id& id) noexcept;
  void answer_handle(hand& to, std::uint64_t number, exec::actor_core* core);
  void answer_error(hand& to, std::uint64_t number, const error& why);
  void refuse_answer(hand& to, const base::id& request) noexcept;
  void say_answer(hand& to, std::uint64_t number, const wire::result_view& answer) noexcept;
  void welcome(exec::actor_core& made, hand& to, const base::id& id, bool is_reserved = false);
  exec::actor_core* take_reserved(hand& from, const base::id& id) noexcept;
  bool abandon_reserved(hand& from, const base::id& id, std::string_view why) noexcept;
  void forget_questions(hand& of) noexcept;

  // worker_pool_things.cpp: channels, semaphores, barriers
  bool has_all_shared(hand& of, std::span<const spec::reference> came) noexcept;
  void on_thing(const hand_ptr& from, std::uint64_t number, const wire::ask_view& asked);
  std::shared_ptr<worker_things> things_of(const hand_ptr& of);
  bool say_written(hand& to, std::uint64_t number,
                   const std::function<void(workbench& on)>& write) noexcept;
  void stop_waiting_tasks() noexcept;

  // worker_pool_streams.cpp: generators
  static bool is_generator(const exec::job* j) noexcept;
  static bool has_yielded(exec::job* j) noexcept;
  std::pair<hand*, std::uint64_t> place_of(const exec::job* j) noexcept;
  static void say_order(hand& to, const worker_order& order) noexcept;
  void abandon_passed(passed_job& generator) noexcept;
  void begin_stream(hand& at, std::uint64_t number) noexcept;
  static void abandon_all(hand& at) noexcept;
  void on_flow(hand& from, std::uint64_t request, const wire::flow_view& said) noexcept;
  static exec::job* under_way_at(hand& at, std::uint64_t number) noexcept;
  void on_item(const hand_ptr& from, std::uint64_t number, const wire::item_view& item);
  void pass_item(hand& to, std::uint64_t request, const wire::item_view& item);
  static error lost_generator(const std::string& name, pid_t pid, const std::string& how);

  // worker_pool_hosts.cpp: what workers ask for that runs in this process
  exec::actor_core* make_asked(const wire::spawn_view& asked);
  bool is_hosted(hand& from, const wire::message_view& arrived);
  void host(const hand_ptr& from, std::span<const std::byte> frame,
            const wire::message_view& arrived);
  static exec::actor_core* host_call(hosted& into, const wire::call_view& call);
  void host_actor(hosted& into, hand& from, const wire::spawn_view& asked);
  bool note_asked(hand& from, std::uint64_t request, exec::job* j) noexcept;
  void note_next(std::uint64_t worker, std::uint64_t request, exec::job* j) noexcept;
  bool runs_again(hosted& h) noexcept;
  void answer(hosted* h) noexcept;
  hand_ptr take_asked(std::uint64_t worker, std::uint64_t request) noexcept;

  // worker_pool_arrays.cpp: arrays
  bool receive_arrays(hand& from, std::span<const spec::reference> came, array_tray& into);
  using room_requests = std::vector<std::pair<hand_ptr, worker_order>>;
  static bool is_of_arrays(const hand_ptr& from, came_order& came, room_requests& rooms);
  void grant_room(const hand_ptr& to, const worker_order& asked);
  void share_array_news() noexcept;
  bool release_arrays(hand& from, const base::id& what, std::uint32_t n);

  // worker_pool_rest.cpp: arrays that have to come back first
  void bring_back(const hand_ptr& to, exec::job* j, std::uint64_t number, bool is_awaited) noexcept;
  void wake_here(hand* at, const exec::actor_core& of, exec::job* j);
  void stop_waking(const exec::actor_core* of) noexcept;

  // worker_pool_trust.cpp: workers that say nonsense, or do not read
  static void end_for(hand& from, const char* what) noexcept;
  void distrust(hand& from, const char* what) noexcept;
  static void check_lent(hand& from, const base::id& actor);
  static void send_naming(hand& to, const workbench& on);
  static void unlend(hand& to, const base::id& what) noexcept;
  bool reply(hand& to, const workbench& on);
  void reply_error(hand& to, const workbench& on);

  // worker_pool_futures.cpp: futures inside of values
  struct value_answer;
  static bool adopt_future(hand& from, const base::id& id, std::uint64_t type);
  bool receive_futures(hand& from, std::span<const spec::reference> came, future_tray& into);
  void on_owed(hand& from, const base::id& id, const wire::result_view& arrived,
               std::span<const std::byte> frame);
  void forget_owed(hand& of, const error& why) noexcept;
  void on_future_ask(const hand_ptr& from, std::uint64_t number, const wire::ask_view& asked);
  void on_delegation(hand& from, const delegation_note& said);
  void note_early_delegations(hand& from, std::uint64_t request, exec::job* j) noexcept;
  static exec::job_ref delegator(hand& from, const base::id& id) noexcept;
  void say_asked(hand& to, std::uint64_t number, bool is_asked);
  void say_value(hand& to, std::uint64_t number, const future_names::found& of) noexcept;

  // worker_pool_life.cpp: workers
  hand_ptr make_hand(std::size_t place) noexcept;
  bool add_worker() noexcept;
  void fail_without_workers() noexcept;
  void on_report(const zygote::report& said) noexcept;
  std::uint64_t collect_lost(hand& dead, std::vector<flight>& lost) noexcept;
  void on_death(const hand_ptr& dead, bool was_killed, const std::string& how) noexcept;
  void fail_lost(const flight& f, pid_t pid, const std::string& how) noexcept;
  void give_up_pending(const std::string& why) noexcept;
  void requeue_lost(hand& dead, std::vector<flight>& lost, std::uint64_t culprit,
                    const std::string& how) noexcept;
  void collect() noexcept;
  void hear_deaths() noexcept;
  void tick() noexcept;
  void help_idle() noexcept;
  void let_surplus_go() noexcept;
  void let_go(hand& of) noexcept;
  bool is_quiet() noexcept;
  duration quiet_time() noexcept;
  void begin_close(bool asks_to_stop) noexcept;
  void cancel_pending() noexcept;

  // worker_pool_orders.cpp: orders to stop
  std::pair<hand*, flight*> find_flight(const exec::job* j) noexcept;
  void order_stop(hand& at, flight& f) noexcept;
  void end_by_force(hand& of) noexcept;
  void enforce_stops() noexcept;
  void end_coroutines() noexcept;
  void hear_orders(const hand* only = nullptr) noexcept;

  // worker_pool_guard.cpp: what workers print, and what they use
  void open_output(const config& settings);
  void settle_text(hand& of, std::uint64_t number) noexcept;
  worker_output::speaker speaker_of(std::uint64_t worker);
  static worker_output::speaker speaker_at(hand& of);
  void set_limits(const config& settings);
  void wear_out(hand& of, bool gives_back) noexcept;
  void let_worn_go() noexcept;
  void guard_memory() noexcept;
  void judge_memory(hand& one, const memory_use& used,
                    const std::vector<sched::memory_user>& users);
  static sched::worker_limits::measure measure(hand& of, const memory_use& used);
  static bool is_alone(const hand& of) noexcept;
  void note_room(hand& of) noexcept;
  std::string how_it_ended(hand& of, int status);

  std::mutex opening_;             // before mutex_
  std::optional<config> offered_;  // under opening_
  std::atomic<bool> is_open_{false};
  std::atomic<bool> is_closing_{false};
  std::atomic<std::uint64_t> generation_{1};
  std::atomic<int> pumping_{0};          // threads in sleep()
  std::atomic<std::uint32_t> pumps_{0};  // by whomever, more or less: whether somebody looks
  std::atomic<bool> is_crowded_{false};  // tasks wait for a window
  std::chrono::microseconds spin_{50};
  std::size_t cores_ = 1;
  std::size_t target_ = 1;  // workers that run at a time

  std::mutex mutex_;
  sched::roster roster_{{}};
  std::vector<hand_ptr> all_;
  std::vector<hand_ptr> hands_;   // of these, by the roster's numbers; null: none
  std::vector<hand_ptr> vacant_;  // those whose actor has ended, for the next
  work sum_;
  work sum_at_open_;
  std::array<std::deque<waiting>, 3> pending_;
  std::atomic<std::size_t> pending_count_{0};  // written under mutex_
  std::atomic<std::size_t> under_way_{0};      // written under mutex_
  std::atomic<std::size_t> limited_{0};        // of these, and actors; written under mutex_
  std::atomic<int> failed_starts_{0};          // in a row
  sched::spent_runs spent_{10'000};            // under mutex_; see charge_spent
  sched::early_deaths early_deaths_;
  sched::worker_grace grace_;    // under mutex_: when who was asked to stop was, and who is late
  sched::worker_limits limits_;  // the runtime's
  base::time_point next_measure_{};               // the collector's
  std::vector<std::shared_ptr<hand>> replaying_;  // the collector's: new lives, calls to be sent
  worker_output output_;
  std::unique_ptr<store::lane> restorer_;  // between open and close
  std::thread collector_;
  exec::parker collector_sleep_;
  std::atomic<bool> collector_parked_{false};
  std::atomic<bool> collector_ends_{false};
};

}  // namespace manta::inline v0::node
