// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <manta/base/id.hpp>

#include "wire/frame.hpp"

// A message that is too long for one request, in parts.
//
// Problem: a request is copied into the outbox, sent and handled as one, so its length is memory on
// both sides and time in which nothing else gets through.
// Idea: it goes as requests of part_bytes; each says of which message it is a part, and where it
// belongs:
//
//   0        16     24   32        64
//   | about  | size | at | nothing | bytes [at, at + part_bytes) of the message
//
// A courier keeps the order of its requests, so a part that is not the next one is nonsense.
// Messages may come between, parts of others as well. Pure. Threads: externally synchronised.

namespace manta::inline v0::wire {

inline constexpr std::size_t part_bytes = std::size_t{8} << 20U;

class parts {
 public:
  using piece = std::span<const std::byte>;
  static constexpr std::size_t head_bytes = segment_alignment;

  /// Of one sender. A message has at most `most_bytes`, and at most `most_open` are on their way.
  explicit parts(std::size_t most_bytes = largest_frame, std::size_t most_open = 1024) noexcept
      : most_bytes_(most_bytes), most_open_(most_open) {}

  /// What lies in front of the bytes from `at` on.
  static std::array<std::byte, head_bytes> head_of(const base::id& about, std::size_t size,
                                                   std::size_t at) noexcept {
    std::array<std::byte, head_bytes> out{};
    const std::uint64_t numbers[] = {about.high, about.low, size, at};
    std::memcpy(out.data(), numbers, sizeof numbers);
    return out;
  }

  /// Appends what of `all` lies in [at, at + part_bytes) to `to`; says how much that is.
  static std::size_t cut(std::span<const piece> all, std::size_t at, std::vector<piece>& to) {
    std::size_t left = part_bytes;
    for (const piece one : all) {
      if (at >= one.size()) {
        at -= one.size();
        continue;
      }
      const piece of = one.subspan(at, std::min(left, one.size() - at));
      at = 0;
      left -= of.size();
      if (!of.empty()) to.push_back(of);
      if (left == 0) break;
    }
    return part_bytes - left;
  }

  enum class got : std::uint8_t { more, whole, nonsense };
  /// `number` names the message among those that are on their way. whole: `about` and `to` are the
  /// message. Throws std::bad_alloc, and keeps what it has.
  got add(std::uint64_t number, piece part, base::id& about, frame_buffer& to) {
    if (part.size() < head_bytes) return got::nonsense;
    std::uint64_t is[4];
    std::memcpy(is, part.data(), sizeof is);
    const piece bytes = part.subspan(head_bytes);
    const bool is_first = is[3] == 0;
    if (is_first) {
      if (is[2] == 0 || is[2] > most_bytes_ || open_.size() >= most_open_) return got::nonsense;
      const auto [made, is_new] = open_.try_emplace(number);
      if (!is_new) return got::nonsense;
      made->second.about = {is[0], is[1]};
      try {
        made->second.memory.reset(static_cast<std::size_t>(is[2]));
      } catch (...) {
        open_.erase(made);
        throw;
      }
    }
    const auto found = open_.find(number);
    if (found == open_.end()) return got::nonsense;
    message& of = found->second;
    const std::size_t size = of.memory.bytes().size();
    const std::size_t expected = std::min(part_bytes, size - of.done);
    if (is[2] != size || is[3] != of.done || bytes.size() != expected) return got::nonsense;
    std::memcpy(of.memory.room().data() + of.done, bytes.data(), expected);
    of.done += expected;
    if (of.done < size) return got::more;
    about = of.about;
    to = std::move(of.memory);
    open_.erase(found);
    return got::whole;
  }
  std::size_t open() const noexcept { return open_.size(); }

 private:
  struct message {
    base::id about;
    frame_buffer memory;
    std::size_t done = 0;
  };

  const std::size_t most_bytes_;
  const std::size_t most_open_;
  std::unordered_map<std::uint64_t, message> open_;
};

}  // namespace manta::inline v0::wire
