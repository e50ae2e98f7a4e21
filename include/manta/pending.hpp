// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>
#include <type_traits>
#include <utility>

#include <manta/argument.hpp>
#include <manta/base/type_name.hpp>
#include <manta/exec/context.hpp>
#include <manta/future.hpp>
#include <manta/spec/error.hpp>
#include <manta/task.hpp>

// What the thin libraries on top of futures are made of: a future that is filled by hand, and a
// task that runs when a future has ended, however it ended. Users do not call this.

namespace manta::inline v0::detail {

/// While it lives, the calls of this caller have to end by `at` instead of by its own deadline.
class calls_until {
 public:
  explicit calls_until(base::time_point at) noexcept
      : of_(exec::this_thread.current), before_(std::exchange(of_->deadline, at)) {}
  calls_until(const calls_until&) = delete;
  calls_until& operator=(const calls_until&) = delete;
  ~calls_until() { of_->deadline = before_; }

 private:
  exec::context* of_;
  base::time_point before_;
};

/// A job that never runs: claimed from the start by the promise that fills it.
template <class T>
struct pending_object : cell<T> {
  pending_object() : cell<T>(&ops, 2) { this->try_claim(); }
  static const exec::job_ops ops;
};

template <class T>
const exec::job_ops pending_object<T>::ops = value_ops<T>(sizeof(pending_object), 0, nullptr);

[[nodiscard]] MANTA_API error abandoned_error();

/// Owes a future its value or error, once; one that goes without having paid fails it with
/// cancelled. Movable; externally synchronised.
template <class T>
class promise {
 public:
  /// Makes the future. Requires executor::require(). Throws std::bad_alloc.
  explicit promise(future<T>& out) : job_(make_job<pending_object<T>>()) {
    exec::name_child(job_);
    out = access::make<T>(job_);
  }
  promise(promise&& other) noexcept : job_(std::exchange(other.job_, nullptr)) {}
  promise& operator=(promise&&) = delete;
  ~promise() {
    if (job_ != nullptr) fail(abandoned_error());
  }

  /// Pays with a value made from `from`, or with the error when making it throws.
  template <class U>
  void set(U&& from) noexcept {
    try {
      new (&value_of<T>(job_)) T(std::forward<U>(from));
      rest_value<T>(job_);
    } catch (...) {
      fail(describe_current_exception("the value's constructor"));
      return;
    }
    std::exchange(job_, nullptr)->finish(exec::job_bits::ready, 1);
  }
  /// Pays with an error.
  void fail(error reason) noexcept { std::exchange(job_, nullptr)->fail(std::move(reason), 1); }

 private:
  exec::job* job_;
};

/// A future that its task waits for and gets as it is, failed or not.
template <class T>
struct ended_argument {
  future<T> from;
  dependency node;

  explicit ended_argument(future<T> f) : from(std::move(f)) {
    if (!from.valid()) raise_empty_future();
  }
  static constexpr bool is_linked = true;
  void link(exec::job* j) {
    exec::job* const on = access::job(from);
    if (!on->is_ready()) node.link(j, on);
  }
  const error* failure() noexcept { return nullptr; }
  future<T>&& pass() noexcept { return std::move(from); }
};

/// A task's name: the type of what it calls, or what that says itself.
template <class F>
constexpr const char* callee_name() noexcept {
  if constexpr (requires { F::task_name; }) {
    return F::task_name;
  } else {
    return base::spelled_type<F>();
  }
}

/// Names a task by what it calls.
template <class F>
struct named_callee {
  F function;
  template <class... A>
  decltype(auto) operator()(A&&... args) {
    return std::move(function)(std::forward<A>(args)...);
  }
  static constexpr const char* name() noexcept { return callee_name<F>(); }
};

template <class Callee, class R, class Pack>
using plain_task = task<Callee, R, Pack, false>;

/// Runs `function(future<T>&&)` as a task when `f` has ended; the task's own handle is handed over,
/// so that a value nobody else holds can be moved out.
template <class T, class F>
auto after(future<T> f, F&& function) {
  using callee = named_callee<std::decay_t<F>>;
  using R = std::invoke_result_t<std::decay_t<F>&&, future<T>&&>;
  using job = plain_task<callee, R, argument_pack<ended_argument<T>>>;
  return start_task<R, job>(callee{std::forward<F>(function)}, std::move(f));
}

}  // namespace manta::inline v0::detail
