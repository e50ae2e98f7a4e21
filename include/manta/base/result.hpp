// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>
#include <utility>
#include <variant>

#include <manta/base/check.hpp>

// A value or the reason why there is none. The form in which calls that can fail for expected
// reasons answer; the throwing form of the same call is built on it.

namespace manta::inline v0::base {

/// Holds T (an object type, a reference, or void) or E. Externally synchronised.
template <class T, class E>
class basic_result {
  using stored = std::conditional_t<
      std::is_void_v<T>, std::monostate,
      std::conditional_t<std::is_reference_v<T>, std::remove_reference_t<T>*, T>>;

 public:
  /// What it holds when nothing went wrong.
  using value_type = T;

  /// A value.
  template <class U = stored>
  requires(!std::is_void_v<T> && !std::is_reference_v<T> && std::is_constructible_v<T, U&&> &&
           !std::is_same_v<std::remove_cvref_t<U>, basic_result> &&
           !std::is_same_v<std::remove_cvref_t<U>, E>) basic_result(U&& value)
      : state_(std::in_place_index<0>, std::forward<U>(value)) {}
  /// A value, also where T is E.
  template <class U>
  requires(!std::is_void_v<T> && !std::is_reference_v<T>)
      basic_result(std::in_place_t /*value*/, U&& value)
      : state_(std::in_place_index<0>, std::forward<U>(value)) {}
  /// A reference to a value that lives elsewhere.
  basic_result(std::conditional_t<std::is_void_v<T>, stored, std::remove_reference_t<T>>&
                   value) requires(std::is_lvalue_reference_v<T>)
      : state_(std::in_place_index<0>, &value) {}
  /// Nothing went wrong.
  basic_result() requires(std::is_void_v<T>) : state_(std::in_place_index<0>) {}
  /// An error.
  basic_result(E error) : state_(std::in_place_index<1>, std::move(error)) {}

  /// Whether there is a value, not an error.
  bool has_value() const noexcept { return state_.index() == 0; }
  /// The same.
  explicit operator bool() const noexcept { return has_value(); }

  /// The value. Requires has_value(): asking for one that is not there is a bug in the caller and
  /// ends the process.
  decltype(auto) value() const& {
    require_value();
    if constexpr (std::is_reference_v<T>) {
      return static_cast<T>(*std::get<0>(state_));
    } else if constexpr (!std::is_void_v<T>) {
      return static_cast<const T&>(std::get<0>(state_));
    }
  }
  /// The same; the value may be moved from.
  decltype(auto) value() && {
    require_value();
    if constexpr (std::is_reference_v<T>) {
      return static_cast<T>(*std::get<0>(state_));
    } else if constexpr (!std::is_void_v<T>) {
      return static_cast<T>(std::get<0>(std::move(state_)));
    }
  }
  /// As value().
  decltype(auto) operator*() const& { return value(); }
  /// As value().
  decltype(auto) operator*() && { return std::move(*this).value(); }
  /// A member of the value; as value().
  auto operator->() const requires(!std::is_void_v<T>) {
    if constexpr (std::is_reference_v<T>) {
      return std::get<0>(state_);
    } else {
      return &std::get<0>(state_);
    }
  }

  /// The error. Requires !has_value(): asking for one that is not there is a bug in the caller and
  /// ends the process.
  const E& error() const {
    if (!has_value()) return std::get<1>(state_);
    caller_failed("result::error() of a result that holds a value; ask has_value() before");
  }

 private:
  void require_value() const noexcept {
    if (has_value()) return;
    caller_failed("result::value() of a result that holds an error; ask has_value() before");
  }

  std::variant<stored, E> state_;
};

}  // namespace manta::inline v0::base
