// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <manta/spec/error.hpp>

#include "wire/ring.hpp"
#include "wire/segment_shelf.hpp"

// What a node and one of its isolated workers share: a ring each way, and a page that says what the
// worker is doing.
//
// Problem. When a worker dies, its node has to know which of the tasks under way ran, for that one
// has cost a run and the others have not; and it has to be able to take a task back that it sent
// ahead. Messages can't say that: the dead send none, and who is busy reads none.
//
// Idea. Each task under way has a slot on a page that both see: its number and its state in one
// word, changed by compare-and-swap. Who wins `sent` has the task.
//
//   free --node--> sent --worker--> running --worker--> done --node--> free
//                    \--node--> free (taken back)
//
// A task that suspended, or stands for another one's result, is off the worker's stack: its slot is
// `done` before there is a result, `news` counts that, and the node gives the slot to others.
//
// `awaits` says what the worker waits for, so that the node may give it that, and nothing else, and
// gives what it sent ahead to others.
//
// The calls of an actor that lives there have no slots, since any number of them may be under way:
// they begin in their order, and `begun` is the last that did; `reading` is the one whose message
// is being read.
//
// Invariants. The page decides nothing but who runs a task and what a death has cost: the node
// keeps its own list, so a worker that writes nonsense there spoils its own tasks only. Threads:
// the page's words any; the rings as ring.hpp says.

namespace manta::inline v0::wire {

/// States of a slot, in the lower 2 bits of its word; above them the task's number.
enum class slot_state : std::uint64_t { free, sent, running, done };

constexpr std::uint64_t slot_word(std::uint64_t number, slot_state state) noexcept {
  return number << 2U | static_cast<std::uint64_t>(state);
}

/// What lies in the page.
struct worker_page {
  static constexpr std::size_t slots = 64;
  /// In `awaits`: it runs, or waits for a task.
  static constexpr std::uint64_t awaits_nothing = 0;
  static constexpr std::uint64_t one_order = std::uint64_t{1} << 32U;  ///< in `news`

  alignas(64) std::array<std::atomic<std::uint64_t>, slots> slot{};
  /// awaits_nothing, or what awaiting() says.
  alignas(64) std::atomic<std::uint64_t> awaits{awaits_nothing};
  /// How many tasks on its stack wait, all but the one that runs on top of them.
  std::atomic<std::uint32_t> stacked{0};
  /// The worker makes actors or arrays, or asks questions: its messages have their effects in their
  /// order. Before the first.
  std::atomic<std::uint32_t> makes_actors{0};
  /// What happened beside the ring, for who looks there: in the lower half how many tasks left the
  /// stack without a result so far, in the upper one how many orders by the socket are urgent.
  std::atomic<std::uint64_t> news{0};
  /// How often there was printed text that the node had not read when a task had ended.
  alignas(64) std::atomic<std::uint64_t> printed{0};
  /// What runs here prints: either side says so, the worker takes it back.
  std::atomic<std::uint32_t> prints{0};
  /// The worker's own, for people.
  std::atomic<std::int32_t> pid{0};
  /// Where it was when a signal ended it, innermost first, and how many of these there are.
  static constexpr std::size_t most_frames = 32;
  std::array<std::atomic<std::uint64_t>, most_frames> crash{};
  std::atomic<std::uint32_t> crash_frames{0};

  /// The highest number of its actor's calls that began: what a death has cost.
  alignas(64) std::atomic<std::uint64_t> begun{0};
  /// The call whose message is being read, which runs its classes' functions; 0: none.
  std::atomic<std::uint64_t> reading{0};

  /// Of tasks that may use so much, by their slots, and of such an actor: what the worker had of
  /// its own when they began, in bytes; 0: not known yet.
  alignas(64) std::array<std::atomic<std::int64_t>, slots> had{};
  std::atomic<std::int64_t> actor_had{0};

  /// Segments that it made and may use again.
  alignas(64) segment_shelf shelf;

  /// It waits: for its own request of that number, or for something else (0), and has room on its
  /// stack to run what it waits for.
  static constexpr std::uint64_t awaiting(std::uint64_t request, bool has_room) noexcept {
    return request << 2U | (has_room ? 2U : 0U) | 1U;
  }
  static constexpr std::uint64_t request_of(std::uint64_t awaits) noexcept { return awaits >> 2U; }
  static constexpr bool has_room(std::uint64_t awaits) noexcept { return (awaits & 2U) != 0; }

  std::atomic<std::uint64_t>& slot_of(std::uint64_t number) noexcept {
    return slot[number % slots];
  }
  /// Both sides: from `sent` to what the caller makes of it. False: the other one was first.
  bool claim(std::uint64_t number, slot_state to) noexcept {
    std::uint64_t expected = slot_word(number, slot_state::sent);
    return slot_of(number).compare_exchange_strong(expected, slot_word(number, to),
                                                   std::memory_order_acq_rel);
  }
  /// The worker: a task that has a slot still has ended.
  bool finish(std::uint64_t number) noexcept {
    std::uint64_t expected = slot_word(number, slot_state::running);
    return slot_of(number).compare_exchange_strong(expected, slot_word(number, slot_state::done),
                                                   std::memory_order_acq_rel);
  }
  /// The worker: a task left its stack. False: it has its result already.
  bool leave_stack(std::uint64_t number) noexcept {
    if (!finish(number)) return false;
    news.fetch_add(1, std::memory_order_release);
    return true;
  }
  /// The worker: an order waits in the socket, and somebody waits for its answer.
  void note_order() noexcept { news.fetch_add(one_order, std::memory_order_release); }
  /// The worker: a call of its actor begins, on any of its threads.
  void begin_call(std::uint64_t number) noexcept {
    std::uint64_t before = begun.load(std::memory_order_relaxed);
    while (before < number &&
           !begun.compare_exchange_weak(before, number, std::memory_order_release)) {
    }
  }
  bool is(std::uint64_t number, slot_state state) const noexcept {
    return slot[number % slots].load(std::memory_order_acquire) == slot_word(number, state);
  }
};

/// The memory of one worker's line.
class worker_line {
 public:
  /// Bytes of each ring; a message may have a quarter of it.
  static constexpr std::size_t ring_bytes = std::size_t{1} << 20U;
  static constexpr std::size_t file_count = 3;

  /// store_full: there is no memory or no descriptor.
  static result<worker_line> make();
  /// Of descriptors that files() gave, which this takes. decode_failed: they are something else.
  static result<worker_line> map(const std::array<int, file_count>& files);
  worker_line(worker_line&& other) noexcept;
  worker_line& operator=(worker_line&&) = delete;
  ~worker_line();

  /// For the other side; they live as long as this.
  std::array<int, file_count> files() const noexcept;
  const ring_memory& to_worker() const noexcept { return to_worker_; }
  const ring_memory& to_node() const noexcept { return to_node_; }
  worker_page& page() const noexcept { return *page_; }

 private:
  worker_line(ring_memory to_worker, ring_memory to_node, int file, worker_page* page) noexcept;
  static result<worker_line> with_page(ring_memory to_worker, ring_memory to_node, int file);

  ring_memory to_worker_;
  ring_memory to_node_;
  int file_;
  worker_page* page_;
};

}  // namespace manta::inline v0::wire
