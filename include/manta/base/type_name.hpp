// SPDX-License-Identifier: Apache-2.0
#pragma once

// The compiler's own spelling of a type or a function, for messages and for the name's hash.

namespace manta::inline v0::base {

/// A string that contains T's name. Static storage; any thread.
template <class T>
constexpr const char* spelled_type() noexcept {
  return __PRETTY_FUNCTION__;
}

/// A string that contains the name of the function or member function F.
template <auto F>
constexpr const char* spelled_function() noexcept {
  return __PRETTY_FUNCTION__;
}

}  // namespace manta::inline v0::base
