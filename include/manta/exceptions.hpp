// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <type_traits>

#include <manta/base/type_name.hpp>
#include <manta/codec/errors.hpp>
#include <manta/codec/identity.hpp>
#include <manta/spec/options.hpp>

// Filters that say which exceptions make a task run again. Each is known to all processes of the
// build, as functions are, so that options travel with it.

namespace manta::inline v0 {

namespace detail {

/// What a filter is called: by a type that may name any others, abstract ones too.
template <class... E>
struct filter_for;

/// A filter as codec/identity.hpp wants it. No type: all exceptions.
template <class... E>
struct described_filter {
  static constexpr codec::entry_kind kind = codec::entry_kind::filter;
  static constexpr const char* function() noexcept { return ""; }
  static constexpr const char* type() noexcept { return base::spelled_type<filter_for<E...>>(); }
  static constexpr const void* ops() noexcept { return &parts; }

  template <class One>
  static bool is_one(const std::exception_ptr& thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const One&) {
      return true;
    } catch (...) {
      return false;
    }
  }
  static bool test([[maybe_unused]] const std::exception_ptr& thrown) {
    return sizeof...(E) == 0 || (is_one<E>(thrown) || ...);
  }
  static constexpr codec::filter_parts parts{&test};
};

}  // namespace detail

/// Every exception of the user's function. (A template, so that only who calls it has the entry.)
template <class = void>
exception_filter any_exception() noexcept {
  using described = detail::described_filter<>;
  return {described::test, &codec::registered<described>::value};
}

/// Exceptions of the types E and what derives from them:
/// `.retry_exceptions = manta::exceptions<std::range_error, my_error>()`.
template <class... E>
exception_filter exceptions() noexcept {
  static_assert(sizeof...(E) > 0, "manta::exceptions<E...>: name at least one type");
  using described = detail::described_filter<E...>;
  return {described::test, &codec::registered<described>::value};
}

}  // namespace manta::inline v0
