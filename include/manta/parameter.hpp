// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <iterator>
#include <type_traits>
#include <vector>

#include <manta/codec/shape.hpp>
#include <manta/node/carrier.hpp>
#include <manta/signature.hpp>
#include <manta/span_argument.hpp>

// What a parameter is between processes: the same bytes whatever the caller passed for it, so that
// who receives a call knows it by the function alone.

namespace manta::inline v0::detail {

/// What a parameter P is kept as: a span's elements in a vector or an array.
template <class P>
struct parameter {
  using type = std::remove_cvref_t<P>;
};
template <class P>
requires(is_const_span<P>) struct parameter<P> {
  using type = span_values<std::remove_cv_t<span_element_t<P>>>;
};
template <class P>
using parameter_t = typename parameter<P>::type;

/// The E of kept span_values<E>.
template <class T>
struct span_of_kept {};
template <class E, bool HasArrays>
struct span_of_kept<span_values<E, HasArrays>> {
  using type = E;
};

/// Writes a range of U, or of references to them, as a P, which is a vector or a span's elements.
template <class P, class U, class Range>
void write_elements_as([[maybe_unused]] codec::out_archive& out,
                       [[maybe_unused]] const Range& values) {
  if constexpr (requires { typename span_of_kept<P>::type; }) {
    out.raw(std::uint8_t{0});  // no array
    write_elements_as<std::vector<typename span_of_kept<P>::type>, U>(out, values);
  } else if constexpr (!codec::container<P>) {
    node::raise_not_convertible(base::spelled_type<std::vector<U>>(), base::spelled_type<P>());
  } else if constexpr (std::is_same_v<P, std::vector<U>> && !std::is_copy_constructible_v<U> &&
                       node::can_travel<U> && !codec::is_bitwise<U>) {
    const bool before = out.passing(true);
    codec::write_as_vector<U>(out, values);
    out.passing(before);
  } else if constexpr (!std::is_convertible_v<const U&, typename P::value_type>) {
    node::raise_not_convertible(base::spelled_type<U>(),
                                base::spelled_type<typename P::value_type>());
  } else {
    using E = typename P::value_type;
    std::vector<E> converted;
    converted.reserve(std::size(values));
    for (const U& one : values) converted.push_back(static_cast<E>(one));
    node::write_passing(out, converted);
  }
}

}  // namespace manta::inline v0::detail
