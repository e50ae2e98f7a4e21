// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>
#include <utility>

#include <manta/signature.hpp>
#include <manta/task.hpp>

// async: a task from any callable, for work that never leaves the process.

namespace manta::inline v0 {

namespace detail {

template <class F>
struct held_callee {
  F function;
  decltype(auto) operator()() { return std::move(function)(); }
  static constexpr const char* name() noexcept { return base::spelled_type<F>(); }
};

}  // namespace detail

/// Runs `function()` as a task and gives a future to its result. The callable may capture anything,
/// references included (what they refer to must live until the task is done), and may be move-only;
/// it is called once. Such a task stays in this process. Errors, threads and cost as for remote.
template <class F>
auto async(F&& function) {
  using stored = std::decay_t<F>;
  static_assert(std::is_invocable_v<stored&&>,
                "manta::async: the callable must take no arguments; capture them instead");
  using R = std::invoke_result_t<stored&&>;
  static_assert(!std::is_reference_v<R>,
                "manta::async: a task can't return a reference; return the value");
  using callee = detail::held_callee<stored>;
  using job = detail::task<callee, R, detail::argument_pack<>, false>;
  return detail::start_task<R, job>(callee{std::forward<F>(function)});
}

}  // namespace manta::inline v0
