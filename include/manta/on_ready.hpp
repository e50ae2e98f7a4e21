// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>
#include <utility>

#include <manta/pending.hpp>

// on_ready: what to do when a future has ended.

namespace manta::inline v0 {

namespace detail {

template <class T, class F>
struct ready_callback {
  static constexpr const char* task_name = "on_ready";
  F function;
  decltype(auto) operator()(future<T>&& f) {
    using R = std::invoke_result_t<F&&, const future<T>&>;
    if constexpr (is_coroutine<R>::value) {
      // It needs its captures and the future until it ends.
      return frame_starter<R>::hold(std::move(function), std::move(f));
    } else {
      const future<T> ended = std::move(f);
      return std::move(function)(ended);
    }
  }
};

}  // namespace detail

/// Calls `function(const future<T>&)` when `f` has ended, with a value or an error, and gives a
/// future to what it returns:
///
///     manta::on_ready(f, [](const manta::future<int>& ended) { log(ended.try_get()); });
///
/// It runs as a task of its own, never on the thread that completed `f` nor inside this call, and
/// its caller is whoever calls on_ready. The callable may capture anything and be move-only; it is
/// called once, or not at all when the runtime ends first. What it throws arrives at the returned
/// future, which may be dropped; a future that it returns is flattened. It may be a coroutine: the
/// future that it takes and its captures live until it has ended. Throws no_runtime,
/// invalid_argument (an empty future), std::bad_alloc, and what copying the callable throws. Any
/// thread. Cost: one task.
template <class T, class F>
auto on_ready(const future<T>& f, F&& function) {
  using stored = std::decay_t<F>;
  static_assert(std::is_invocable_v<stored&&, const future<T>&>,
                "manta::on_ready: the callable must take const manta::future<T>&");
  using R = std::invoke_result_t<stored&&, const future<T>&>;
  static_assert(!std::is_reference_v<R>,
                "manta::on_ready: the callable can't return a reference; return the value");
  static_assert(!detail::stream_starter<R>::is_stream,
                "manta::on_ready: the callable can't be a generator, nobody would take its items; "
                "return a manta::coroutine, or call the generator with manta::remote or async");
  if constexpr (!detail::stream_starter<R>::is_stream) {
    return detail::after(f, detail::ready_callback<T, stored>{std::forward<F>(function)});
  }
}

}  // namespace manta::inline v0
