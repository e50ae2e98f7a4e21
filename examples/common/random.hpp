// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

// Random numbers that are a pure function of their seed on every machine; the standard's
// distributions differ from one library to the next.
namespace examples {

// SplitMix64's finaliser (Steele, Lea, Flood 2014): every input bit reaches every output bit.
inline std::uint64_t scrambled(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// A seed for part number `part` of what has seed `whole`: a task gets a stream of its own, whatever
// thread runs it and when.
inline std::uint64_t sub_seed(std::uint64_t whole, std::uint64_t part) {
  return scrambled(whole + 0x9e3779b97f4a7c15U * (part + 1));
}

class random_stream {
 public:
  explicit random_stream(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    state_ += 0x9e3779b97f4a7c15U;
    return scrambled(state_);
  }
  // Uniform in [0, 1).
  double unit() { return static_cast<double>(bits() >> 11) * 0x1.0p-53; }
  // Uniform in [0, count); the bias of 2^-32 does not matter here.
  std::uint32_t below(std::uint32_t count) {
    return static_cast<std::uint32_t>(((bits() >> 32) * count) >> 32);
  }
  // Standard normal (Box and Muller).
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - unit()));
    return radius * std::cos(2.0 * std::numbers::pi * unit());
  }

 private:
  std::uint64_t state_;
};

}  // namespace examples
