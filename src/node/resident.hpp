// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/exec/job.hpp>

#include "node/resident_actors.hpp"

// What resident_actors.hpp is made of.

namespace manta::inline v0::node {

/// What calls fail with whose node is about to leave.
error node_leaves() noexcept;

/// One of them. Lives as long as it is known, or its core's watcher.
struct resident_actors::resident : exec::end_watcher {
  resident_actors* in = nullptr;
  peers* by = nullptr;
  std::uint64_t from = 0;  // who has made it; 0: this node
  base::id id;
  exec::actor_core* core = nullptr;      // with a pin
  resident_ptr self;                     // while its end is to come
  std::atomic<bool> is_reserved{false};  // its construction is to come, and has its core's pin
  std::vector<std::uint64_t> watchers;   // others who want to know its end; under the mutex
  reading_stop* reading = nullptr;       // while its construction is read; likewise

  ~resident() {
    give_back(true);
    core->unpin();
  }
  void hold() {
    const std::lock_guard lock(mutex_);
    if (std::exchange(has_handle_, true)) {
      core->others_go(false);
    } else {
      core->add_handle_inside();
    }
  }
  // No other node has one, by what has come here; give_back follows.
  void goes() noexcept {
    const std::lock_guard lock(mutex_);
    ++to_come_;
    if (has_handle_ && !far_handles::global().is_lent(id)) core->others_go(true);
  }
  // Unless it was lent once more meanwhile, or was and went again: then calls of that time may
  // wait to be read, and the next one is behind them.
  void give_back(bool at_once) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (!at_once && (--to_come_ > 0 || far_handles::global().is_lent(id))) return;
      if (!std::exchange(has_handle_, false)) return;
    }
    core->drop_others();
  }
  // A new one's is the others'.
  void starts_lent() noexcept { has_handle_ = true; }
  void starts_anew() noexcept { has_handle_ = false; }

 private:
  std::mutex mutex_;
  bool has_handle_ = false;    // the others'
  std::uint32_t to_come_ = 0;  // give_back
};

// The answer to a construction or a call, when that has ended.
struct resident_actors::late_answer : exec::waiter {
  resident_actors* in = nullptr;
  peers* by = nullptr;
  key who;                  // of a call
  base::id actor;           // else of that construction
  exec::job* of = nullptr;  // with a hold
  base::time_point at{};

  void answer() noexcept {
    if (actor == base::id{}) {
      in->answer_call(*by, who, of, base::now() - at);
    } else {
      const bool has_failed = (of->word() & exec::job_bits::failed) != 0;
      in->answer_spawn(*by, who.first, actor, has_failed ? &of->failure() : nullptr);
    }
    of->drop();
  }
  // Takes the hold over.
  static void add(std::unique_ptr<late_answer> one) noexcept {
    one->fire = [](exec::waiter* w) noexcept {
      const std::unique_ptr<late_answer> self(static_cast<late_answer*>(w));
      self->answer();
    };
    late_answer* const raw = one.get();
    if (raw->of->add_waiter(raw)) {
      static_cast<void>(one.release());
    } else {
      raw->answer();
    }
  }
};

}  // namespace manta::inline v0::node
