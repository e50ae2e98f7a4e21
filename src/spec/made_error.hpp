// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>
#include <utility>

#include <manta/spec/error.hpp>

namespace manta::inline v0::spec {

/// An error with the text that `text()` makes, for who can't throw: out_of_memory where there is no
/// memory for it. `text` throws nothing else.
template <class Text>
error made_error(errc code, Text&& text) noexcept {
  try {
    return error(code, std::forward<Text>(text)());
  } catch (const std::bad_alloc&) {
    return error::out_of_memory();
  }
}

}  // namespace manta::inline v0::spec
