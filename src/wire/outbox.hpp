// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>

#include "wire/frame.hpp"

// The requests of one sender that have no answer yet: the other side of dedup.hpp.
//
// Idea: all that is not answered is sent again, in order, when the link is a new one, and when
// nothing was answered for a while: first for `first_wait`, then for twice as long each time up to
// `longest_wait`. Pure: time is given. Threads: externally synchronised.

namespace manta::inline v0::wire {

class outbox {
 public:
  struct limits {
    std::size_t requests = 4096;                 ///< without an answer
    std::size_t bytes = std::size_t{64} << 20U;  ///< of these; one alone may have more
    std::chrono::nanoseconds first_wait = std::chrono::milliseconds(200);
    std::chrono::nanoseconds longest_wait = std::chrono::seconds(5);
  };
  /// A request that is to be sent.
  struct letter {
    base::id request = {};
    std::uint64_t number = 0;
    std::uint32_t sending = 0;  ///< how often it was sent before
    std::span<const std::byte> bytes = {};
    /// Of a long one: the same bytes, behind room for a head.
    std::shared_ptr<frame_buffer> kept = {};
  };
  static constexpr std::size_t head_room = segment_alignment;

  outbox() : outbox(limits{}) {}
  explicit outbox(const limits& most) noexcept : most_(most), wait_(most.first_wait) {}

  /// Takes a request. store_full: so much has no answer that the limit is reached.
  result<std::uint64_t> add(const base::id& request, std::vector<std::byte> bytes,
                            bool ignores_limits = false);
  /// The same of a long one, whose bytes lie behind head_room.
  result<std::uint64_t> add(const base::id& request, std::shared_ptr<frame_buffer> kept,
                            bool ignores_limits = false);
  /// The next one to send, or null; valid until anything changes. The same until sent().
  const letter* next();
  /// What next() gave has left.
  void sent(base::time_point now);
  /// All that is not answered has to be sent again: the link is a new one.
  void restart() noexcept;
  /// The same when nothing was answered for too long.
  void on_time(base::time_point now) noexcept;
  /// True: it is the first answer to that request.
  bool on_answer(std::uint64_t number, const base::id& request, base::time_point now);

  /// Up to here all are answered.
  std::uint64_t acknowledged() const noexcept { return first_ - 1; }
  /// When on_time has something to do; nothing: not before something else happens.
  base::deadline due() const noexcept;
  std::size_t unanswered() const noexcept { return unanswered_; }
  std::size_t unanswered_bytes() const noexcept { return bytes_; }

 private:
  struct entry {
    base::id request;
    std::vector<std::byte> own;
    std::shared_ptr<frame_buffer> kept;  // instead
    std::uint32_t sendings = 0;
    bool is_answered = false;

    std::span<const std::byte> bytes() const noexcept {
      return kept == nullptr ? own : kept->bytes().subspan(head_room);
    }
  };
  result<std::uint64_t> add(entry&& one, bool ignores_limits);

  limits most_;
  std::deque<entry> entries_;  // of the numbers first_ and on
  std::uint64_t first_ = 1;
  std::size_t cursor_ = 0;  // index of the next to send
  std::size_t unanswered_ = 0;
  std::size_t bytes_ = 0;
  std::chrono::nanoseconds wait_;
  base::time_point since_{};  // the last progress, or sending again
  letter letter_;
};

}  // namespace manta::inline v0::wire
