// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <iterator>
#include <type_traits>
#include <vector>

#include <manta/codec/shape.hpp>
#include <manta/node/carrier.hpp>
#include <manta/signature.hpp>

// What a parameter is between processes: the same bytes whatever the caller passed for it, so that
// who receives a call knows it by the function alone.

namespace manta::inline v0::detail {

/// What a parameter P is kept as: a span's elements in a vector.
template <class P>
struct parameter {
  using type = std::remove_cvref_t<P>;
};
template <class P>
requires(is_const_span<P>) struct parameter<P> {
  using type = std::vector<std::remove_cv_t<span_element_t<P>>>;
};
template <class P>
using parameter_t = typename parameter<P>::type;

/// Writes a range of U, or of references to them, as a P, which is a vector.
template <class P, class U, class Range>
void write_elements_as([[maybe_unused]] codec::out_archive& out,
                       [[maybe_unused]] const Range& values) {
  if constexpr (!codec::container<P>) {
    node::raise_not_convertible(base::spelled_type<std::vector<U>>(), base::spelled_type<P>());
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
