// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <kj/async-unix.h>
#include <kj/async.h>

#include <manta/base/clock.hpp>

#include "wire/loop.hpp"

// The inside of a loop: the event port that KJ asks for events, the queue of what other threads
// want done, and what lives on the loop.
//
// KJ runs what is ready and asks the port when nothing is. Then, in this order: what others want
// done; what was written meanwhile is sent, all of it at once; sockets are looked at, or waited
// for.
// So messages written in one turn leave in one system call.
//
// What ends inside of one of its own callbacks can't be destroyed there: it is given to later().
// Threads: as said at each; what is not said is the loop's thread only.

namespace manta::inline v0::wire {

/// Something that lives on the loop until it is dropped there.
class resident {
 public:
  resident() = default;
  resident(const resident&) = delete;
  resident& operator=(const resident&) = delete;
  virtual ~resident() noexcept(false) = default;
  /// The loop ends: it drops itself there, once in its life.
  virtual void end() = 0;
};

/// Something that collects what is to be written until the turn is over.
class flushed {
 public:
  virtual void flush() = 0;

 protected:
  ~flushed() = default;
};

class loop_core final : private kj::EventPort {
 public:
  using task = std::function<void()>;

  explicit loop_core(const loop::settings& how) noexcept : spin_(how.spin) {}
  virtual ~loop_core() noexcept(false) = default;

  /// Runs all until stop(). `is_ready` is called once, with what kept it from starting.
  void run(const std::function<void(std::optional<error>)>& is_ready);
  /// Any thread.
  void stop();
  /// Has `work` run on the loop, in the order of the calls. False, and it does not run: the loop
  /// has ended, or will before. Any thread.
  bool post(task work);
  /// Has `work` run when KJ is in none of its callbacks.
  void later(task work) { later_.push_back(std::move(work)); }
  /// Whether this is the loop's thread. Any thread.
  bool is_here() const noexcept { return thread_.load() == std::this_thread::get_id(); }

  kj::UnixEventPort& port() noexcept { return *io_; }
  /// Keeps it until drop(); ends it when the loop does.
  void keep(std::unique_ptr<resident> one) { residents_.emplace(one.get(), std::move(one)); }
  /// Destroys it, outside of KJ's callbacks.
  void drop(resident* one);
  void flush_later(flushed* one) { to_flush_.push_back(one); }
  void forget_flush(const flushed* one) { std::erase(to_flush_, one); }
  /// Answers are awaited: the loop looks before it sleeps. Any thread.
  void await(int change) noexcept { awaited_.fetch_add(change, std::memory_order_relaxed); }

 private:
  bool wait() override;
  bool poll() override;
  void setRunnable(bool runnable) override { was_active_ = was_active_ || runnable; }
  void wake() const override { io_->wake(); }

  void serve(kj::WaitScope& scope);
  void run_queue();
  void end_all();
  bool call_main();
  void flush();
  bool may_look_again();
  bool sleep();

  const std::chrono::nanoseconds spin_;
  std::atomic<int> awaited_{0};
  std::atomic<std::thread::id> thread_{};

  // Written by any thread.
  std::mutex mutex_;
  std::vector<task> queue_;  // guarded by mutex_
  bool is_over_ = false;     // guarded by mutex_: nothing is taken any more
  std::atomic<bool> has_queue_{false};
  std::atomic<bool> sleeps_{false};

  kj::UnixEventPort* io_ = nullptr;
  std::unordered_map<resident*, std::unique_ptr<resident>> residents_;
  std::vector<flushed*> to_flush_;
  std::vector<task> later_;
  kj::Own<kj::PromiseFulfiller<void>> main_;
  bool is_stopping_ = false;
  bool was_active_ = false;
  unsigned calls_ = 0;  // of call_main since sockets were looked at
  base::time_point look_until_{};
};

}  // namespace manta::inline v0::wire
