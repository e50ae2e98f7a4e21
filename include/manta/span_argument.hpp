// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <manta/array.hpp>
#include <manta/exec/job.hpp>
#include <manta/node/carrier.hpp>

// What a task keeps for a parameter std::span<const E>: the elements in a vector, or the array that
// has them.

namespace manta::inline v0::detail {

template <class E, bool HasArrays = std::is_trivially_copyable_v<E>>
struct span_values {
  std::vector<E> own;
  std::span<const E> span() const noexcept { return own; }
};
template <class E>
struct span_values<E, true> {
  std::vector<E> own;
  array<E> shared;
  std::span<const E> span() const noexcept {
    return shared.valid() ? shared.span() : std::span<const E>(own);
  }
};

/// Whether A is an array of E.
template <class A, class E>
inline constexpr bool is_array_of = false;
template <class E>
inline constexpr bool is_array_of<array<E>, E> = true;

/// Between processes: a byte, 1 when an array follows and 0 when the elements do.
template <class E, class U>
void write_span_values(codec::out_archive& out, const U& values) {
  static_assert(is_array_of<U, E> || std::is_same_v<U, std::vector<E>>);
  out.raw(static_cast<std::uint8_t>(is_array_of<U, E>));
  node::write(out, values);
}

/// A range of values, or an array, for a parameter std::span<const E>.
template <class E>
struct span_argument {
  using stored = span_values<E>;
  stored values;

  template <class A>
  requires(!std::is_same_v<std::remove_cvref_t<A>, span_argument>) explicit span_argument(A&& a) {
    using plain = std::remove_cvref_t<A>;
    if constexpr (std::is_same_v<plain, stored>) {
      values = std::forward<A>(a);
    } else if constexpr (is_array_of<plain, E>) {
      values.shared = std::forward<A>(a);
    } else if constexpr (std::is_constructible_v<std::vector<E>, A&&>) {
      values.own = std::vector<E>(std::forward<A>(a));
    } else {
      values.own.assign(std::begin(a), std::end(a));
    }
  }
  static constexpr bool is_linked = false;
  static constexpr bool is_kept = true;
  static constexpr bool is_copyable = true;
  void write(codec::out_archive& out) const { node::write(out, values); }
  void write_parameter(codec::out_archive& out) const { node::write(out, values); }
  void renew(codec::in_archive& in) { node::renew(values, in); }
  void link(exec::job* /*job*/) {}
  const error* failure() noexcept { return nullptr; }
  std::span<const E> pass() noexcept { return values.span(); }
};

}  // namespace manta::inline v0::detail

namespace manta::inline v0::codec {

template <class E, bool HasArrays>
requires(decltype(find_obstacle<E>())::kind ==
         obstacle::none) struct custom<detail::span_values<E, HasArrays>> {
  using type = detail::span_values<E, HasArrays>;
  static void write(out_archive& out, const type& values) {
    if constexpr (HasArrays) {
      if (values.shared.valid()) return detail::write_span_values<E>(out, values.shared);
    }
    detail::write_span_values<E>(out, values.own);
  }
  static type read(in_archive& in) {
    type out;
    const bool is_array = in.flag(name_of<type>());
    if constexpr (HasArrays) {
      if (is_array) {
        out.shared = codec::read<array<E>>(in);
        return out;
      }
    }
    if (is_array) in.refuse("no array has such elements", name_of<type>());
    codec::read_into(in, out.own);
    return out;
  }
};

}  // namespace manta::inline v0::codec
