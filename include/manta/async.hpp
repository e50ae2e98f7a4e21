// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <coroutine>
#include <type_traits>
#include <utility>

#include <manta/signature.hpp>
#include <manta/stream.hpp>
#include <manta/task.hpp>

// async: a task from any callable, for work that never leaves the process.

namespace manta::inline v0 {

namespace detail {

template <class F>
struct held_callee {
  F function;
  decltype(auto) operator()() {
    using R = std::invoke_result_t<F&&>;
    // The captures of a coroutine are needed until it ends, and this object goes before.
    if constexpr (is_coroutine<R>::value && !std::is_empty_v<F>) {
      return frame_starter<R>::hold(std::move(function));
    } else {
      return std::move(function)();
    }
  }
  static constexpr const char* name() noexcept { return base::spelled_type<F>(); }
};

/// What a generator gave that was called directly; awaiting it runs it inside the generator that
/// does, as that one's items.
template <class T>
class [[nodiscard]] inner_generator {
 public:
  explicit inner_generator(stream<T> made)
      : frame_(frame_starter<stream<T>>::frame(std::move(made))) {}
  inner_generator(inner_generator&& other) noexcept
      : frame_(std::exchange(other.frame_, nullptr)) {}
  inner_generator& operator=(inner_generator&&) = delete;
  ~inner_generator() {
    if (frame_ != nullptr) frame_->handle.destroy();
  }
  friend inner_generator manta_await(inner_generator&& g) { return std::move(g); }

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<stream_promise<T>> outer) noexcept {
    static_cast<stream_promise<T>*>(frame_)->core = outer.promise().core;
    frame_->caller = &outer.promise();
    frame_->owner = &frame_;
    exec::coroutine_turn::current().next = frame_;
  }
  void await_resume() { static_cast<stream_promise<T>*>(frame_)->take(); }

 private:
  exec::coroutine_frame* frame_;
};

template <class F, class T>
stream<T> hold_generator(F function) {
  co_await inner_generator<T>(std::move(function)());
}

/// A generator's function, whose captures are needed until the generator has ended.
template <class F, class T>
struct held_generator : stream_starter<stream<T>>::seat {
  F function;
  stream<T> operator()() {
    return stream_starter<stream<T>>::seated(*this, hold_generator<F, T>(std::move(function)));
  }
  static constexpr const char* name() noexcept { return base::spelled_type<F>(); }
};

template <class R, class F>
R start_generator(F&& function) {
  using T = typename R::value_type;
  using callee = held_generator<std::decay_t<F>, T>;
  using job = task<callee, R, argument_pack<>, false>;
  exec::executor::require();
  auto core = exec::stream_ref::make();
  const future<void> generator = start_task<R, job>(callee{{core}, std::forward<F>(function)});
  return stream_starter<R>::watched(std::move(core), generator);
}

}  // namespace detail

/// Runs `function()` as a task and gives a future to its result. The callable may capture anything,
/// references included (what they refer to must live until the task is done), and may be move-only;
/// it is called once. It may be a coroutine, whose captures live until it has ended; of a generator
/// it gives a stream. Such a task stays in this process.
///
/// Under a deadline (a deadline_scope, or the .timeout of the task that calls async) the future may
/// end with timed_out while the callable still runs: then let it own what it uses, by value or by
/// std::shared_ptr, since its caller may be gone. Errors, threads and cost as for remote; a
/// coroutine or generator with captures costs one more frame.
template <class F>
auto async(F&& function) {
  using stored = std::decay_t<F>;
  static_assert(std::is_invocable_v<stored&&>,
                "manta::async: the callable must take no arguments; capture them instead");
  using R = std::invoke_result_t<stored&&>;
  static_assert(!std::is_reference_v<R>,
                "manta::async: a task can't return a reference; return the value");
  if constexpr (detail::stream_starter<R>::is_stream) {
    return detail::start_generator<R>(std::forward<F>(function));
  } else {
    using callee = detail::held_callee<stored>;
    using job = detail::task<callee, R, detail::argument_pack<>, false>;
    return detail::start_task<R, job>(callee{std::forward<F>(function)});
  }
}

}  // namespace manta::inline v0
