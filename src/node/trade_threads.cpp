// SPDX-License-Identifier: Apache-2.0
// The two threads of trade.hpp: who looks at the queues, and who handles what comes back.
#include <exception>
#include <new>
#include <utility>

#include <pthread.h>

#include <manta/exec/executor.hpp>

#include "node/far_actors.hpp"
#include "node/far_futures.hpp"
#include "node/far_handles.hpp"
#include "node/far_names.hpp"
#include "node/head_facts.hpp"
#include "node/node_things.hpp"
#include "node/trade.hpp"

namespace manta::inline v0::node {

namespace {

constexpr auto between_looks = std::chrono::milliseconds(1);

constinit thread_local bool is_own_here = false;  // of the looker, and of the giver

}  // namespace

bool trade::is_own_thread() noexcept { return is_own_here; }

// Until they are two of the runtime's threads: on a busy machine that may end before, and then what
// comes back would be nobody's.
void trade::start_threads() {
  {
    const std::lock_guard lock(mutex_);
    has_looker_ = true;
    ready_ = 0;
  }
  try {
    looker_ = std::thread([this] { run("manta-trade", &trade::hear_all); });
    giver_ = std::thread([this] { run("manta-giver", &trade::give_all); });
  } catch (...) {
    join_threads();
    throw;
  }
  std::unique_lock lock(mutex_);
  is_home_.wait(lock, [this] { return ready_ == 2 || !has_looker_; });
  if (has_looker_) return;
  lock.unlock();
  join_threads();
  throw std::bad_alloc();
}

void trade::join_threads() noexcept {
  is_closing_.store(true);
  nap_.signal();
  giver_nap_.signal();
  for (std::thread* const one : {&looker_, &giver_}) {
    if (one->joinable()) one->join();
  }
  nap_.reset();
  giver_nap_.reset();
}

void trade::woken() noexcept {
  if (is_asleep_.load() && is_asleep_.exchange(false)) giver_nap_.signal();
}

void trade::run(const char* name, void (trade::*work)() noexcept) noexcept {
  pthread_setname_np(pthread_self(), name);
  is_own_here = true;
  bool is_one_of_all = true;
  try {
    exec::executor::require();
  } catch (...) {
    is_one_of_all = false;  // no memory
  }
  {
    const std::lock_guard lock(mutex_);
    if (is_one_of_all) ++ready_;
    if (!is_one_of_all) has_looker_ = false;
  }
  is_home_.notify_all();
  if (is_one_of_all) (this->*work)();
}

// Sleeps while no worker runs, and looks again and again while one does: what is queued then is
// queued without a word to anybody.
void trade::give_all() noexcept {
  base::time_point looked{};
  while (!is_closing_.load()) {
    is_asleep_.store(true);
    if (exec::executor::active_workers() > 0 && is_asleep_.exchange(false)) {
      giver_nap_.park_until(looked + between_looks);
    } else {
      pace_.rest();
      task_ns_.store(0);  // of what comes then nothing is known
      giver_nap_.park();
      is_asleep_.store(false);
    }
    giver_nap_.reset();
    place_granted();
    const base::time_point now = base::now();
    if (!is_open_.load() || now - looked < between_looks) continue;
    looked = now;
    far_handles::global().say_again();
    look(now);
  }
}

// ---- what comes

void trade::hear_all() noexcept {
  while (!is_closing_.load()) {
    nap_.park();
    nap_.reset();
    land();
  }
}

// Results are not left to workers, who may all be at tasks that take long.
void trade::land() noexcept {
  std::vector<landed> came;
  std::vector<lost_node> nodes;
  {
    const std::lock_guard lock(mutex_);
    came.swap(landed_);
    nodes.swap(lost_nodes_);
  }
  far_handles::global().say_again();
  forget_lost(nodes);
  for (const landed& one : came) hand_out(one);
  // Behind what they have still said: items of a stream, and its end.
  for (const lost_node& one : nodes) lose_flights(one.node, one.last_request);
  return_all();
  for (const lost_node& one : nodes) {
    far_actors::global().lose(one.node, one.why);
    far_futures::global().lose(one.node, one.why);
    node_things::global().lose(one.node, one.why);
  }
  if (!is_open_.load()) {
    const std::lock_guard lock(mutex_);
    is_home_.notify_all();
  }
}

void trade::hand_out(const landed& one) noexcept {
  const far_reading handles(one.came.get());
  switch (peers::topic_of(one.request)) {
    case peers::answer:
      return head_facts::global().on_answer(one.message.bytes);
    case peers::result_of_task:
      return on_result(one.from, one.message.bytes);
    case peers::item:
      return on_item(one.from, one.request.low, one.message.bytes);
    case peers::future_answer:
      return far_futures::global().on_answer(one.from, one.request.low, one.message);
    case peers::thing_answer:
      return node_things::global().on_answer(one.from, one.message);
    case peers::name_answer:
      return far_names::global().on_answer(one.request.low, one.message.bytes);
    default:
      return far_actors::global().on_message(one.from, one.request, one.message);
  }
}

}  // namespace manta::inline v0::node
