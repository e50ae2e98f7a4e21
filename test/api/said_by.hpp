// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <manta/exceptions.hpp>

namespace test {

/// What a call answered, so that a thread or task need not assert: the code of its error.
template <class F>
std::string said_by(F&& f) {
  try {
    f();
  } catch (const manta::exception& e) {
    return manta::to_string(e.code());
  }
  return "done";
}

}  // namespace test
