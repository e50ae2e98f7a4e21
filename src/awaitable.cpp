// SPDX-License-Identifier: Apache-2.0
#include <manta/awaitable.hpp>

#include <chrono>

#include <fmt/format.h>

#include <manta/exec/actor_core.hpp>
#include <manta/stream.hpp>
#include <manta/task.hpp>

namespace manta::inline v0::detail {

void raise_empty_coroutine() {
  raise(
      errc::invalid_argument,
      "an empty coroutine was used; it was moved from or awaited already; call its function again");
}

void raise_not_a_stream() {
  raise(errc::invalid_argument,
        "an empty stream was used, or one that was not called remotely; call its generator by "
        "remote<f>(...)");
}

void raise_next_timed_out(duration timeout) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(timeout).count();
  raise(errc::timed_out,
        fmt::format("stream: no item after {} us; the generator goes on, ask again later", us));
}

void refuse_self_await(exec::job* j) {
  const exec::context& caller = *exec::this_thread.current;
  exec::job_ref end;
  if ((j->word() & exec::job_bits::aliased) != 0) {
    end = exec::job_ref(j->awaited());
    j = end.get();
  }
  if (j == caller.running) {
    raise(errc::self_wait,
          "a coroutine awaits its own result, which it would do for ever; await another future");
  }
  if (caller.actor == nullptr || j->ops->origin == nullptr || j->is_ready()) return;
  if (j->ops->origin(j).actor != caller.actor) return;
  if (caller.actor->excludes(caller.running, j)) exec::executor::raise_self_wait();
}

namespace {

bool has_failed(exec::job* ready) noexcept { return failure_of(ready) != nullptr; }

}  // namespace

bool list_walk::is_ready() const noexcept {
  for (std::size_t i = 0; i < count_; ++i) {
    if (!begin_[i]->is_ready()) return false;
    if (has_failed(begin_[i])) return true;
  }
  return true;
}

bool list_walk::add_waiter(exec::waiter* w) {
  told_ = w;
  return advance();
}

// The walk may be between two jobs on another thread: who removes asks again then.
bool list_walk::remove_waiter(exec::waiter* /*same*/) noexcept {
  const std::size_t at = at_.load(std::memory_order_acquire);
  return at < count_ && begin_[at]->remove_waiter(this);
}

// True when it waits for another one; then it may be anywhere, or gone.
bool list_walk::advance() noexcept {
  for (std::size_t at = at_.load(std::memory_order_relaxed); at < count_; ++at) {
    at_.store(at, std::memory_order_release);
    exec::job* const on = begin_[at];
    if (!on->is_ready() && on->add_waiter(this)) return true;
    if (has_failed(on)) return false;
  }
  return false;
}

void list_walk::next_ready(exec::waiter* self) noexcept {
  auto* const walk = static_cast<list_walk*>(self);
  if (walk->advance()) return;
  walk->told_->fire(walk->told_);
}

}  // namespace manta::inline v0::detail
