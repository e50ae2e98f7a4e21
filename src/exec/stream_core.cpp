// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/stream_core.hpp>

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <new>

#include <manta/base/pause.hpp>
#include <manta/exec/block_pool.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/outside.hpp>
#include <manta/exec/theft.hpp>

#include "await_telling.hpp"

namespace manta::inline v0::exec {

namespace {

// Marks of the inbox; never dereferenced.
alignas(job) char marks[2];
job* const someone_waits = reinterpret_cast<job*>(&marks[0]);
job* const the_end = reinterpret_cast<job*>(&marks[1]);

constexpr std::uint32_t enough_items = 8;
constexpr std::chrono::nanoseconds quick_item{250};

void pause(int times) noexcept {
  for (int i = 0; i < times; ++i) base::pause();
}

// A thread that waits for an item. A stop signals its parker, too, so that a signal does not say
// that the producer is done with it.
class sleeping_consumer : public thread_waiter {
 public:
  sleeping_consumer() noexcept {
    fire = [](waiter* self) noexcept {
      auto* const me = static_cast<sleeping_consumer*>(self);
      me->sleep.signal();
      me->is_told_.store(true, std::memory_order_release);
    };
  }
  /// It is being told, by a few instructions of a thread that may have lost its core.
  void wait_until_told() const noexcept {
    for (int round = 0; !is_told_.load(std::memory_order_acquire); ++round) {
      if (round < 64) {
        base::pause();
      } else {
        sched_yield();
      }
    }
  }

