// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which sanitizer this is compiled with, for both compilers.

#if defined(__SANITIZE_ADDRESS__)
#define MANTA_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MANTA_HAS_ASAN 1
#endif
#endif
#if !defined(MANTA_HAS_ASAN)
#define MANTA_HAS_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__)
#define MANTA_HAS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MANTA_HAS_TSAN 1
#endif
#endif
#if !defined(MANTA_HAS_TSAN)
#define MANTA_HAS_TSAN 0
#endif

namespace manta::inline v0::base {

/// What costs a multiple of its usual time and memory.
inline constexpr bool is_sanitized = MANTA_HAS_ASAN != 0 || MANTA_HAS_TSAN != 0;

}  // namespace manta::inline v0::base
