// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <manta/base/clock.hpp>

// Numbers by chance, for those who would else meet each other for ever: not for secrets. The same
// seed gives the same numbers. The method is Marsaglia's xorshift of 64 bits (2003).

namespace manta::inline v0::base {

class chance {
 public:
  explicit chance(std::uint64_t seed) noexcept : state_(seed | 1U) {}
  /// Another one than any other process has, or an earlier one.
  static chance of_now() noexcept {
    return chance(static_cast<std::uint64_t>(now().time_since_epoch().count()));
  }

  std::uint64_t next() noexcept {
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return state_;
  }

 private:
  std::uint64_t state_;  // never zero
};

}  // namespace manta::inline v0::base
