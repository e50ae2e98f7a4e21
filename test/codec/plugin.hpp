// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/base/type_name.hpp>
#include <manta/codec/identity.hpp>

// What the test program and the libraries that it loads have in common.

namespace manta_test {

/// How a function is described; the engine would give its table of operations as `ops`.
template <auto F>
struct described {
  static constexpr manta::codec::entry_kind kind = manta::codec::entry_kind::task;
  static constexpr const char* function() noexcept { return manta::base::spelled_function<F>(); }
  static constexpr const char* type() noexcept { return manta::base::spelled_type<decltype(F)>(); }
  static constexpr const void* ops() noexcept { return nullptr; }
};

/// The entry of F in the module that calls this.
template <auto F>
[[gnu::visibility("hidden")]] manta::codec::entry& entry_of() {
  return manta::codec::registered<described<F>>::value;
}

/// Instantiated in the program and in the libraries.
template <class T>
T twice(T value) {
  return value + value;
}

}  // namespace manta_test
