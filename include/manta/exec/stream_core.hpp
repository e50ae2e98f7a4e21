// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/exec/job.hpp>
#include <manta/exec/suspension.hpp>
#include <manta/spec/options.hpp>

// A stream without its type: what lies between a generator and its consumer.
//
// Problem. A generator makes items faster or slower than somebody takes them. It must not run ahead
// without bound, must not hold a worker while it is ahead, and an item must cost little more than
// its block.
//
// Idea. Items are jobs that are done, handed over through one atomic pointer: a stack that the
// consumer takes whole and turns round, as an actor's mailbox.
//
//   inbox      meaning                         producer's push       consumer
//   null       nothing new                     CAS to m              CAS to waiting, sleeps
//   m -> ...   new items                       CAS to m'             exchange(null)
//   waiting    the consumer waits              CAS to m; fires it    CAS to null when it gives up
//
// Credits bound what is made and not taken. A producer that has none left leaves its await_node in
// `producer_` and suspends; the consumer fires it when half of the credits are back, or when it
// finds nothing to take. A consumer that has nothing else to do runs the producer itself when that
// is the newest entry of its queue: one thread then does both in turns of half the credits.
//
// A consumer as fast as its producer would find one item each time, and each costs both of them the
// inbox's line: three times as much as an item that comes with others. So where items come quickly
// the consumer leaves the inbox alone for as long as some need (space_out).
//
// The end comes as an item too, pushed when the generator's job is ready. When that failed, the job
// itself stands for the item that could not be made.
//
// A generator in another process (outside.hpp). There its items go out instead of to a consumer: an
// outlet stands where a consumer waits, always, and what it is given does not count as taken before
// the reader says so. Here a node of the core's own stands where a producer waits, and when it is
// fired the reader's count goes there. So neither side has a step more for a stream that stays.
// One that goes to another node (theft.hpp) leaves only when it is about to run, perhaps while
// somebody waits for it, and comes back where it can't run there; nothing is said of its reader
// before its first item has come, since nobody there need know it until then.
//
// Threads: push, has_credit, the producer's node: the generator; take, wait, the consumer's node:
// one consumer at a time; the rest: any. Invariants: (1) the node in `producer_` and the one behind
// `waiting` are fired by who takes them out, once; (2) the end is pushed once, behind all items.

namespace manta::inline v0::exec {

class MANTA_API stream_core {
 public:
  stream_core() = default;
  stream_core(const stream_core&) = delete;
  stream_core& operator=(const stream_core&) = delete;

  void hold() noexcept { holders_.fetch_add(1, std::memory_order_relaxed); }
  void drop() noexcept;

  /// Tells the core its generator, once, when that was submitted.
  void watch(job* generator) noexcept;
  void set_credits(std::uint32_t n) noexcept;
  /// Nobody wants more items: ends the generator, at once when it is suspended or has not begun,
  /// else at its next item.
  void abandon() noexcept;
  /// The same on request; false when the generator had ended.
  bool cancel() noexcept;

  // The producer.
  /// Hands over an item, with one hold of it.
  void push(job* item) noexcept;
  bool is_abandoned() const noexcept { return is_abandoned_.load(std::memory_order_acquire); }
  bool has_credit() noexcept {
    const std::uint64_t made = pushed_.load(std::memory_order_relaxed);
    const std::uint32_t allowed = credits_.load(std::memory_order_relaxed);
    if (made - known_taken_ < allowed) return true;
    known_taken_ = taken_.load(std::memory_order_acquire);
    return made - known_taken_ < allowed;
  }
  bool add_producer(waiter* node, job* entry) noexcept;
  bool remove_producer(waiter* node) noexcept;
  /// How many were handed over.
  std::uint64_t pushed() const noexcept { return pushed_.load(std::memory_order_relaxed); }

  // The process of a generator whose reader is in another one.
  /// Has `outlet` fired when there is something for it; false: there is something already.
  bool add_outlet(waiter* outlet) noexcept;
  /// The outlet's: the next item with a hold of it, or null: there is none now.
  job* pull() noexcept;
  /// Whether pull has come to the end.
  bool is_drained() const noexcept { return ready_ == end_mark(); }
  /// So many were taken there, of which so many may be ahead from now on.
  void taken_elsewhere(std::uint64_t taken, std::uint32_t credits) noexcept;

