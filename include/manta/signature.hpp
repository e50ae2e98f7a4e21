// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include <manta/future.hpp>
#include <manta/travel.hpp>

// What a function that is called remotely takes and returns, and what it may not take: each refusal
// is one line that says what to do.

namespace manta::inline v0 {

template <class T>
class actor;

namespace detail {

template <class... P>
struct type_list {
  static constexpr std::size_t size = sizeof...(P);
};

/// Result, object (void for free functions) and parameters of a callable type.
template <class F>
struct signature {
  static constexpr bool is_known = false;
};

template <class Object, class R, class... P>
struct known_signature {
  static constexpr bool is_known = true;
  using object = Object;
  using result = R;
  using parameters = type_list<P...>;
};

template <class R, class... P>
struct signature<R (*)(P...)> : known_signature<void, R, P...> {};
template <class R, class... P>
struct signature<R (*)(P...) noexcept> : known_signature<void, R, P...> {};
template <class T, class R, class... P>
struct signature<R (T::*)(P...)> : known_signature<T, R, P...> {};
template <class T, class R, class... P>
struct signature<R (T::*)(P...) const> : known_signature<const T, R, P...> {};
template <class T, class R, class... P>
struct signature<R (T::*)(P...) noexcept> : known_signature<T, R, P...> {};
template <class T, class R, class... P>
struct signature<R (T::*)(P...) const noexcept> : known_signature<const T, R, P...> {};
template <class T, class R, class... P>
struct signature<R (T::*)(P...)&> : known_signature<T, R, P...> {};
template <class T, class R, class... P>
struct signature<R (T::*)(P...) const&> : known_signature<const T, R, P...> {};

/// A lambda has the signature of its call operator, as a free function.
template <class F>
requires requires { &F::operator(); }
struct signature<F> {
  using call = signature<decltype(&F::operator())>;
  static constexpr bool is_known = call::is_known;
  using object = void;
  using result = typename call::result;
  using parameters = typename call::parameters;
};

template <class T>
struct span_element {
  using type = void;
};
template <class T>
struct span_element<std::span<T>> {
  using type = T;
};
template <class T>
using span_element_t = typename span_element<std::remove_cvref_t<T>>::type;

template <class T>
inline constexpr bool is_span = !std::is_void_v<span_element_t<T>>;
template <class T>
inline constexpr bool is_const_span = is_span<T>&& std::is_const_v<span_element_t<T>>;

template <class T>
inline constexpr bool is_string_view = false;
template <class C, class Traits>
inline constexpr bool is_string_view<std::basic_string_view<C, Traits>> = true;

/// Refuses parameter P of a function in one line. `SpansAllowed`: plain tasks may take spans of
/// const.
template <class P, bool SpansAllowed>
constexpr bool check_parameter() {
  using plain = std::remove_cvref_t<P>;
  static_assert(
      !std::is_lvalue_reference_v<P> || std::is_const_v<std::remove_reference_t<P>>,
      "manta: a parameter T& can't be filled remotely, the caller would not see the change; "
      "take T by value or const T& and return the result");
  static_assert(!std::is_pointer_v<plain>,
                "manta: a raw pointer means nothing in another task or process; take the object by "
                "value, const T&, std::span<const T>, a future or an actor handle");
  static_assert(!is_string_view<plain>,
                "manta: a string_view would outlive its characters; take const std::string&");
  static_assert(
      !is_span<plain> || is_const_span<plain>,
      "manta: a mutable span can't be filled remotely; take std::span<const T> and return "
      "the result");
  static_assert(!is_span<plain> || SpansAllowed,
                "manta: spans of const are for plain tasks; actors' methods and constructors take "
                "const std::vector<T>&");
  return true;
}

template <class R>
constexpr bool check_result() {
  static_assert(!std::is_reference_v<R>,
                "manta: a remote function can't return a reference; return the value");
  static_assert(!std::is_pointer_v<R>,
                "manta: a remote function can't return a raw pointer; return the value");
  static_assert(!is_span<R> && !is_string_view<std::remove_cvref_t<R>>,
                "manta: a remote function can't return a view; return the vector or string");
  return true;
}

/// Whether R is what a function that suspends returns; see coroutine.hpp, stream.hpp.
template <class R>
struct is_coroutine : std::false_type {};

/// Refuses what would be gone when a coroutine goes on later: it keeps its parameters itself.
template <class P>
constexpr bool check_coroutine_parameter() {
  static_assert(!std::is_reference_v<P>,
                "manta: a coroutine's parameter can't be a reference, const T& neither: it would "
                "dangle when the coroutine goes on later; take T by value");
  static_assert(
      !std::is_pointer_v<P>,
      "manta: a coroutine's parameter can't be a raw pointer; take the object by value, a "
      "future or an actor handle");
  static_assert(!is_string_view<std::remove_cv_t<P>>,
                "manta: a coroutine's parameter can't be a string_view: it would dangle when the "
                "coroutine goes on later; take std::string by value");
  static_assert(
      !is_span<P>,
      "manta: a coroutine's parameter can't be a span: it would dangle when the coroutine "
      "goes on later; take std::vector<T> by value");
  return true;
}

/// Refuses a parameter that could never come from another process.
template <class P>
constexpr bool check_parameter_travel() {
  using plain = std::remove_cvref_t<P>;
  // A plain pointer and a view have their own lines; a span stands for a vector.
  if constexpr (std::is_pointer_v<plain> || is_string_view<plain>) {
    return true;
  } else if constexpr (is_span<plain>) {
    return check_travel<std::remove_cv_t<span_element_t<plain>>>();
  } else {
    return check_travel<plain>();
  }
}

/// Refuses a result that could never go to another process.
template <class R>
constexpr bool check_result_travel() {
  if constexpr (std::is_reference_v<R> || std::is_pointer_v<R> || is_span<R> ||
                is_string_view<std::remove_cvref_t<R>>) {
    return true;  // refused elsewhere
  } else if constexpr (is_coroutine<R>::value) {
    return check_travel<typename R::value_type>();
  } else {
    return check_travel<flat_t<R>>();
  }
}

template <class R, bool SpansAllowed, class... P>
constexpr bool check_parameters(type_list<P...> /*parameters*/) {
  static_assert(check_result_travel<R>() && (check_parameter_travel<P>() && ... && true));
  if constexpr (is_coroutine<R>::value) {
    return (check_coroutine_parameter<P>() && ... && true);
  } else {
    return (check_parameter<P, SpansAllowed>() && ... && true);
  }
}

}  // namespace detail
}  // namespace manta::inline v0
