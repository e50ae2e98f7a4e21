// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include <manta/base/type_name.hpp>
#include <manta/codec/cereal_calls.hpp>
#include <manta/codec/fields.hpp>

// How a type is turned into bytes: its shape. The first one that fits counts, in the order of the
// enumeration.

namespace manta::inline v0 {

/// Which values of the enumeration E are valid, when not all are: specialise it with constants
/// `first` and `last`. Bytes that hold another value are refused then.
template <class E>
struct enum_range {};

namespace codec {

template <class Adl>
class out_archive_of;
template <class Adl>
class in_archive_of;
/// The archives that a class's cereal functions are called with. A parameter from cereal's
/// namespace has free functions in that namespace found, too.
using out_archive = out_archive_of<cereal::access>;
using in_archive = in_archive_of<cereal::access>;

/// How the engine's own classes are written and read: specialised beside them with
/// `write(out_archive&, const T&)` and `read(in_archive&) -> T`.
template <class T>
struct custom {};

enum class shape : std::uint8_t {
  none,         ///< there is no way
  engine,       ///< custom<T> knows
  boolean,      ///< a byte, 0 or 1
  number,       ///< as it lies in memory
  enumeration,  ///< its number
  optional,
  variant,
  unique,    ///< std::unique_ptr
  shared,    ///< std::shared_ptr
  weak,      ///< std::weak_ptr
  duration,  ///< its count
  time_point,
  tuple,      ///< pair, tuple
  array,      ///< std::array, C array
  by_cereal,  ///< the class's own functions
  bools,      ///< std::vector<bool>
  path,       ///< std::filesystem::path and the like: made of a string
  range,      ///< a container whose elements lie one after the other: vector, string
  sequence,   ///< another container with an order: deque, list
  forward,    ///< std::forward_list
  set,        ///< a container that finds its places itself
  map,        ///< the same with keys and values
  aggregate,  ///< field by field
  plain,      ///< a trivially copyable class that shows no fields: its bytes
};

template <class T>
concept is_engine = requires(out_archive& out, in_archive& in, const T& t) {
  custom<T>::write(out, t);
  { custom<T>::read(in) } -> std::same_as<T>;
};

template <class T, template <class...> class Of>
inline constexpr bool is_made_from = false;
template <class... A, template <class...> class Of>
inline constexpr bool is_made_from<Of<A...>, Of> = true;

template <class T>
inline constexpr bool is_array = std::is_bounded_array_v<T>;
template <class T, std::size_t N>
inline constexpr bool is_array<std::array<T, N>> = true;

template <class T>
inline constexpr bool is_owning_pointer = false;
template <class T>
inline constexpr bool is_owning_pointer<std::unique_ptr<T>> = !std::is_array_v<T>;

/// Whether T, a class, is declared in namespace std.
template <class T>
constexpr bool is_of_std() noexcept {
  std::string_view spelled = base::spelled_type<T>();
  constexpr std::string_view before = "T = ";
  spelled.remove_prefix(std::min(spelled.find(before), spelled.size() - before.size()) +
                        before.size());
  return spelled.starts_with("std::");
}

template <class T>
concept container = requires(T& t, const T& c) {
  typename T::value_type;
  c.begin();
  c.end();
  t.clear();
}
&&!std::same_as<typename T::value_type, T>;

template <class T>
concept sized_container = container<T> && requires(const T& c) {
  { c.size() } -> std::convertible_to<std::size_t>;
};
template <class T>
concept adjacent_container = sized_container<T> && requires(T& t, const T& c) {
  { c.data() } -> std::convertible_to<const typename T::value_type*>;
  t.push_back(std::declval<typename T::value_type>());
};
template <class T>
concept pushed_container = sized_container<T> && requires(T& t) {
  t.push_back(std::declval<typename T::value_type>());
};
template <class T>
concept inserted_container = sized_container<T> && requires(T& t) {
  typename T::key_type;
  t.insert(std::declval<typename T::value_type>());
};
template <class T>
concept path_like = requires(const T& c) {
  typename T::string_type;
  { c.native() } -> std::same_as<const typename T::string_type&>;
}
&&std::constructible_from<T, typename T::string_type>;

/// A class's shape when it is neither the engine's nor one of the templates of std that have a
/// shape of their own.
template <class T>
constexpr shape shape_of_class() {
  if constexpr (path_like<T>) {
    return shape::path;
  } else if constexpr (adjacent_container<T>) {
    return shape::range;
  } else if constexpr (pushed_container<T>) {
    return requires(T & t) { t.flip(); }
    ? shape::bools : shape::sequence;
  } else if constexpr (inserted_container<T>) {
    return requires { typename T::mapped_type; }
    ? shape::map : shape::set;
  } else if constexpr (container<T> &&
                       requires(T & t) { t.insert_after(t.before_begin(), *t.begin()); }) {
    return shape::forward;
  } else if constexpr (std::is_aggregate_v<T> && !std::is_union_v<T>) {
    return shape::aggregate;
  } else if constexpr (std::is_trivially_copyable_v<T> && std::is_move_constructible_v<T>) {
    // A class with an atomic counts as trivially copyable, and can be neither copied nor moved.
    return shape::plain;
  } else {
    return shape::none;
  }
}

template <class T>
constexpr shape shape_of_std_or_user() {
  if constexpr (is_made_from<T, std::optional>) {
    return shape::optional;
  } else if constexpr (is_made_from<T, std::variant>) {
    return shape::variant;
  } else if constexpr (is_owning_pointer<T>) {
    return shape::unique;
  } else if constexpr (is_made_from<T, std::shared_ptr>) {
    return shape::shared;
  } else if constexpr (is_made_from<T, std::weak_ptr>) {
    return shape::weak;
  } else if constexpr (requires(const T& t) {
                         typename T::period;
                         { t.count() } -> std::same_as<typename T::rep>;
                       }) {
    return shape::duration;
  } else if constexpr (requires(const T& t) {
                         typename T::clock;
                         { t.time_since_epoch() } -> std::same_as<typename T::duration>;
                       }) {
    return shape::time_point;
  } else if constexpr (is_made_from<T, std::pair> || is_made_from<T, std::tuple>) {
    return shape::tuple;
  } else if constexpr (is_array<T>) {
    return shape::array;
  } else if constexpr (!is_of_std<T>() && cereal_form_of<out_archive, T>() != cereal_form::none) {
    return shape::by_cereal;
  } else {
    return shape_of_class<T>();
  }
}

/// The shape of T, which is neither a reference nor const.
template <class T>
constexpr shape shape_of() {
  if constexpr (is_engine<T>) {
    return shape::engine;
  } else if constexpr (std::is_same_v<T, bool>) {
    return shape::boolean;
  } else if constexpr (std::is_arithmetic_v<T>) {
    return shape::number;
  } else if constexpr (std::is_enum_v<T>) {
    return shape::enumeration;
  } else if constexpr (is_array<T>) {
    return shape::array;
  } else if constexpr (!std::is_class_v<T> && !std::is_union_v<T>) {
    return shape::none;
  } else {
    return shape_of_std_or_user<T>();
  }
}

template <class E>
concept has_enum_range = requires {
  { enum_range<E>::first } -> std::convertible_to<E>;
  { enum_range<E>::last } -> std::convertible_to<E>;
};

template <class T>
struct bytes_as_they_are;

/// Whether all bytes of T mean something and any bytes are a T, so that T is copied as it lies in
/// memory.
template <class T>
inline constexpr bool is_bitwise = bytes_as_they_are<std::remove_cv_t<T>>::value;

template <class T>
constexpr bool are_fields_bitwise() {
  if constexpr (count_fields<T>() > most_fields || has_full_base<T>()) {
    return false;
  } else {
    using answer = decltype(visit_fields(std::declval<T&>(), [](auto&... field) {
      constexpr bool all = (is_bitwise<std::remove_reference_t<decltype(field)>> && ... && true);
      constexpr std::size_t sum = (sizeof(field) + ... + 0U);
      return std::bool_constant < all && sum == sizeof(T) > {};
    }));
    return answer::value;
  }
}

template <class T>
struct bytes_as_they_are {
  static constexpr bool find() {
    constexpr shape s = shape_of<T>();
    if constexpr (s == shape::number) {
      return !std::is_same_v<T, long double>;  // it has padding
    } else if constexpr (s == shape::enumeration) {
      return !has_enum_range<T>;
    } else if constexpr (s == shape::array) {
      return is_bitwise<std::remove_cvref_t<decltype(std::declval<T&>()[0])>> && sizeof(T) != 0;
    } else if constexpr (s == shape::plain) {
      return true;
    } else if constexpr (s == shape::aggregate && std::is_trivially_copyable_v<T>) {
      return are_fields_bitwise<T>();
    } else {
      return false;
    }
  }
  static constexpr bool value = find();
};

}  // namespace codec
}  // namespace manta::inline v0
