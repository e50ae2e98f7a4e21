// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include <manta/base/clock.hpp>

#include "wire/dedup.hpp"
#include "wire/link.hpp"
#include "wire/outbox.hpp"
#include "wire/views.hpp"

// Requests to one other process and back, each handled exactly once, whatever becomes of links.
//
// Problem: a link that ends leaves its user in doubt about all that was under way; and a path may
// lose, repeat or delay.
// Idea: requests wait in an outbox until they are answered, and are sent again on the next link
// or when nothing is heard; the receiver's dedup handles each once, in the sender's order, and
// answers a repeated one from its record. What is answered may be nothing but that: results of
// tasks are requests of their own, the other way.
//
//   request -> outbox ==link==> dedup -> visitor.on_request -> answer -> dedup's record
//   visitor.on_answer <- outbox <==link== answer, as often as the request comes
//
// A message begins with a head of 64 bytes, so that a frame behind it lies at a multiple of 64:
//
//   0      4         8       16       32        48       56             64
//   | kind | sending | epoch | sender | request | number | acknowledged | the message
//
// Sender, epoch, request and number name the request, in its answer as well.
// Nothing here has a thread: who is told of arrivals (link::on_arrival) calls pump, and somebody
// calls it when due() says so.
// Limits: outbox's and dedup's. Threads: any; the visitor is called by one at a time, in order.

namespace manta::inline v0::wire {

/// A request that came.
struct arrival {
  envelope head;             ///< its id, its sender's epoch, how often it was sent before
  std::uint64_t number = 0;  ///< for courier::answer
  /// Begins at a multiple of segment_alignment; valid during the call.
  std::span<const std::byte> message = {};
  /// Where it lies, during the call. Who wants to keep the message moves this away: its bytes stay
  /// where they are.
  frame_buffer* memory = nullptr;
};

class courier {
 public:
  /// Who handles what comes. Neither may throw; both may use the courier.
  class visitor {
   public:
    /// Once for each request. Answer it, now or later: until then it counts as under way.
    virtual void on_request(const arrival& came) = 0;
    /// Once for each request that was sent.
    virtual void on_answer(const base::id& request, std::span<const std::byte> answer) = 0;

   protected:
    ~visitor() = default;
  };
  struct settings {
    base::id self = {};
    std::uint64_t epoch = 1;  ///< of this process: larger than in its lives before
    base::id peer = {};       ///< whose requests are handled
    outbox::limits out = {};
    dedup::limits in = {};
    /// Makes another link when one has ended; none: attach is called by somebody. Must not block.
    std::function<std::unique_ptr<link>()> dial = {};
    /// Called instead of pump when something has come, by the thread that brings it; none: pump is.
    std::function<void()> on_arrival = {};
    base::time_point (*clock)() = base::now;
    /// An answer that says nothing else, given within pump, leaves with the next request, or so
    /// much later (due() says when); zero: at once.
    std::chrono::nanoseconds answers_wait = {};
  };

  /// `with` lives longer than this.
  courier(settings how, visitor& with);
  courier(const courier&) = delete;
  courier& operator=(const courier&) = delete;
  /// Ends the link; nothing more is told.
  ~courier();

  /// Sends a request, given as its pieces, until it is answered. `id` is drawn by the caller, is
  /// never used again and not zero. store_full: outbox's limits. node_lost: the other process has
  /// fenced this epoch. Copies once.
  /// `ignores_limits`: for what must not wait.
  result<void> request(const base::id& id, std::span<const std::span<const std::byte>> pieces,
                       std::size_t size, bool ignores_limits = false);
  /// Answers a request that came, once.
  void answer(const arrival& to, std::vector<std::byte> bytes);
  /// From now on by this link; what is not answered goes over it again.
  void attach(std::unique_ptr<link> next);
  /// Handles what came, sends what is to be sent. Returns at once when another thread is at it.
  /// Throws std::bad_alloc: a later call goes on.
  void pump(base::time_point now);
  /// When pump has something to do without a message; nothing: not before something else happens.
  base::deadline due() const;
  std::size_t unanswered() const;
  std::size_t unanswered_bytes() const;
  /// Whether there is a link whose other end has greeted, and that has not ended.
  bool is_linked() const;
  /// Messages that were not what a courier sends; each has ended its link.
  std::uint64_t nonsense() const;

 private:
  struct head;
  using link_ptr = std::shared_ptr<link>;

  void work(base::time_point now);
  link_ptr usable_link(base::time_point now);
  bool handle(link& from, frame_buffer& memory, base::time_point now);
  bool take_request(link& from, const head& of, frame_buffer& memory);
  bool take_answer(const head& of, std::span<const std::byte> message, base::time_point now);
  void use(link_ptr next);
  bool puts_off(const arrival& to, const head& of);
  void send_answers(link& to);
  void send_due(link& to, base::time_point now);
  bool send(link& to, const outbox::letter& of) const;
  bool send(link& to, const head& of, std::span<const std::byte> message) const;

  const settings how_;
  visitor& visitor_;
  std::atomic<std::uint32_t> asked_{0};  // pumps since one is at it

  mutable std::mutex mutex_;  // guards all below
  link_ptr link_;
  outbox out_;
  dedup in_;
  std::optional<error> fenced_;
  std::vector<head> put_off_;      // answers that wait for company
  std::size_t put_off_bytes_ = 0;  // of their requests, whose sender has only so much room
  base::time_point put_off_until_{};
  std::uint64_t nonsense_ = 0;
  base::time_point dial_at_{};
  std::chrono::nanoseconds dial_wait_{};
};

}  // namespace manta::inline v0::wire
