// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include <manta/base/id.hpp>

// What one sender's requests have come to, so that handling one twice is handling it once.
//
// Problem: a sender that has no answer sends again, and can't know whether the request or the
// answer was lost. Both must not be forgotten too early, nor kept for ever.
// Idea: a sender numbers its requests from 1, in the order in which they are to be handled, and
// says with each up to where it has all answers. So what may still be repeated is a window:
//
//      over             answered or under way          fresh     early
//   1 ........ acknowledged ................... next - 1 | next | ...
//
// Requests are taken in order only: one that is early is dropped, since its sender sends all that
// is not answered again. A larger epoch begins at 1; a smaller one is fenced.
// Pure: no clock, no lock, no socket. Threads: externally synchronised.

namespace manta::inline v0::wire {

/// What names a request to its receiver.
struct numbered {
  base::id request = {};  ///< idempotency id
  std::uint64_t epoch = 0;
  std::uint64_t number = 0;        ///< from 1 in an epoch
  std::uint64_t acknowledged = 0;  ///< its sender has the answers up to this one
};

class dedup {
 public:
  struct limits {
    std::size_t requests = 4096;                 ///< under way or answered, not acknowledged
    std::size_t bytes = std::size_t{64} << 20U;  ///< of their answers
  };
  enum class verdict : std::uint8_t {
    fresh,      ///< handle it; it is under way from now on
    under_way,  ///< drop it; its answer will come
    answered,   ///< send the answer again
    over,       ///< drop it; its sender has the answer
    early,      ///< drop it; others come first
    full,       ///< drop it; there is no room to remember it
    stale,      ///< refuse it; its sender is fenced
    wrong       ///< no honest sender makes it: a number that names two requests, or answers
                ///< acknowledged that were not given
  };

  dedup() : dedup(limits{}) {}
  explicit dedup(const limits& most) noexcept : most_(most) {}

  verdict look(const numbered& at);
  /// Keeps the answer of what is under way in this epoch; else nothing, and false. Answers that
  /// were promised are kept even over the limit of bytes, which is for fresh ones.
  bool answer(std::uint64_t epoch, std::uint64_t number, std::vector<std::byte> bytes);
  /// Of what look called answered; valid until anything changes.
  std::span<const std::byte> answer_of(std::uint64_t number) const;

  std::uint64_t epoch() const noexcept { return epoch_; }
  std::size_t remembered() const noexcept { return window_.size(); }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct entry {
    base::id request;
    bool is_answered = false;
    std::vector<std::byte> answer;
  };
  bool acknowledge(std::uint64_t number);

  limits most_;
  std::uint64_t epoch_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::deque<entry> window_;  // of acknowledged_ + 1 and on
  std::size_t bytes_ = 0;
};

}  // namespace manta::inline v0::wire
