// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <manta/awaitable.hpp>
#include <manta/task.hpp>

// coroutine<T>: what a task or method returns that waits with co_await instead of keeping a thread.
// How it runs is told in exec/suspension.hpp.

namespace manta::inline v0 {

template <class T = void>
class coroutine;

namespace detail {

template <class T>
struct coroutine_promise : promise_base, frame_outcome<T> {
  coroutine<T> get_return_object() noexcept {
    handle = std::coroutine_handle<coroutine_promise>::from_promise(*this);
    return coroutine<T>(this);
  }
};

/// Awaits a coroutine in the same job: its frame runs next, and its caller after it.
template <class T>
class [[nodiscard]] frame_awaiter {
 public:
  explicit frame_awaiter(exec::coroutine_frame* frame) noexcept : frame_(frame) {}
  ~frame_awaiter() {
    if (frame_ != nullptr) frame_->handle.destroy();
  }
  frame_awaiter(const frame_awaiter&) = delete;
  frame_awaiter& operator=(const frame_awaiter&) = delete;

  bool await_ready() const {
    if (frame_ == nullptr) raise_empty_coroutine();
    return false;
  }
  template <engine_promise Promise>
  void await_suspend(std::coroutine_handle<Promise> caller) noexcept {
    frame_->caller = &caller.promise();
    frame_->owner = &frame_;
    exec::coroutine_turn::current().next = frame_;
  }
  T await_resume() { return static_cast<coroutine_promise<T>*>(frame_)->take(); }

 private:
  exec::coroutine_frame* frame_;
};

template <class T>
struct is_coroutine<coroutine<T>> : std::true_type {};
template <class T>
struct flat<coroutine<T>> {
  using type = T;
};

/// The way into a coroutine for the rest of the library.
struct coroutine_access {
  template <class T>
  static exec::coroutine_frame* release(coroutine<T>& c) noexcept {
    return std::exchange(c.frame_, nullptr);
  }
};

/// Runs a coroutine as a job.
template <class T>
struct frame_starter<coroutine<T>> {
  static std::uint64_t settle(exec::job* j, exec::coroutine_frame* root) noexcept {
    auto* const promise = static_cast<coroutine_promise<T>*>(root);
    std::uint64_t bits = exec::job_bits::ready;
    try {
      if constexpr (std::is_void_v<T>) {
        promise->take();
      } else {
        new (&value_of<T>(j)) T(promise->take());
        rest_value<T>(j);
      }
    } catch (...) {
      new (j->slot(1))
          error(describe_current_exception(shown_name(j, j->ops->function), attempt_of(j)));
      bits |= exec::job_bits::failed;
    }
    root->handle.destroy();
    return bits;
  }
  static exec::coroutine_frame* frame(coroutine<T> made) {
    if (!made.valid()) raise_empty_coroutine();
    return coroutine_access::release(made);
  }
  /// Calls `function(args...)` from a frame that has both: the captures of a lambda that is a
  /// coroutine live in the lambda, and what it takes by reference elsewhere, so both have to live
  /// until its frame is gone, however it ends.
  template <class F, class... A>
  static coroutine<T> hold(F function, A... args) {
    co_return co_await std::move(function)(std::as_const(args)...);
  }
};

}  // namespace detail

/// The return type of a coroutine task or method: a function that uses co_await, called remotely.
///
///     manta::coroutine<int> total(int n) {
///       int sum = 0;
///       for (int i = 0; i < n; ++i) sum += co_await manta::remote<part>(i);
///       co_return sum;
///     }
///     manta::future<int> f = manta::remote<total>(10);
///
/// remote<total>(10) gives future<int>. While it waits the task has no thread and no stack, only
/// its frame; cores that it asked for are free for others meanwhile. It goes on on any worker, as
/// the same caller: its calls are numbered and ordered as those of a plain task that used get.
///
/// What can be awaited: a future as lvalue (const T&, valid as long as the future) or rvalue (T,
/// moved out where nobody else has it); a vector of futures (the values, or the first error);
/// another coroutine called directly, `co_await other(x)`, which runs in the same task, to any
/// depth; and what the libraries say. What is ready already does not suspend. A failed future
/// throws as get does; self_wait is thrown for the task's own future and an actor's own later call.
/// A cancelled task's co_await throws manta::cancelled.
///
/// An actor's method may be one: it counts as running until it has ended, so a plain actor's next
/// call waits, and the object's fields may only change meanwhile where calls run at the same time.
///
/// Parameters are values: a reference would dangle when the coroutine goes on later, which remote
/// refuses at compile time. When the runtime ends, suspended coroutines are destroyed and their
/// futures fail with cancelled.
///
/// The object itself is a handle to a call that has not begun: movable, for one thread. Called
/// directly and neither awaited nor given to remote, the function never runs. Cost: one block for
/// the frame; another one, 256 bytes, from the first suspension on.
template <class T>
class [[nodiscard]] coroutine {
  static_assert(!std::is_reference_v<T>, "manta::coroutine<T&>: co_return a value");
  static_assert(!detail::is_future<T>::value,
                "manta::coroutine<future<T>>: co_return co_await the future, as coroutine<T>");

 public:
  /// What co_return gives.
  using value_type = T;
  /// For the compiler.
  using promise_type = detail::coroutine_promise<T>;

  /// Takes the call over; `other` is not valid() then.
  coroutine(coroutine&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  /// Swaps the calls.
  coroutine& operator=(coroutine&& other) noexcept {
    std::swap(frame_, other.frame_);
    return *this;
  }
  ~coroutine() {
    if (frame_ != nullptr) frame_->handle.destroy();
  }

  /// Whether there is a call to be awaited: it was neither moved from nor awaited.
  bool valid() const noexcept { return frame_ != nullptr; }

  friend auto manta_await(coroutine&& callee) {
    return detail::frame_awaiter<T>(detail::coroutine_access::release(callee));
  }

 private:
  friend struct detail::coroutine_access;
  friend promise_type;
  explicit coroutine(exec::coroutine_frame* frame) noexcept : frame_(frame) {}

  exec::coroutine_frame* frame_;
};

}  // namespace manta::inline v0
