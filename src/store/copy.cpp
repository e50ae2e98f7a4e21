// SPDX-License-Identifier: Apache-2.0
#include "store/copy.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <thread>

#include <manta/base/machine.hpp>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace manta::inline v0::store {

namespace {

constexpr std::size_t line = 64;

std::size_t copiers_for(std::size_t bytes) noexcept {
  static const auto cores = static_cast<std::size_t>(base::usable_cores());
  return std::clamp<std::size_t>(bytes / copy_piece, 1, std::min(cores, most_copiers));
}

}  // namespace

void copy_streaming(std::span<std::byte> to, const std::byte* from) noexcept {
#if defined(__SSE2__)
  std::byte* at = to.data();
  std::size_t left = to.size();
  // Up to the first whole line of the destination.
  const std::size_t head =
      std::min(left, (line - reinterpret_cast<std::uintptr_t>(at) % line) % line);
  std::memcpy(at, from, head);
  at += head;
  from += head;
  left -= head;
  for (; left >= line; at += line, from += line, left -= line) {
    const auto* const source = reinterpret_cast<const __m128i*>(from);
    auto* const target = reinterpret_cast<__m128i*>(at);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  std::memcpy(at, from, left);
  _mm_sfence();  // streaming stores are ordered by nothing else
#else
  std::memcpy(to.data(), from, to.size());
#endif
}

void copy_large(std::span<std::byte> to, const std::byte* from) noexcept {
  if (to.size() < stream_from) {
    std::memcpy(to.data(), from, to.size());
    return;
  }
  const std::size_t copiers = copiers_for(to.size());
  // Rounded up twice: so that all of them together have the last byte, too.
  const std::size_t share = (to.size() + copiers - 1) / copiers;
  const std::size_t each = (share + line - 1) / line * line;
  const auto part = [&](std::size_t i) {
    const std::size_t begin = std::min(i * each, to.size());
    const std::size_t end = std::min(begin + each, to.size());
    copy_streaming(to.subspan(begin, end - begin), from + begin);
  };
  std::array<std::thread, most_copiers> others;
  std::size_t alone = copiers;  // this and those behind it are this thread's
  for (std::size_t i = 1; i < copiers; ++i) {
    try {
      others[i] = std::thread(part, i);
    } catch (const std::system_error&) {
      alone = i;
      break;
    }
  }
  part(0);
  for (std::size_t i = alone; i < copiers; ++i) part(i);
  for (std::thread& one : others) {
    if (one.joinable()) one.join();
  }
}

}  // namespace manta::inline v0::store
