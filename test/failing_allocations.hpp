// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>

#include <manta/base/sanitizers.hpp>

// Allocations that fail at a test's word. A program that has failing_allocations.cpp among its
// sources gets all its memory from the operators there, but for the engine's blocks, which have a
// hook of their own.
//
// Clang links operators of its own into a program with ThreadSanitizer, beside which there can be
// no others.
#if defined(__clang__) && MANTA_HAS_TSAN != 0
#define MANTA_TEST_FAILS_ALLOCATIONS 0
#else
#define MANTA_TEST_FAILS_ALLOCATIONS 1
#endif

namespace manta_test {

/// Of this thread, any: 1: the next one fails; 0: none does.
extern constinit thread_local int fail_in;

/// Of any thread, those of so many bytes: 1: the next one fails; 0: none does.
inline constexpr std::size_t large_allocation = std::size_t{16} << 20U;
extern std::atomic<int> large_fails_in;

}  // namespace manta_test
