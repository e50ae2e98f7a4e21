// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include <manta/base/type_name.hpp>

// What can never leave its process, and so is refused as parameter and result of remote functions
// and actors: each kind in one line that names it. Looked at are the type itself and what std
// containers, pair, tuple, optional and variant are made of. Structs, and what a unique_ptr or
// shared_ptr owns, are left to the codec, which will have to know them member by member.

namespace manta::inline v0::detail {

enum class stuck_kind : unsigned char {
  none,
  pointer,
  function,
  any,
  thread,
  atomic,
  reference,
  lock,
};

struct stuck_name {
  std::string_view name;
  stuck_kind kind;
};

// By name, because including what declares them would cost every user of manta.
inline constexpr stuck_name stuck_names[] = {
    {"any", stuck_kind::any},
    {"atomic", stuck_kind::atomic},
    {"atomic_flag", stuck_kind::atomic},
    {"atomic_ref", stuck_kind::atomic},
    {"barrier", stuck_kind::lock},
    {"condition_variable", stuck_kind::lock},
    {"condition_variable_any", stuck_kind::lock},
    {"counting_semaphore", stuck_kind::lock},
    {"function", stuck_kind::function},
    {"future", stuck_kind::lock},
    {"jthread", stuck_kind::thread},
    {"latch", stuck_kind::lock},
    {"move_only_function", stuck_kind::function},
    {"mutex", stuck_kind::lock},
    {"packaged_task", stuck_kind::function},
    {"promise", stuck_kind::lock},
    {"recursive_mutex", stuck_kind::lock},
    {"recursive_timed_mutex", stuck_kind::lock},
    {"reference_wrapper", stuck_kind::reference},
    {"shared_future", stuck_kind::lock},
    {"shared_lock", stuck_kind::lock},
    {"shared_mutex", stuck_kind::lock},
    {"shared_timed_mutex", stuck_kind::lock},
    {"thread", stuck_kind::thread},
    {"timed_mutex", stuck_kind::lock},
    {"unique_lock", stuck_kind::lock},
};

/// What `spelled`, which ends in "T = std::name<...>]" or the like, is.
constexpr stuck_kind kind_by_name(std::string_view spelled) noexcept {
  constexpr std::string_view before = "T = ";
  const std::size_t at = spelled.find(before);
  if (at == std::string_view::npos) return stuck_kind::none;
  spelled.remove_prefix(at + before.size());
  if (!spelled.starts_with("std::")) return stuck_kind::none;
  spelled.remove_prefix(5);
  for (const std::string_view versioned : {"__1::", "_V2::"}) {
    if (spelled.starts_with(versioned)) spelled.remove_prefix(versioned.size());
  }
  const std::string_view name = spelled.substr(0, spelled.find_first_of("<]; "));
  for (const stuck_name& one : stuck_names) {
    if (one.name == name) return one.kind;
  }
  return stuck_kind::none;
}

/// Whether T is a std container or built like one. Not what contains itself, as values of JSON do.
template <class T>
concept container_of_others = requires {
  typename T::value_type;
  typename T::allocator_type;
}
&&!std::same_as<typename T::value_type, T>;

/// What keeps a T in its process.
template <class T>
struct stuck {
  static constexpr stuck_kind find() noexcept {
    if constexpr (std::is_pointer_v<T>) return stuck_kind::pointer;
    if constexpr (!std::is_class_v<T>) return stuck_kind::none;
    return kind_by_name(base::spelled_type<T>());
  }
  static constexpr stuck_kind kind = find();
};

/// The first of the parts that is stuck.
template <class... Parts>
struct stuck_part {
  static constexpr stuck_kind find() noexcept {
    stuck_kind found = stuck_kind::none;
    ((found = found != stuck_kind::none ? found : stuck<std::remove_cv_t<Parts>>::kind), ...);
    return found;
  }
  static constexpr stuck_kind kind = find();
};
template <container_of_others T>
struct stuck<T> : stuck_part<typename T::value_type> {};
template <class T, std::size_t N>
struct stuck<std::array<T, N>> : stuck_part<T> {};
template <class A, class B>
struct stuck<std::pair<A, B>> : stuck_part<A, B> {};
template <class... T>
struct stuck<std::tuple<T...>> : stuck_part<T...> {};
template <class T>
struct stuck<std::optional<T>> : stuck_part<T> {};
template <class... T>
struct stuck<std::variant<T...>> : stuck_part<T...> {};

/// Refuses in one line a T that can never leave its process.
template <class T>
constexpr bool check_travel() {
  constexpr stuck_kind kind = stuck<T>::kind;
  static_assert(kind != stuck_kind::pointer,
                "manta: a raw pointer, inside a container too, means nothing in another process; "
                "take or return the objects themselves, or use manta::async");
  static_assert(kind != stuck_kind::function,
                "manta: a std::function or std::packaged_task can't travel to another process: "
                "nobody can write down what it captures; pass the data and call a function by "
                "remote<f>, or use manta::async");
  static_assert(kind != stuck_kind::any,
                "manta: a std::any can't travel to another process, where its type is not known; "
                "use a std::variant, or manta::async");
  static_assert(kind != stuck_kind::thread,
                "manta: a std::thread or std::jthread can't travel to another process; use "
                "manta::async for work that needs it");
  static_assert(kind != stuck_kind::atomic,
                "manta: a std::atomic can't travel to another process, where it would be another "
                "one; take and return plain values, or use manta::async");
  static_assert(kind != stuck_kind::reference,
                "manta: a std::reference_wrapper means nothing in another process; take the object "
                "by value or const T&, or use manta::async");
  static_assert(
      kind != stuck_kind::lock,
      "manta: a std mutex, lock, condition variable, semaphore, latch, barrier, future or "
      "promise can't travel to another process; use an actor, a manta::semaphore, "
      "manta::channel or manta::future, or manta::async");
  return true;
}

}  // namespace manta::inline v0::detail
