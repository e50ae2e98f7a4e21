// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include <manta/base/type_name.hpp>
#include <manta/codec/shape.hpp>

// What keeps a type in its process, looked for in all that it is made of: fields, elements, what
// smart pointers own. The answer is a type, so that the compiler's message names the culprit.

namespace manta::inline v0::codec {

enum class obstacle : unsigned char {
  none,
  pointer,
  function,
  any,
  thread,
  atomic,
  reference,
  lock,
  view,
  polymorphic,
  deleter,
  closure,
  full_base,
  many_fields,
  ambiguous,
  open_enum,
  stranger,
};

struct obstacle_name {
  std::string_view name;
  obstacle kind;
};

// By name, because including what declares them would cost every user of manta.
inline constexpr obstacle_name obstacle_names[] = {
    {"any", obstacle::any},
    {"atomic", obstacle::atomic},
    {"atomic_flag", obstacle::atomic},
    {"atomic_ref", obstacle::atomic},
    {"barrier", obstacle::lock},
    {"basic_string_view", obstacle::view},
    {"condition_variable", obstacle::lock},
    {"condition_variable_any", obstacle::lock},
    {"coroutine_handle", obstacle::pointer},
    {"counting_semaphore", obstacle::lock},
    {"error_code", obstacle::pointer},
    {"error_condition", obstacle::pointer},
    {"exception_ptr", obstacle::pointer},
    {"function", obstacle::function},
    {"future", obstacle::lock},
    {"initializer_list", obstacle::view},
    {"jthread", obstacle::thread},
    {"latch", obstacle::lock},
    {"move_only_function", obstacle::function},
    {"mutex", obstacle::lock},
    {"packaged_task", obstacle::function},
    {"promise", obstacle::lock},
    {"recursive_mutex", obstacle::lock},
    {"recursive_timed_mutex", obstacle::lock},
    {"reference_wrapper", obstacle::reference},
    {"shared_future", obstacle::lock},
    {"shared_lock", obstacle::lock},
    {"shared_mutex", obstacle::lock},
    {"shared_timed_mutex", obstacle::lock},
    {"span", obstacle::view},
    {"thread", obstacle::thread},
    {"timed_mutex", obstacle::lock},
    {"type_index", obstacle::pointer},
    {"unique_lock", obstacle::lock},
};

/// What `spelled`, which ends in "T = std::name<...>]" or the like, is.
constexpr obstacle obstacle_by_name(std::string_view spelled) noexcept {
  constexpr std::string_view before = "T = ";
  const std::size_t at = spelled.find(before);
  if (at == std::string_view::npos) return obstacle::none;
  spelled.remove_prefix(at + before.size());
  if (!spelled.starts_with("std::")) return obstacle::none;
  spelled.remove_prefix(5);
  for (const std::string_view inner : {"__1::", "_V2::", "__exception_ptr::"}) {
    if (spelled.starts_with(inner)) spelled.remove_prefix(inner.size());
  }
  const std::string_view name = spelled.substr(0, spelled.find_first_of("<]; "));
  for (const obstacle_name& one : obstacle_names) {
    if (one.name == name) return one.kind;
  }
  return obstacle::none;
}

/// Whether T is the type of a lambda: its captures can't be seen.
template <class T>
constexpr bool is_closure() noexcept {
  const std::string_view spelled = base::spelled_type<T>();
  return spelled.find("<lambda(") != std::string_view::npos ||
         spelled.find("(lambda at ") != std::string_view::npos;
}

/// A culprit: the type that keeps another one from travelling.
template <class T, obstacle Kind>
struct found {
  using type = T;
  static constexpr obstacle kind = Kind;
};
using nothing_found = found<void, obstacle::none>;

template <class T, class... Outer>
constexpr auto find_obstacle();

/// The first culprit among the parts.
template <class... Outer>
constexpr auto first_obstacle() {
  return nothing_found{};
}
template <class... Outer, class First, class... Rest>
constexpr auto first_obstacle(std::type_identity<First> /*part*/,
                              std::type_identity<Rest>... rest) {
  using here = decltype(find_obstacle<std::remove_cv_t<First>, Outer...>());
  if constexpr (here::kind != obstacle::none) {
    return here{};
  } else {
    return first_obstacle<Outer...>(rest...);
  }
}

/// What T, which has template arguments, holds.
template <class T, class... Outer>
struct parts_of {
  static constexpr auto find() { return nothing_found{}; }
};
template <template <class...> class Of, class... A, class... Outer>
struct parts_of<Of<A...>, Outer...> {
  static constexpr auto find() { return first_obstacle<Outer...>(std::type_identity<A>{}...); }
};

template <class T, class... Outer>
constexpr auto find_in_fields() {
  if constexpr (has_full_base<T>()) {
    return found<T, obstacle::full_base>{};
  } else if constexpr (count_fields<T>() > most_fields) {
    return found<T, obstacle::many_fields>{};
  } else {
    return decltype(visit_fields(std::declval<T&>(), [](auto&... field) {
      return first_obstacle<T, Outer...>(
          std::type_identity<std::remove_reference_t<decltype(field)>>{}...);
    })){};
  }
}

/// A smart pointer to objects whose number it does not know.
template <class T>
inline constexpr bool points_to_many = false;
template <class E>
inline constexpr bool points_to_many<std::shared_ptr<E[]>> = true;
template <class E>
inline constexpr bool points_to_many<std::weak_ptr<E[]>> = true;

template <class T, class... Outer>
constexpr auto find_behind_pointer() {
  using pointee = std::remove_cv_t<typename T::element_type>;
  if constexpr (points_to_many<T> || std::is_array_v<pointee> || std::is_void_v<pointee>) {
    return found<T, obstacle::stranger>{};
  } else if constexpr (std::is_polymorphic_v<pointee> && !std::is_final_v<pointee>) {
    return found<T, obstacle::polymorphic>{};
  } else {
    return find_obstacle<pointee, T, Outer...>();
  }
}

template <class T, class... Outer>
constexpr auto find_in_class() {
  constexpr shape s = shape_of<T>();
  if constexpr (s == shape::none) {
    return found < T,
           is_made_from<T, std::unique_ptr> ? obstacle::deleter : obstacle::stranger > {};
  } else if constexpr (s == shape::by_cereal) {
    constexpr bool is_clear = cereal_form_of<out_archive, T>() != cereal_form::ambiguous;
    return found < T, is_clear ? obstacle::none : obstacle::ambiguous > {};
  } else if constexpr (s == shape::aggregate) {
    return find_in_fields<T, Outer...>();
  } else if constexpr (s == shape::unique || s == shape::shared || s == shape::weak) {
    return find_behind_pointer<T, Outer...>();
  } else if constexpr (s == shape::optional || s == shape::variant || s == shape::tuple) {
    return parts_of<T, T, Outer...>::find();
  } else if constexpr (s == shape::array) {
    using element = std::remove_cvref_t<decltype(std::declval<T&>()[0])>;
    return find_obstacle<element, T, Outer...>();
  } else if constexpr (s == shape::map) {
    return first_obstacle<T, Outer...>(std::type_identity<typename T::key_type>{},
                                       std::type_identity<typename T::mapped_type>{});
  } else if constexpr (s >= shape::range && s <= shape::set) {
    return find_obstacle<typename T::value_type, T, Outer...>();
  } else if constexpr (s == shape::plain && is_closure<T>() && !std::is_empty_v<T>) {
    return found<T, obstacle::closure>{};
  } else {
    return nothing_found{};
  }
}

/// The culprit in T, which is inside of the types Outer: a found<...>. A type inside of itself does
/// not decide.
template <class T, class... Outer>
constexpr auto find_obstacle() {
  if constexpr ((std::is_same_v<T, Outer> || ...) || std::is_void_v<T> || std::is_arithmetic_v<T> ||
                is_engine<T>) {
    return nothing_found{};
  } else if constexpr (std::is_pointer_v<T> || std::is_member_pointer_v<T> ||
                       std::is_null_pointer_v<T>) {
    return found<T, obstacle::pointer>{};
  } else if constexpr (std::is_reference_v<T>) {
    return found<T, obstacle::reference>{};
  } else if constexpr (std::is_enum_v<T>) {
    // Without a fixed type an enumeration has no value beyond its enumerators' bits, and nobody can
    // ask which these are. One with a fixed type can be initialised by a number.
    constexpr bool is_closed = has_enum_range<T> || requires { T{0}; };
    constexpr obstacle kind = is_closed ? obstacle::none : obstacle::open_enum;
    return found<T, kind>{};
  } else if constexpr (obstacle_by_name(base::spelled_type<T>()) != obstacle::none) {
    return found<T, obstacle_by_name(base::spelled_type<T>())>{};
  } else {
    return find_in_class<T, Outer...>();
  }
}

}  // namespace manta::inline v0::codec
