// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Names of tasks and objects. An id is a function of the parent's id, the call's index within the
// parent and the function called, so that a parent that is run again names its children the same.
// 128 bits: with 1e12 ids the chance that any two meet is about 1.5e-15.

namespace manta::inline v0::base {

/// A 128-bit name. Immutable value; any thread.
struct id {
  std::uint64_t high = 0;  ///< the upper 64 bits
  std::uint64_t low = 0;   ///< the lower 64 bits

  /// Two ids are equal when all bits are.
  friend constexpr bool operator==(const id&, const id&) = default;
};

namespace detail {

/// Folds the 128-bit product of two words; the multiplication spreads every input bit.
constexpr std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept {
  __extension__ using wide = unsigned __int128;
  const wide product = static_cast<wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

}  // namespace detail

/// The id of call number `index` that `parent` made to `function`. Two multiplications.
constexpr id derive(const id& parent, std::uint64_t index, std::uint64_t function) noexcept {
  constexpr std::uint64_t k0 = 0x9e3779b97f4a7c15U;
  constexpr std::uint64_t k1 = 0xbf58476d1ce4e5b9U;
  constexpr std::uint64_t k2 = 0x94d049bb133111ebU;
  const std::uint64_t a = parent.high ^ (index + k0);
  const std::uint64_t b = parent.low ^ (function + k1);
  return {detail::fold(a ^ k2, b + k0) + parent.low, detail::fold(a + k1, b ^ k2) ^ parent.high};
}

/// A 64-bit hash of a name, the same in every run of one build (FNV-1a).
constexpr std::uint64_t hash_name(const char* text) noexcept {
  std::uint64_t h = 0xcbf29ce484222325U;
  for (; *text != '\0'; ++text) h = (h ^ static_cast<unsigned char>(*text)) * 0x100000001b3U;
  return h;
}

}  // namespace manta::inline v0::base
