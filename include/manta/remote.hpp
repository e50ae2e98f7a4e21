// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>
#include <utility>

#include <manta/actor.hpp>
#include <manta/signature.hpp>
#include <manta/spec/options.hpp>
#include <manta/task.hpp>

// remote<F>(args...): calls F somewhere and gives a future to its result.

namespace manta::inline v0 {

namespace detail {

/// Calls the constant F. Stateless: takes no room in the job.
template <auto F>
struct constant_callee {
  template <class... A>
  decltype(auto) operator()(A&&... args) const {
    return F(std::forward<A>(args)...);
  }
  static constexpr const char* name() noexcept { return base::spelled_function<F>(); }
};

/// Throws for options that can't be.
MANTA_API void check_options(const options& asked);

template <auto F, class Options, class... Args>
auto call_function(Options&& with, Args&&... args) {
  using sig = signature<std::remove_cv_t<decltype(F)>>;
  static_assert(sig::is_known,
                "manta::remote: F must be a function, a member function of an actor, or a lambda "
                "without captures and without auto parameters; choose an overload with a cast");
  using R = typename sig::result;
  static_assert(check_result<R>() && check_parameters<true>(typename sig::parameters{}));
  using pack = typename pack_for<typename sig::parameters, Args...>::type;
  using job = task<constant_callee<F>, R, pack, std::remove_cvref_t<Options>>;
  return start_task<R, job>(std::forward<Options>(with), constant_callee<F>{},
                            std::forward<Args>(args)...);
}

}  // namespace detail

/// A remote function with options; made by remote<F>.with(...).
template <auto F>
class remote_with_options {
 public:
  explicit remote_with_options(options with) : with_(std::move(with)) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    static_assert(!std::is_member_function_pointer_v<decltype(F)>,
                  "manta::remote: options belong to tasks; an actor's are given to spawn");
    exec::executor::require();
    detail::check_options(with_);
    detail::named_options named{with_.name};
    if (!with_.cpus) return detail::call_function<F>(std::move(named), std::forward<Args>(args)...);
    return detail::call_function<F>(
        detail::counted_options{std::move(named), exec::core_claim(*with_.cpus)},
        std::forward<Args>(args)...);
  }

 private:
  options with_;
};

/// The callable type of remote<F>.
template <auto F>
struct remote_function {
  /// Calls F(args...) as a task and gives a future to its result at once. For a member function the
  /// first argument is the actor.
  ///
  /// Arguments: values, which are copied or moved into the task; futures, which the task waits for
  /// when F takes their value; vectors of futures where F takes a vector or a span of const. Throws
  /// no_runtime, cancelled (called from a task of a runtime that has ended), invalid_argument (an
  /// empty future), std::bad_alloc, and whatever copying an argument throws. Any thread.
  /// Cost: one block of 64 bytes and up, one queue entry; a wake when a worker sleeps.
  template <class... Args>
  auto operator()(Args&&... args) const {
    if constexpr (std::is_member_function_pointer_v<decltype(F)>) {
      return detail::call_method<F>(std::forward<Args>(args)...);
    } else {
      return detail::call_function<F>(detail::no_options{}, std::forward<Args>(args)...);
    }
  }

  /// The same function with options: `remote<f>.with({.cpus = 2})(x)`. The options are checked at
  /// the call; see options.hpp.
  remote_with_options<F> with(options asked) const {
    return remote_with_options<F>(std::move(asked));
  }
};

/// `remote<f>(args...)` calls f remotely; F is a function, a template's instance, a lambda without
/// captures, or a member function (of an actor). No macro and no registration.
template <auto F>
inline constexpr remote_function<F> remote{};

}  // namespace manta::inline v0
