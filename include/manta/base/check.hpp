// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/base/export.hpp>

// MANTA_CHECK states what the code believes about itself; a false one is a bug in manta and ends
// the process with the claim and the values. It stays on in release. It is never used on what a
// user, a peer or a disk did: those get a typed error.

namespace manta::inline v0::base {

/// Prints `claim`, the place and `detail`, then aborts. Any thread.
[[noreturn]] MANTA_API void check_failed(const char* claim, const char* file, int line,
                                         unsigned long long detail) noexcept;

/// Prints what a caller of manta did that ends the process, then aborts. Any thread.
[[noreturn]] MANTA_API void caller_failed(const char* what) noexcept;

}  // namespace manta::inline v0::base

#define MANTA_CHECK_VALUE(claim, value)                          \
  (__builtin_expect(!!(claim), 1)                                \
       ? static_cast<void>(0)                                    \
       : ::manta::base::check_failed(#claim, __FILE__, __LINE__, \
                                     static_cast<unsigned long long>(value)))
#define MANTA_CHECK(claim) MANTA_CHECK_VALUE(claim, 0)