  // The process of a reader whose generator is in another one.
  /// How many items that may make without being told more.
  std::uint32_t grant() noexcept;
  /// Whether it made more than it may.
  bool has_too_many() const noexcept {
    return pushed() >= allowed_.load(std::memory_order_acquire);
  }
  /// Its generator, which has not begun and is claimed, goes to another node; answers the same as
  /// grant. Any number of times.
  std::uint32_t leave() noexcept;
  /// It did not go, or can't run there, and nothing of it has come: it runs here. Without effect on
  /// one that has not left.
  void come_back() noexcept;
  /// The first item of that generator in another node was pushed.
  void first_came(job* generator) noexcept;

  // The consumer.
  /// Who makes the items.
  job* generator() const noexcept { return generator_; }
  /// Whether take answers without waiting. Takes up to 2 us where items come quickly.
  bool has_next() noexcept;
  /// The next item with a hold of it; null at the end. Requires has_next().
  job* take() noexcept;
  /// Waits until has_next(); false at the deadline. Throws cancelled when the task is.
  bool wait(const base::deadline& deadline);
  bool add_consumer(waiter* node) noexcept;
  bool remove_consumer(waiter* node) noexcept;

 private:
  struct core_node : waiter {
    stream_core* core = nullptr;
  };
  enum class place : std::uint8_t { here, outside, afar };

  ~stream_core() = default;
  job*& link_of(job* item) noexcept;
  void push_link(job* item) noexcept;
  void return_credits(std::uint32_t left) noexcept;
  void stand_for_producer() noexcept;
  void tell_abandoned() noexcept;
  void tell_taken() noexcept;
  void tell(std::uint64_t taken, std::uint32_t credits) noexcept;
  static job* end_mark() noexcept;
  bool help();
  bool linger() noexcept;
  void space_out(std::uint32_t found) noexcept;
  void drop_list(job* list) noexcept;

  std::atomic<job*> inbox_{nullptr};
  std::atomic<std::uint32_t> holders_{1};
  std::atomic<std::uint32_t> credits_{default_stream_credits};
  job* generator_ = nullptr;
  job* end_link_ = nullptr;
  core_node end_;
  std::atomic<bool> is_abandoned_{false};
  std::atomic<place> generator_is_{place::here};
  // The producer's.
  alignas(64) std::atomic<std::uint64_t> pushed_{0};
  std::uint64_t known_taken_ = 0;
  // Looked at with each item taken, written when the producer suspends: not in a line that the
  // producer writes with each item.
  alignas(64) std::atomic<waiter*> producer_{nullptr};
  std::atomic<job*> entry_{nullptr};
  // Of a generator elsewhere; told_ is its who has taken far_ out of producer_.
  core_node far_;
  std::atomic<std::uint64_t> allowed_{0};
  std::uint64_t told_ = 0;
  std::uint32_t left_with_ = 0;  // credits; written before it goes
  // The consumer's.
  alignas(64) std::atomic<std::uint64_t> taken_{0};
  job* ready_ = nullptr;
  base::time_point emptied_{};            // when the inbox was emptied
  base::time_point::duration spacing_{};  // how long after that it is let alone
  waiter* sleeper_ = nullptr;
  bool has_told_failure_ = false;
};

/// Owns one hold of a core.
class stream_ref {
 public:
  stream_ref() noexcept = default;
  /// Takes over a hold.
  explicit stream_ref(stream_core* core) noexcept : core_(core) {}
  stream_ref(const stream_ref& other) noexcept : core_(other.core_) {
    if (core_ != nullptr) core_->hold();
  }
  stream_ref(stream_ref&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  stream_ref& operator=(stream_ref other) noexcept {
    std::swap(core_, other.core_);
    return *this;
  }
  ~stream_ref() {
    if (core_ != nullptr) core_->drop();
  }
  static stream_ref make() { return stream_ref(new (allocate()) stream_core); }
  stream_core* get() const noexcept { return core_; }
  stream_core* operator->() const noexcept { return core_; }
  explicit operator bool() const noexcept { return core_ != nullptr; }

 private:
  static MANTA_API void* allocate();
  stream_core* core_ = nullptr;
};

}  // namespace manta::inline v0::exec
