// SPDX-License-Identifier: Apache-2.0
#include <manta/codec/digest.hpp>

#include <algorithm>
#include <cstring>

namespace manta::inline v0::codec {

namespace {

using base::detail::fold;

// Two lanes that multiply each 16 bytes with what came before.
class mixer {
 public:
  void add(std::uint64_t word) noexcept {
    low_ = fold(low_ ^ word, k0);
    high_ = fold(high_ + word, low_ ^ k1);
  }
  void add(std::span<const std::byte> bytes) noexcept {
    add(bytes.size());
    std::size_t at = 0;
    for (; at + 16 <= bytes.size(); at += 16) {
      std::uint64_t words[2];
      std::memcpy(words, bytes.data() + at, sizeof words);
      low_ = fold(low_ ^ words[0], words[1] ^ k0);
      high_ = fold(high_ ^ words[1], words[0] ^ k1);
    }
    std::uint64_t rest[2] = {0, 0};
    if (at < bytes.size()) std::memcpy(rest, bytes.data() + at, bytes.size() - at);
    add(rest[0]);
    add(rest[1]);
  }
  base::id end() const noexcept { return {fold(high_, low_ ^ k0), fold(low_, high_ ^ k1)}; }

 private:
  static constexpr std::uint64_t k0 = 0x9e3779b97f4a7c15U;
  static constexpr std::uint64_t k1 = 0xd6e8feb86659fd93U;
  std::uint64_t low_ = 0x2545f4914f6cdd1dU;
  std::uint64_t high_ = 0x94d049bb133111ebU;
};

}  // namespace

base::id digest(const spec::parcel_view& of) noexcept {
  mixer m;
  m.add(of.head);
  m.add(of.segments.size());
  for (const spec::segment_view& one : of.segments) {
    m.add(one.type);
    m.add(one.bytes);
  }
  m.add(of.references.size());
  for (const spec::reference& one : of.references) {
    m.add(one.what.high);
    m.add(one.what.low);
    m.add(one.type);
    m.add(static_cast<std::uint64_t>(one.kind));
  }
  return m.end();
}

}  // namespace manta::inline v0::codec