 private:
  std::atomic<bool> is_told_{false};
};

}  // namespace

job* stream_core::end_mark() noexcept { return the_end; }

void* stream_ref::allocate() { return allocate_block(sizeof(stream_core)); }

job*& stream_core::link_of(job* item) noexcept {
  return item == the_end ? end_link_ : item->link();
}

void stream_core::drop_list(job* list) noexcept {
  while (list != nullptr && list != someone_waits) {
    job* const next = link_of(list);
    if (list != the_end) list->drop();
    list = next;
  }
}

void stream_core::drop() noexcept {
  if (holders_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  drop_list(ready_);
  drop_list(inbox_.load(std::memory_order_relaxed));
  if (generator_ != nullptr) generator_->drop();
  this->~stream_core();
  free_block(this, sizeof(stream_core));
}

void stream_core::watch(job* generator) noexcept {
  generator->hold();
  generator_ = generator;
  if (const call_extra* const with = generator->extra(); with != nullptr && with->is_outside) {
    generator_is_.store(place::outside, std::memory_order_relaxed);
    stand_for_producer();
  }
  hold();  // the end's
  end_.core = this;
  end_.fire = [](waiter* w) noexcept {
    stream_core* const core = static_cast<core_node*>(w)->core;
    core->entry_.store(nullptr, std::memory_order_relaxed);
    core->push_link(the_end);
    core->drop();
  };
  if (!generator->add_waiter(&end_)) end_.fire(&end_);
}

// Without its children, and without leaving a trace among the cancelled callers: streams are
// dropped early all the time.
void stream_core::abandon() noexcept {
  is_abandoned_.store(true, std::memory_order_seq_cst);
  if (generator_->is_ready()) return;
  if (generator_->ops->origin != nullptr) {
    interrupt_coroutine(generator_, interruption::doom);
    cancel_job(generator_, false);
  } else if (!generator_->withdraw(cancelled_error())) {
    generator_->ask_to_stop();
    interrupt_coroutine(generator_, interruption::doom);
    tell_abandoned();
  }
}

// Who is just sending it to another node looks at the job's word when it is sent.
void stream_core::tell_abandoned() noexcept {
  if (generator_is_.load(std::memory_order_relaxed) == place::outside) {
    outside* const away = elsewhere.load(std::memory_order_acquire);
    if (away != nullptr) away->abandon(generator_);
  } else if ((generator_->word() & job_bits::escaped) != 0) {
    far_thief* const away = thief_from_afar.load(std::memory_order_acquire);
    if (away != nullptr) away->stop(generator_, false);
  }
}

bool stream_core::cancel() noexcept {
  is_abandoned_.store(true, std::memory_order_seq_cst);
  // It may end by that before it is looked at.
  const bool was_suspended = interrupt_coroutine(generator_, interruption::doom);
  return cancel_job(generator_, true) || was_suspended;
}

void stream_core::push(job* item) noexcept {
  pushed_.store(pushed_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  push_link(item);
}

void stream_core::push_link(job* item) noexcept {
  job* old = inbox_.load(std::memory_order_relaxed);
  do {
    link_of(item) = old == someone_waits ? nullptr : old;
    // Release: who takes the item sees it. Acquire: a consumer that waits wrote its node before.
  } while (!inbox_.compare_exchange_weak(old, item, std::memory_order_acq_rel,
                                         std::memory_order_relaxed));
  if (old == someone_waits) sleeper_->fire(sleeper_);
}

bool stream_core::add_producer(waiter* node, job* entry) noexcept {
  entry_.store(entry, std::memory_order_relaxed);
  producer_.store(node, std::memory_order_seq_cst);
  // Credits that came back before the consumer could see the node.
  const std::uint64_t ahead =
      pushed_.load(std::memory_order_relaxed) - taken_.load(std::memory_order_seq_cst);
  if (ahead * 2 > credits_.load(std::memory_order_relaxed) && !is_abandoned()) return true;
  return !remove_producer(node);  // else the consumer is firing it
}

bool stream_core::remove_producer(waiter* node) noexcept {
  return producer_.compare_exchange_strong(node, nullptr, std::memory_order_acq_rel);
}

// Lets a producer go on that waits for credits, when at most `left` items are not taken.
void stream_core::return_credits(std::uint32_t left) noexcept {
  if (producer_.load(std::memory_order_seq_cst) == nullptr) return;
  const std::uint64_t ahead =
      pushed_.load(std::memory_order_relaxed) - taken_.load(std::memory_order_relaxed);
  if (ahead > left) return;
  waiter* const node = producer_.exchange(nullptr, std::memory_order_acq_rel);
  if (node != nullptr) node->fire(node);
}

bool stream_core::has_next() noexcept {
  if (ready_ != nullptr) return true;
  if (inbox_.load(std::memory_order_relaxed) == nullptr) return false;
  if (spacing_.count() != 0) {
    for (const auto until = emptied_ + spacing_; base::now() < until;) pause(4);
  }
  job* newest = inbox_.exchange(nullptr, std::memory_order_acq_rel);
  std::uint32_t found = 0;
  for (; newest != nullptr; ++found) {
    job* const next = link_of(newest);
    link_of(newest) = ready_;
    ready_ = newest;
    newest = next;
  }
  if (found < enough_items || spacing_.count() != 0) space_out(found);
  return true;
}

// Few were there: if they came quickly, the next ones are given time to be enough.
void stream_core::space_out(std::uint32_t found) noexcept {
  const auto now = base::now();
  const auto each = (now - emptied_) / found;
  emptied_ = now;
  if (found < enough_items) spacing_ = each < quick_item ? each * enough_items : each * 0;
}

// Looks for an item at growing distances: a producer that is about to make one need not wake
// anybody then.
bool stream_core::linger() noexcept {
  for (int pauses = 1; pauses <= 16; pauses *= 2) {
    pause(pauses);
    if (inbox_.load(std::memory_order_relaxed) != nullptr) return true;
  }
  return false;
}

job* stream_core::take() noexcept {
  job* const item = ready_;
  if (item != the_end) {
    ready_ = item->link();
    taken_.store(taken_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    return_credits(credits_.load(std::memory_order_relaxed) / 2);
    return item;
  }
  const bool has_failed = (generator_->outcome()->word() & job_bits::failed) != 0;
  if (!has_failed || std::exchange(has_told_failure_, true)) return nullptr;
  generator_->hold();
  return generator_;
}

// Runs the generator on this thread: its first turn, or its next one.
bool stream_core::help() {
  if (!generator_->is_claimed() && executor::try_run(generator_)) return true;
  job* const entry = entry_.load(std::memory_order_relaxed);
  return entry != nullptr && executor::run_newest(entry);
}

bool stream_core::wait(const base::deadline& deadline) {
  while (!has_next()) {
    return_credits(UINT32_MAX);
    if (!deadline && help()) continue;
    if (linger()) continue;
    if (executor::is_self_wait(generator_)) executor::raise_self_wait();
    sleeping_consumer me;
    if (!add_consumer(&me)) continue;
    awoken how = awoken::stopped;
    try {
      how = await_telling(me, deadline);
    } catch (...) {
      if (!remove_consumer(&me)) me.wait_until_told();
      throw;
    }
    if (how == awoken::told || !remove_consumer(&me)) {
      me.wait_until_told();
    } else if (how == awoken::late) {
      return false;
    } else {
      raise_stopped("a stream's next");
    }
  }
  return true;
}

bool stream_core::add_consumer(waiter* node) noexcept {
  sleeper_ = node;
  job* expected = nullptr;
  if (!inbox_.compare_exchange_strong(expected, someone_waits, std::memory_order_seq_cst))
    return false;
  // Either this sees a producer that waits for credits, or that one sees all items taken.
  taken_.store(taken_.load(std::memory_order_relaxed), std::memory_order_seq_cst);
  return_credits(UINT32_MAX);
  return true;
}

bool stream_core::remove_consumer(waiter* /*node*/) noexcept {
  job* expected = someone_waits;
  return inbox_.compare_exchange_strong(expected, nullptr, std::memory_order_acq_rel);
}

// ---- streams between processes

// Its own, or the reader's elsewhere.
void stream_core::set_credits(std::uint32_t n) noexcept {
  credits_.store(n, std::memory_order_seq_cst);
  // Seen as here, when it leaves just now: who has it leave sees these credits then.
  if (generator_is_.load(std::memory_order_seq_cst) == place::here) return;
  if (!generator_->is_ready()) tell(taken_.load(std::memory_order_relaxed), n);
}

void stream_core::stand_for_producer() noexcept {
  far_.core = this;
  far_.fire = [](waiter* w) noexcept { static_cast<core_node*>(w)->core->tell_taken(); };
  producer_.store(&far_, std::memory_order_seq_cst);
}

std::uint32_t stream_core::leave() noexcept {
  if (generator_is_.load(std::memory_order_relaxed) == place::here) {
    stand_for_producer();
    generator_is_.store(place::afar, std::memory_order_seq_cst);
  }
  left_with_ = grant();
  return left_with_;
}

// A consumer may have the node, which has nothing to tell, and puts it back at once.
void stream_core::come_back() noexcept {
  if (generator_is_.load(std::memory_order_relaxed) != place::afar) return;
  while (!remove_producer(&far_)) sched_yield();
  generator_is_.store(place::here, std::memory_order_relaxed);
}

// Of set_credits before this, nothing was said: either that saw the item, or this sees the credits.
// Once more when they have changed meanwhile: what is said last counts.
void stream_core::first_came(job* generator) noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  far_thief* const away = thief_from_afar.load(std::memory_order_acquire);
  std::uint32_t told = left_with_;
  while (away != nullptr && credits_.load(std::memory_order_relaxed) != told) {
    told = credits_.load(std::memory_order_relaxed);
    grant();
    away->flow(generator, taken_.load(std::memory_order_relaxed), told);
  }
}

bool stream_core::add_outlet(waiter* outlet) noexcept {
  sleeper_ = outlet;
  job* expected = nullptr;
  return inbox_.compare_exchange_strong(expected, someone_waits, std::memory_order_acq_rel);
}

job* stream_core::pull() noexcept {
  if (ready_ == nullptr) {
    job* newest = inbox_.exchange(nullptr, std::memory_order_acq_rel);
    while (newest != nullptr) {
      job* const next = link_of(newest);
      link_of(newest) = ready_;
      ready_ = newest;
      newest = next;
    }
  }
  if (ready_ == nullptr || ready_ == the_end) return nullptr;
  job* const item = ready_;
  ready_ = item->link();
  return item;
}

// By whichever thread hears of it: the producer may be suspending this moment.
void stream_core::taken_elsewhere(std::uint64_t taken, std::uint32_t credits) noexcept {
  credits_.store(credits, std::memory_order_relaxed);
  std::uint64_t before = taken_.load(std::memory_order_relaxed);
  while (before < taken &&
         !taken_.compare_exchange_weak(before, taken, std::memory_order_seq_cst)) {
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return_credits(credits / 2);
}

std::uint32_t stream_core::grant() noexcept {
  const std::uint32_t credits = credits_.load(std::memory_order_seq_cst);
  const std::uint64_t upto = taken_.load(std::memory_order_relaxed) + credits;
  std::uint64_t before = allowed_.load(std::memory_order_relaxed);
  while (before < upto &&
         !allowed_.compare_exchange_weak(before, upto, std::memory_order_release)) {
  }
  return credits;
}

// Before it is said: what it allows may come at once.
void stream_core::tell(std::uint64_t taken, std::uint32_t credits) noexcept {
  grant();
  if (generator_is_.load(std::memory_order_relaxed) == place::outside) {
    outside* const away = elsewhere.load(std::memory_order_acquire);
    if (away != nullptr) away->flow(generator_, taken, credits);
    return;
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  far_thief* const away = thief_from_afar.load(std::memory_order_acquire);
  if (away != nullptr && pushed() > 0) away->flow(generator_, taken, credits);
}

// By who took far_ out of producer_, and nobody else until it is there again; what was taken
// meanwhile is seen here, or far_ there. It is time when half of the credits are back: who made all
// that it may then hears of it at the latest when all of that was taken.
void stream_core::tell_taken() noexcept {
  for (;;) {
    const std::uint64_t taken = taken_.load(std::memory_order_seq_cst);
    const std::uint32_t credits = credits_.load(std::memory_order_relaxed);
    const std::uint64_t enough = std::max<std::uint64_t>(credits / 2, 1);
    if (taken - told_ >= enough && !generator_->is_ready()) {
      told_ = taken;
      tell(taken, credits);
    }
    producer_.store(&far_, std::memory_order_seq_cst);
    if (taken_.load(std::memory_order_seq_cst) == taken) return;
    waiter* mine = &far_;
    if (!producer_.compare_exchange_strong(mine, nullptr, std::memory_order_acq_rel)) return;
  }
}

}  // namespace manta::inline v0::exec
