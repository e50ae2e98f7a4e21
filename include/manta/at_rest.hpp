// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include <manta/array.hpp>
#include <manta/codec/shape.hpp>
#include <manta/node/carrier.hpp>
#include <manta/node/rest.hpp>

// Which types of values have arrays, and where; see node/rest.hpp for what that is needed for. And
// which have anything that can't go to another node, since such a value stays.
//
// Found by the type alone, in arrays, std containers but sets and keys, pairs, tuples, optionals,
// variants, std::unique_ptr and aggregates, each inside of the others. A class with functions of
// its own, and what is const or shared, hides its arrays: they stay in memory like any with a
// handle.

namespace manta::inline v0 {

template <class T>
class future;
template <class T>
class actor;
template <class T>
class weak_actor;
template <class T>
class channel;
class semaphore;
class barrier;

}  // namespace manta::inline v0

namespace manta::inline v0::detail {

template <class T>
inline constexpr bool is_array_handle = false;
template <class E>
inline constexpr bool is_array_handle<array<E>> = true;

/// What a type may have: bits.
namespace holding {
inline constexpr unsigned arrays = 1;
inline constexpr unsigned bound = 2;  ///< what can't go to another node: streams, ...
}  // namespace holding

template <class T, class... Outer>
constexpr unsigned finds();

/// Handles that go to other nodes, and what is found in what these stand for.
template <class T>
struct is_handle_that_goes : std::false_type {};
template <class V>
struct is_handle_that_goes<future<V>> : std::true_type {
  template <class... Outer>
  static constexpr unsigned behind() {
    if constexpr (std::is_void_v<V> || std::is_scalar_v<V>) {
      return 0;
    } else if constexpr (!node::can_travel<V>) {
      return holding::bound;
    } else {
      return finds<V, Outer...>();
    }
  }
};
template <class A>
struct is_handle_that_goes<actor<A>> : std::true_type {
  template <class... Outer>
  static constexpr unsigned behind() {
    return 0;
  }
};

template <class A>
struct is_handle_that_goes<weak_actor<A>> : is_handle_that_goes<actor<A>> {};
template <class V>
struct is_handle_that_goes<channel<V>> : std::true_type {
  template <class... Outer>
  static constexpr unsigned behind() {
    if constexpr (std::is_scalar_v<V>) {
      return 0;
    } else if constexpr (!node::can_travel<V>) {
      return holding::bound;
    } else {
      return finds<V, Outer...>();
    }
  }
};
template <>
struct is_handle_that_goes<semaphore> : is_handle_that_goes<actor<void>> {};
template <>
struct is_handle_that_goes<barrier> : is_handle_that_goes<actor<void>> {};

/// Of pairs, tuples and variants.
template <class T, class... Outer>
struct parts_find;
template <template <class...> class Of, class... P, class... Outer>
struct parts_find<Of<P...>, Outer...> {
  static constexpr unsigned value = (finds<P, Of<P...>, Outer...>() | ... | 0U);
};

template <class T, class... Outer>
constexpr unsigned fields_find() {
  if constexpr (codec::count_fields<T>() > codec::most_fields || codec::has_full_base<T>()) {
    return 0;
  } else {
    using answer = decltype(codec::visit_fields(std::declval<T&>(), [](auto&... field) {
      constexpr unsigned all =
          (finds<std::remove_reference_t<decltype(field)>, T, Outer...>() | ... | 0U);
      return std::integral_constant<unsigned, all>{};
    }));
    return answer::value;
  }
}

/// What can be found in a T. A type inside of itself does not decide.
template <class T, class... Outer>
constexpr unsigned finds() {
  using codec::shape;
  if constexpr (std::is_const_v<T> || std::is_reference_v<T> ||
                (std::is_same_v<T, Outer> || ... || false)) {
    return 0;
  } else if constexpr (is_array_handle<T>) {
    return holding::arrays;
  } else if constexpr (is_handle_that_goes<T>::value) {
    return is_handle_that_goes<T>::template behind<T, Outer...>() & holding::bound;
  } else {
    constexpr shape s = codec::shape_of<T>();
    if constexpr (s == shape::engine) {
      return std::is_same_v<T, error> || std::is_same_v<T, exception_filter> ? 0 : holding::bound;
    } else if constexpr (s == shape::optional || s == shape::range || s == shape::sequence ||
                         s == shape::forward) {
      return finds<typename T::value_type, T, Outer...>();
    } else if constexpr (s == shape::unique) {
      return finds<typename T::element_type, T, Outer...>();
    } else if constexpr (s == shape::map) {
      return finds<typename T::mapped_type, T, Outer...>();
    } else if constexpr (s == shape::array) {
      return finds<std::remove_reference_t<decltype(std::declval<T&>()[0])>, T, Outer...>();
    } else if constexpr (s == shape::tuple || s == shape::variant) {
      return parts_find<T, Outer...>::value;
    } else if constexpr (s == shape::aggregate) {
      return fields_find<T, Outer...>();
    } else {
      return 0;
    }
  }
}

template <class T>
constexpr unsigned holds() {
  if constexpr (!std::is_void_v<T> && !std::is_scalar_v<T>) {
    if constexpr (node::can_travel<T>) return finds<T>();
  }
  return 0;
}
template <class T>
inline constexpr bool holds_arrays = (holds<T>() & holding::arrays) != 0;
template <class T>
inline constexpr bool stays_in_node = (holds<T>() & holding::bound) != 0;

/// Calls each(handle) for the arrays that a value has.
template <class T, class Each>
void visit_arrays([[maybe_unused]] T& value, [[maybe_unused]] const Each& each) {
  using codec::shape;
  if constexpr ((finds<T>() & holding::arrays) == 0) {
    return;
  } else if constexpr (is_array_handle<T>) {
    if (array_access::block(value) != nullptr) each(array_access::handle(value));
  } else {
    constexpr shape s = codec::shape_of<T>();
    if constexpr (s == shape::optional || s == shape::unique) {
      if (value) visit_arrays(*value, each);
    } else if constexpr (s == shape::map) {
      for (auto& one : value) visit_arrays(one.second, each);
    } else if constexpr (s == shape::tuple) {
      std::apply([&each](auto&... part) { (visit_arrays(part, each), ...); }, value);
    } else if constexpr (s == shape::variant) {
      if (!value.valueless_by_exception()) {
        std::visit([&each](auto& part) { visit_arrays(part, each); }, value);
      }
    } else if constexpr (s == shape::aggregate) {
      codec::visit_fields(value, [&each](auto&... field) { (visit_arrays(field, each), ...); });
    } else {
      for (auto& one : value) visit_arrays(one, each);
    }
  }
}

template <class T>
void visit_handles(void* value, void (*each)(void* to, node::array_block*& handle), void* to) {
  visit_arrays(*static_cast<T*>(value), [each, to](node::array_block*& one) { each(to, one); });
}

/// What a cell has beside a value that has arrays; nothing beside others.
struct no_rest {};
template <class T>
using rest_note_t = std::conditional_t<holds_arrays<T>, node::rest_note, no_rest>;

}  // namespace manta::inline v0::detail
