// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>
#include <utility>

#include <manta/actor.hpp>
#include <manta/inbound.hpp>
#include <manta/signature.hpp>
#include <manta/spec/options.hpp>
#include <manta/task.hpp>

// remote<F>(args...): calls F somewhere and gives a future to its result.

namespace manta::inline v0 {

namespace detail {

/// Calls the constant F. Stateless: takes no room in the job.
template <auto F>
struct constant_callee {
  using described = described_function<F, codec::entry_kind::task>;
  template <class... A>
  decltype(auto) operator()(A&&... args) const {
    return F(std::forward<A>(args)...);
  }
  static constexpr const char* name() noexcept { return base::spelled_function<F>(); }
};

/// Throws for options that can't be. `can_repeat`: the arguments can be kept for another run.
MANTA_API void check_options(const options& asked, bool can_repeat);
/// The same for a generator, which never runs again.
MANTA_API void check_generator_options(const options& asked);

/// Whether a call's task may run more than once. Not asked of a call without options, for it may
/// take a while to compile.
template <class Pack, bool HasOptions>
constexpr bool can_run_again() {
  if constexpr (HasOptions) return Pack::can_repeat;
  return false;
}

template <auto F, bool HasOptions, class... Args>
auto call_function(const options* with, Args&&... args) {
  using sig = signature<std::remove_cv_t<decltype(F)>>;
  static_assert(sig::is_known,
                "manta::remote: F must be a function, a member function of an actor, or a lambda "
                "without captures and without auto parameters; choose an overload with a cast");
  using R = typename sig::result;
  static_assert(check_result<R>() && check_parameters<R, true>(typename sig::parameters{}));
  using pack = typename pack_for<typename sig::parameters, Args...>::type;
  using starter = stream_starter<R>;
  using job = task<constant_callee<F>, R, pack, can_run_again<pack, HasOptions>()>;
  if constexpr (HasOptions) {
    exec::executor::require();
    const exec::extra_source source{.task = with};
    if constexpr (starter::is_stream) {
      check_generator_options(*with);
      return starter::template start<F, pack>(&source, std::forward<Args>(args)...);
    } else {
      check_options(*with, pack::can_repeat);
      return start_task_with<R, job>(source, constant_callee<F>{}, std::forward<Args>(args)...);
    }
  } else {
    if constexpr (starter::is_stream) {
      return starter::template start<F, pack>(nullptr, std::forward<Args>(args)...);
    } else {
      return start_task<R, job>(constant_callee<F>{}, std::forward<Args>(args)...);
    }
  }
}

}  // namespace detail

/// A remote function with options; made by remote<F>.with(...).
template <auto F>
class remote_with_options {
 public:
  /// As remote<F>.with.
  explicit remote_with_options(options with) : with_(std::move(with)) {}

  /// As remote<F>(args...). Throws invalid_argument for an option out of its range, infeasible for
  /// what this runtime never has.
  template <class... Args>
  auto operator()(Args&&... args) const {
    return detail::call_function<F, true>(&with_, std::forward<Args>(args)...);
  }

 private:
  options with_;
};

/// An actor's method with options; made by remote<&T::method>.with(...).
template <auto F>
class method_with_options {
 public:
  /// As remote<&T::method>.with.
  explicit method_with_options(call_options with) : with_(std::move(with)) {}

  /// As remote<&T::method>(handle, args...). Throws invalid_argument for an option out of its
  /// range.
  template <class... Args>
  auto operator()(Args&&... args) const {
    exec::executor::require();
    detail::check_call_options(with_);
    return detail::call_method<F>(&with_, std::forward<Args>(args)...);
  }

 private:
  call_options with_;
};

/// The callable type of remote<F>.
template <auto F>
struct remote_function {
  /// Whether F is a member function, that is an actor's method.
  static constexpr bool is_method = std::is_member_function_pointer_v<decltype(F)>;

  /// Calls F(args...) as a task and gives a future to its result at once. For a member function the
  /// first argument is the actor.
  ///
  /// What F takes and returns must be able to reach another process one day: raw pointers,
  /// std::function, std::any, threads, locks and atomics are refused at compile time, see async.
  /// Arguments: values, which are copied or moved into the task; futures, which the task waits for
  /// when F takes their value; vectors of futures where F takes a vector or a span of const. Throws
  /// no_runtime, cancelled (called from a task of a runtime that has ended), invalid_argument (an
  /// empty future), std::bad_alloc, and whatever copying an argument throws. Any thread.
  /// Cost: one block of 64 bytes and up, one queue entry; a wake when a worker sleeps.
  template <class... Args>
  auto operator()(Args&&... args) const {
    if constexpr (is_method) {
      return detail::call_method<F>(nullptr, std::forward<Args>(args)...);
    } else {
      return detail::call_function<F, false>(nullptr, std::forward<Args>(args)...);
    }
  }

  /// What `with` takes: options for a task, call_options for an actor's method.
  using options_type = std::conditional_t<is_method, call_options, options>;

  /// The same function with options: `remote<f>.with({.cpus = 2})(x)`,
  /// `remote<&T::m>.with({.timeout = 1s})(handle, x)`. The options are checked at the call; see
  /// options.hpp.
  auto with(options_type asked) const {
    if constexpr (is_method) {
      return method_with_options<F>(std::move(asked));
    } else {
      return remote_with_options<F>(std::move(asked));
    }
  }
};

/// `remote<f>(args...)` calls f remotely; F is a function, a template's instance, a lambda without
/// captures, or a member function (of an actor). No macro and no registration.
template <auto F>
inline constexpr remote_function<F> remote{};

}  // namespace manta::inline v0
