// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <manta/base/id.hpp>

#include "wire/frame.hpp"

// Short messages that share one request.
//
// Problem: a request costs more than a short message does: its place in the outbox, its answer, its
// part in a batch and a copy at each of these.
// Idea: who has several for one receiver writes them one behind the other:
//
//   0         16     24        64
//   | about  | size | nothing | the message ... | up to a multiple of 64 | the next one
//
// Each begins at a multiple of segment_alignment, as it would alone. Pure. Threads: externally
// synchronised.

namespace manta::inline v0::wire {

class bundle {
 public:
  using pieces_view = std::span<const std::span<const std::byte>>;
  static constexpr std::size_t head_bytes = segment_alignment;

  /// What lies in front of a message of `size` bytes.
  static std::array<std::byte, head_bytes> head_of(const base::id& about,
                                                   std::size_t size) noexcept {
    std::array<std::byte, head_bytes> out{};
    const std::uint64_t numbers[] = {about.high, about.low, size};
    std::memcpy(out.data(), numbers, sizeof numbers);
    return out;
  }

  /// Copies once.
  void add(const base::id& about, pieces_view pieces, std::size_t size) {
    const std::array<std::byte, head_bytes> head = head_of(about, size);
    const std::size_t before = bytes_.size();
    bytes_.resize(before + head_bytes + padded(size));
    std::byte* to = bytes_.data() + before;
    std::memcpy(to, head.data(), head_bytes);
    to += head_bytes;
    for (const auto piece : pieces) {
      if (!piece.empty()) std::memcpy(to, piece.data(), piece.size());
      to += piece.size();
    }
  }
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  bool empty() const noexcept { return bytes_.empty(); }
  /// Keeps the memory of what is usual.
  void clear() noexcept {
    if (bytes_.capacity() > kept_bytes) {
      bytes_ = {};
    } else {
      bytes_.clear();
    }
  }

  /// Calls got(about, message) for each, in order. False: what follows the last one is none.
  template <class Got>
  static bool each(std::span<const std::byte> of, Got&& got) {
    while (!of.empty()) {
      std::uint64_t numbers[3];
      if (of.size() < head_bytes) return false;
      std::memcpy(numbers, of.data(), sizeof numbers);
      of = of.subspan(head_bytes);
      if (numbers[2] > of.size()) return false;
      const auto size = static_cast<std::size_t>(numbers[2]);
      got(base::id{numbers[0], numbers[1]}, of.first(size));
      of = of.subspan(padded(size) < of.size() ? padded(size) : of.size());
    }
    return true;
  }

 private:
  static constexpr std::size_t kept_bytes = std::size_t{256} << 10U;
  static constexpr std::size_t padded(std::size_t size) noexcept {
    return (size + head_bytes - 1) / head_bytes * head_bytes;
  }

  std::vector<std::byte> bytes_;
};

}  // namespace manta::inline v0::wire
