// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <coroutine>
#include <cstddef>
#include <optional>
#include <utility>

#include <manta/actor_jobs.hpp>
#include <manta/awaitable.hpp>
#include <manta/exec/stream_core.hpp>
#include <manta/object.hpp>
#include <manta/task.hpp>

// What generators and streams (stream.hpp) are made of: items, what co_yield awaits, what a
// consumer awaits.

namespace manta::inline v0::detail {

struct failed_item {};

/// An item: a job that is done from the start, with room for its link in front.
template <class T>
struct stream_item : cell<T> {
  static constexpr std::size_t front = front_of_call<T>;

  template <class U>
  explicit stream_item(U&& from) : cell<T>(&ops, 1) {
    new (&value_of<T>(this)) T(std::forward<U>(from));
    rest_value<T>(this);
    this->finish(exec::job_bits::claimed | exec::job_bits::ready, 0);
  }
  stream_item(failed_item /*says so*/, error why) : cell<T>(&ops, 1) {
    new (this->slot(1)) error(std::move(why));
    this->finish(exec::job_bits::claimed | exec::job_bits::ready | exec::job_bits::failed, 0);
  }
  static const exec::job_ops ops;
};

/// Null for an item of a generator of this process alone, made by async.
template <class T>
constexpr const void* item_carrier() noexcept {
  if constexpr (node::can_travel<T>) {
    return &value_carrier<T>::value;
  } else {
    return nullptr;
  }
}

template <class T>
const exec::job_ops stream_item<T>::ops = value_ops<T>(front + sizeof(stream_item), front,
                                                       item_carrier<T>());

/// co_yield's suspension, when the generator is out of credits or not wanted any more.
class yield_awaiter : exec::await_node {
 public:
  explicit yield_awaiter(exec::stream_core& core) noexcept : core_(core) {}
  ~yield_awaiter() {
    give_up([this] { return core_.remove_producer(this); });
  }
  yield_awaiter(const yield_awaiter&) = delete;
  yield_awaiter& operator=(const yield_awaiter&) = delete;

  bool await_ready() const noexcept { return core_.has_credit() && !core_.is_abandoned(); }
  template <engine_promise Promise>
  bool await_suspend(std::coroutine_handle<Promise> self) {
    if (core_.is_abandoned()) return end(self.promise());
    begin(self.promise());
    if (!core_.add_producer(this, entry())) {
      withdraw();
      // Abandoned in between: to go on would be an item for which there is no credit.
      return core_.is_abandoned() && end(self.promise());
    }
    return commit([this] { return core_.remove_producer(this); });
  }
  void await_resume() {
    resumed([this] { return core_.remove_producer(this); });
  }

 private:
  // The generator stays suspended, and ends.
  template <engine_promise Promise>
  static bool end(Promise& of) {
    exec::doom_turn(of);
    return true;
  }

  exec::stream_core& core_;
};

/// In the check-copy mode: as check_arguments, for an item that nobody has yet; when it throws the
/// item is gone.
MANTA_API void check_item(exec::job* item);

/// Waits for a stream's next item in a coroutine.
template <class T>
class next_source {
 public:
  explicit next_source(exec::stream_core& core) noexcept : core_(core) {}
  bool is_ready() noexcept { return core_.has_next(); }
  bool add_waiter(exec::waiter* w) {
    refuse_self_await(core_.generator());
    return core_.add_consumer(w);
  }
  bool remove_waiter(exec::waiter* w) noexcept { return core_.remove_consumer(w); }
  std::optional<future<T>> take() {
    // Registered in vain, or told: the item is in the inbox.
    core_.has_next();
    exec::job* const item = core_.take();
    if (item == nullptr) return std::nullopt;
    return access::make<T>(item);
  }

 private:
  exec::stream_core& core_;
};

}  // namespace manta::inline v0::detail
