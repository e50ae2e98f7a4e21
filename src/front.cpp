// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <limits>
#include <thread>

#include <fmt/format.h>

#include <manta/actor.hpp>
#include <manta/actor_pool.hpp>
#include <manta/channel.hpp>
#include <manta/future.hpp>
#include <manta/node/carrier.hpp>
#include <manta/pending.hpp>
#include <manta/remote.hpp>
#include <manta/split.hpp>
#include <manta/stream_parts.hpp>
#include <manta/task.hpp>
#include <manta/wait.hpp>

// The compiled part of the public front: what needs no template.

namespace manta::inline v0::detail {

void raise_empty_future() { empty_future_error().raise(); }

error empty_future_error() {
  return error(
      errc::invalid_argument,
      "an empty future was used; it was default-made, moved from, or got by an rvalue get");
}

void raise_empty_actor() {
  raise(errc::invalid_argument,
        "an empty actor handle was used; it was default-made or moved from; make one with spawn");
}

error not_unique_error(const char* type) {
  return error(errc::not_unique,
               fmt::format("a move-only value can't be moved out while others hold it ({}); get it "
                           "by const reference, or drop the other futures and wait for tasks that "
                           "use it",
                           readable_name(type)));
}

void raise_not_unique(const char* type) { not_unique_error(type).raise(); }

error abandoned_error() {
  return error(errc::cancelled,
               "cancelled: the task that was to make this value was dropped before it ran; the "
               "runtime ended, or it was cancelled");
}

error wrong_size_error(std::size_t asked, std::size_t found) {
  return error(errc::invalid_argument,
               fmt::format("split: asked for {} parts, the vector has {} elements; ask for as many "
                           "as the task returns",
                           asked, found));
}

error timed_out_error(duration timeout) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(timeout).count();
  return error(errc::timed_out,
               fmt::format("get: not ready after {} us; the task goes on, get it later", us));
}

void raise_timed_out(duration timeout) { timed_out_error(timeout).raise(); }

std::size_t check_capacity(std::size_t capacity) {
  constexpr std::size_t most = std::numeric_limits<std::ptrdiff_t>::max();
  if (capacity >= 1 && capacity <= most) return capacity;
  raise(errc::invalid_argument, fmt::format("channel: asked for a capacity of {}, allowed 1 to {}",
                                            static_cast<std::ptrdiff_t>(capacity), most));
}

void raise_empty_pool() {
  raise(errc::invalid_argument,
        "actor_pool: a call was submitted to a pool without actors; push one first (those whose "
        "calls fail with actor_lost leave it)");
}

error pool_lost_error() {
  return error(errc::actor_lost,
               "actor_pool: the last actor of the pool was lost while this call waited for its "
               "turn; push new ones and submit it again");
}

void raise_empty_channel() {
  raise(errc::invalid_argument,
        "an empty channel handle was used; it was default-made or moved from; make one with "
        "channel<T>(capacity)");
}

std::optional<std::size_t> first_ready(exec::job* const* jobs, std::size_t n,
                                       const std::optional<duration>& timeout) {
  const exec::ready_prefix found = exec::wait_many(jobs, n, 1, timeout);
  if (found.count == 0) return std::nullopt;
  return found.end - 1;  // the search stops behind the first
}

bool is_sole_soon(exec::job* handle, exec::job* owner) noexcept {
  const base::time_point end = base::after(std::chrono::microseconds(200));
  for (;;) {
    if (handle->is_unique() && owner->is_unique()) return true;
    if (base::now() > end) return false;
    std::this_thread::yield();
  }
}

void start_job(exec::job* j) {
  try {
    exec::executor::submit(j);
  } catch (const std::bad_alloc&) {
    j->ops->cancel(j, error::out_of_memory());
    throw;
  }
}

void check_arguments(exec::job* j) {
  try {
    node::check_arguments(j);
  } catch (...) {
    j->cancel_unclaimed(describe_current_exception(j->ops->function));
    throw;
  }
}

void check_item(exec::job* item) {
  try {
    node::check_object(item);
  } catch (...) {
    item->drop();
    throw;
  }
}

namespace {

isolation_mode isolation_by_default() noexcept {
  return exec::sends_all() ? isolation_mode::processes : isolation_mode::threads;
}

}  // namespace

void check_options(const options& asked, bool can_repeat) {
  spec::check(asked, isolation_by_default());
  if (can_repeat || !asked.retry_exceptions || asked.max_retries == 0) return;
  raise(errc::invalid_argument,
        "option retry_exceptions: an argument that the function takes by value can't be copied for "
        "another run; take it by const reference, or leave the option unset");
}

void check_generator_options(const options& asked) {
  spec::check(asked, isolation_by_default());
  if (!asked.retry_exceptions || asked.max_retries == 0) return;
  raise(errc::invalid_argument,
        "option retry_exceptions: asked for a generator, which can't run again, for its items are "
        "out; leave the option unset, and call the generator again when an item fails");
}

void check_call_options(const call_options& asked) { spec::check(asked); }

void check_actor_options(const actor_options& asked) { spec::check(asked, isolation_by_default()); }

}  // namespace manta::inline v0::detail
