// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numbers>

// Random numbers that are a pure function of their seed. The standard's distributions may differ
// from one library to the next; these do not, so a seed that travels in a task stands for the same
// noise wherever the task runs.
namespace es {

// SplitMix64's finaliser (Steele, Lea, Flood 2014): every input bit reaches every output bit.
inline std::uint64_t scrambled(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// One seed out of several numbers; the order of the parts counts.
inline std::uint64_t seed_of(std::initializer_list<std::uint64_t> parts) {
  std::uint64_t seed = 0x9e3779b97f4a7c15U;
  for (std::uint64_t part : parts) seed = scrambled(seed + 0x9e3779b97f4a7c15U * (part + 1));
  return seed;
}

class random_stream {
 public:
  explicit random_stream(std::uint64_t seed) : state_(seed) {}

  // Uniform in [low, high).
  double uniform(double low, double high) {
    state_ += 0x9e3779b97f4a7c15U;
    const double unit = static_cast<double>(scrambled(state_) >> 11) * 0x1.0p-53;
    return low + (high - low) * unit;
  }

  // Standard normal, by Box and Muller; they come in pairs, so every other call is nearly free.
  double normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform(0.0, 1.0)));
    const double angle = uniform(0.0, 2.0 * std::numbers::pi);
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

 private:
  std::uint64_t state_;
  double spare_ = 0.0;
  bool has_spare_ = false;
};

}  // namespace es
