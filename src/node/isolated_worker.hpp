// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include <manta/exec/outside.hpp>
#include <manta/exec/parker.hpp>

#include "base/id_hash.hpp"
#include "node/far_things.hpp"
#include "node/gpu_sight.hpp"
#include "node/workbench.hpp"
#include "node/worker_arrays.hpp"
#include "node/worker_futures.hpp"
#include "node/worker_monitors.hpp"
#include "node/worker_order.hpp"
#include "node/worker_questions.hpp"
#include "node/worker_streams.hpp"
#include "node/worker_voice.hpp"
#include "node/zygote.hpp"
#include "wire/frame_line.hpp"
#include "wire/worker_line.hpp"

// The other side of worker_pool.hpp: the life of an isolated worker.
//
// Problem. One thread should do what a task costs: take its message, run it, send its result. But a
// task may call, wait, and have threads of its own; and the node may want it to stop.
//
// Idea. The main thread takes tasks from the ring one by one and runs each on its stack as if it
// came from a queue. What a task calls goes to the node, by whichever thread calls; a thread that
// waits takes messages meanwhile (`pump`), which brings results of such calls, or the very task
// that is waited for, which then runs right there. Other tasks that come while one waits are put
// aside. A second thread listens on the socket: for orders to stop, and for the node's end.
//
//   ring -> task -> slot `running` -> decode -> run -> result -> ring -> slot `done`
//
// A worker that has an actor gets its calls instead of tasks: isolated_worker_actor.cpp.
//
// The executor runs here as in any process, with one thread, for what the task starts that does not
// leave it.
//
// Threads: take and stop any; the rest the main thread, or one that waits.

namespace manta::inline v0::node {

class isolated_worker final : public exec::outside {
 public:
  isolated_worker(wire::worker_line line, const worker_seat& seat);

  [[noreturn]] void run();

  void take(exec::job* j) noexcept override;
  bool sleep(exec::parker& p, const base::deadline& deadline, exec::job* awaited) override;
  void stop(exec::job* j) noexcept override;
  void end(exec::job* j) noexcept override;
  void construct(exec::actor_core* of, exec::job* construction) noexcept override;
  void forward(exec::actor_core* to, exec::job* call, bool has_more) noexcept override;
  bool leave(exec::actor_core* of, exec::leaving how) noexcept override;
  void kill(exec::actor_core* of) noexcept override;
  void watch(exec::actor_core* of) override;
  bool gives_turn(exec::actor_core* to) noexcept override;
  void began(std::uint64_t number) noexcept override;
  void flow(exec::job* generator, std::uint64_t taken, std::uint32_t credits) noexcept override;
  void abandon(exec::job* generator) noexcept override;

 private:
  struct begun_task {
    base::id id;
    std::uint64_t number = 0;
    base::time_point at;
    exec::job* job = nullptr;     // with a hold; null: there is nothing to run
    const char* sight = nullptr;  // of gpus
    bool is_stopped = false;      // before it began
  };
  struct late_answer;
  struct tenant;
  [[noreturn]] static void vanish() noexcept;
  bool serve_aside();
  void serve_one(wire::frame_buffer& task, std::uint64_t number);
  begun_task begin(const wire::task_view& task, std::uint64_t number) noexcept;
  void run_task(const begun_task& task) noexcept;
  void answer(const begun_task& task) noexcept;
  static duration time_of(const begun_task& task) noexcept;
  void say_printed(const exec::job* by, duration ran) noexcept;
  void send(workbench& on, bool has_more = false) noexcept;
  void ring_up() noexcept;
  void bell() noexcept;
  enum class came : std::uint8_t { nothing, something };
  enum class doing : std::uint8_t { nothing, waits };
  came pump(doing now, exec::job* awaited);
  void put_away(wire::frame_buffer frame, std::uint64_t number, const base::id& id);
  bool serve_awaited(const exec::job& awaited);
  void constructed(exec::job* construction) noexcept;
  static void give_one_back(void* to, const base::id& id);
  static bool is_ordered(const wire::message_view& read) noexcept;
  void hear_in_order(std::unique_lock<std::mutex> lock, workbench& on,
                     const wire::message_view& first);
  bool heard(const wire::message_view& read);
  void on_result(const wire::envelope& head, const wire::result_view& arrived) noexcept;
  bool answer_when_ready(const begun_task& task) noexcept;
  // isolated_worker_calls.cpp: generators
  void on_item(const wire::envelope& head, const wire::item_view& item) noexcept;
  // isolated_worker_actor.cpp
  void on_spawn(const wire::spawn_view& spawn, std::uint64_t number) noexcept;
  void on_call(const wire::call_view& call, std::uint64_t number) noexcept;
  void on_changes(const wire::changes_view& changes) noexcept;
  void on_end_order(const wire::actor_end_view& end) noexcept;
  void on_own_end(tenant* of, const actor_end& how) noexcept;
  void tell_late_calls() noexcept;
  exec::actor_core* pinned_tenant(const base::id& id) noexcept;
  base::id tenant_id() noexcept;
  void lend_own(const workbench& on) noexcept;
  exec::job_ref wished_call(exec::job* j) noexcept;
  std::uint64_t note_request(exec::job* j);
  std::uint64_t number_request(exec::job* j);
  std::unique_ptr<mirror_note> take_note_of(exec::actor_core* of) noexcept;
  error not_asked(exec::job* j, std::uint64_t request) noexcept;
  void let_go(exec::actor_core* of) noexcept;
  void ask_end(exec::actor_core* of, const base::id& id) noexcept;
  void on_watched_end(exec::actor_core* of, const result<end_answer>& came) noexcept;
  static void end_as_told(exec::actor_core* of, const end_answer& said) noexcept;
  void give_back(const base::id& id, std::uint32_t n) noexcept;
  void say_end(const base::id& actor, end_reason reason, const std::string& message) noexcept;
  void obey_kill(const base::id& actor) noexcept;
  void hear_calls_until(std::uint64_t number) noexcept;
  bool serve_construction() noexcept;
  bool serve_actor() noexcept;
  void listen() noexcept;
  void obey(std::uint64_t number) noexcept;
  void send_order(exec::job* j, worker_order::kind what) noexcept;
  void wait_for_message() noexcept;
  void leave_if_quiet() noexcept;
  std::uint64_t say_waits(std::uint64_t awaits) noexcept;
  void say_other_waits(int change) noexcept;
  void publish_awaits() noexcept;
  std::uint64_t request_of(exec::job* awaited) noexcept;

