// SPDX-License-Identifier: Apache-2.0
#pragma once

// The processor's hint that a thread is spinning.

namespace manta::inline v0::base {

inline void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace manta::inline v0::base