  static void send_to(void* self, workbench& on) noexcept {
    static_cast<isolated_worker*>(self)->send(on);
  }
  static void wake_node(void* self) noexcept { static_cast<isolated_worker*>(self)->bell(); }
  static void give_back_to(void* self, const base::id& id, std::uint32_t n) noexcept {
    static_cast<isolated_worker*>(self)->give_back(id, n);
  }

  static std::uint64_t request_in(void* self, exec::job* j) noexcept {
    return static_cast<isolated_worker*>(self)->request_of(j);
  }

  wire::worker_line line_;
  const std::uint64_t unique_;
  const int socket_;
  const config settings_;
  int spin_us_ = 50;
  worker_voice voice_;
  gpu_sight sight_;

  std::mutex up_mutex_;
  wire::frame_sender up_;  // under up_mutex_
  std::mutex down_mutex_;
  wire::frame_receiver down_;  // under down_mutex_
  // Messages for the actor that came while a thread looked at one, and whether one does. Under
  // down_mutex_.
  std::deque<wire::frame_buffer> in_order_;
  bool is_ordering_ = false;
  std::mutex mutex_;
  std::atomic<bool> main_looks_{false};  // the main thread waits, and takes what comes
  std::thread::id main_thread_;
  std::uint32_t depth_ = 0;  // the main thread's: tasks on its stack
  // Under mutex_.
  std::uint64_t main_awaits_ = wire::worker_page::awaits_nothing;
  std::atomic<int> others_waiting_{0};
  std::uint64_t last_request_ = 0;
  std::unordered_map<std::uint64_t, exec::job*> asked_;  // with a hold each
  std::unordered_map<exec::job*, std::uint64_t> asked_by_job_;
  struct constructing {
    exec::actor_core* core = nullptr;  // with a pin
    bool is_half_done = false;
  };
  std::unordered_map<const exec::job*, constructing> constructions_;  // of these
  std::unordered_map<std::uint64_t, exec::job*> running_;             // by number; no holds
  std::unordered_set<std::uint64_t> early_stops_;  // of tasks that have not begun
  std::uint64_t last_call_ = 0;                    // of the actor's, the latest that was heard
  struct put_aside {
    wire::frame_buffer frame;
    std::uint64_t number = 0;
    base::id id;
  };
  std::deque<put_aside> aside_;
  std::shared_ptr<tenant> lives_here_;
  exec::job* to_construct_ = nullptr;  // its construction, which the main thread runs
  std::unordered_set<base::id, base::id_hash> early_kills_;  // of actors that have not come
  std::size_t ends_asked_ = 0;                               // without an answer
  // The main thread's.
  const exec::job* on_top_ = nullptr;  // the task that runs
  exec::actor_core* turn_ = nullptr;   // has mails, and nobody else runs it
  bool is_giving_turn_ = false;
  std::uint32_t unheard_ = 0;  // the main thread's: results that a patient node was not woken for
  exec::parker main_sleep_;    // the main thread's, while it has no task
  std::atomic<bool> leaves_{false};  // when it has nothing to do
  worker_arrays arrays_;
  worker_questions questions_;
  worker_streams streams_;
  far_things things_;
  worker_futures futures_;
};

}  // namespace manta::inline v0::node
