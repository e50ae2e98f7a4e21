// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include <manta/node/shared_thing.hpp>

#include "node/held_permits.hpp"
#include "node/open_wishes.hpp"
#include "node/worker_things.hpp"

// What an isolated worker does with channels, semaphores and barriers of other nodes.
//
// Problem. A worker asks its node, and these live elsewhere. The node must not wait for the answers
// where it reads what workers send, and what a worker had there must go back when it ends.
//
// Idea. The home speaks the worker's language: worker_things.hpp serves both. So each question goes
// on as it is, under a number of this node's, and its answer goes back under the worker's. What
// stands here for the thing (far_thing.hpp) is not asked itself, as that would wait where workers
// are read; it only holds back, in its line, what is more than a home is to have (Sends).
//
//   worker --Ask 5--> ring --> ask --> line of the home's --Ask 91--> peers ~~~> home
//   worker <--Answer 5-- ring <-- [facts' line, of an item] <-- [looker] <--Answer 91--- home
//
// Items are read where they arrive and written where they leave, as handles mean something else in
// each process. All but a release leaves by the line of that home, whose thread may wait for room:
// in the worker's order. A release leaves at once: it is there before the result of who had it; and
// so does what frees room, which others wait for.
//
// Ends. The worker's: its wishes are taken back, as it would; what was met meanwhile goes back, an
// item to be the oldest again. The home's: what waits is told so. This node's: it is lost for the
// home with all it has asked.
//
// Sends. Those that have left for a channel and are not answered have far_thing's most_asked_bytes
// with this node's own; others are held here, in one line with those, and leave as these are
// answered. So does what asks for room behind them. One that is taken back, or whose worker ends,
// ends at once, whatever its home's line waits for; not one that has not come to that line.
//
// Limits. worker_things::most_open questions that are not answered, not counting what fills room.
// What is held is in this node's memory, as is what its workers send to its own channels. Several
// items that a worker has not got go back in any order. Threads: any; nothing of others is called
// under the lock.

namespace manta::inline v0::node {

class far_thing;

/// Those of one worker.
class thing_relay : public std::enable_shared_from_this<thing_relay> {
 public:
  thing_relay(worker_things::teller tell, worker_things::refuser refuse)
      : tell_(std::move(tell)), refuse_(std::move(refuse)) {}

  /// As worker_things::ask, of a thing that stands for one of another node.
  void ask(std::uint64_t number, const shared_thing& of, const thing_question& asked,
           codec::in_archive& in);
  /// The worker is gone.
  void end() noexcept;
  /// Whether it waits for something.
  bool is_waiting() noexcept {
    const std::lock_guard lock(mutex_);
    return !open_.is_empty();
  }

 private:
  struct passed;
  using passed_ptr = std::shared_ptr<passed>;
  void pass(const passed_ptr& one, codec::in_archive& in);
  bool list(const passed_ptr& one);
  passed_ptr found(std::uint64_t number) noexcept;
  passed_ptr room_of(const shared_thing& of, std::uint64_t number) noexcept;
  passed_ptr room_to_fill(const shared_thing& of, std::uint64_t number) noexcept;
  void tell_of(const passed_ptr& which, thing_op op) noexcept;
  static void leave_soon(passed_ptr one) noexcept;
  void leave(const passed_ptr& one) noexcept;
  bool is_held(const passed_ptr& one);
  bool forget_held(const passed_ptr& one) noexcept;
  void go(const passed_ptr& one, std::uint64_t value) noexcept;
  void answered(const passed_ptr& one, const wire::result_view& came) noexcept;
  void finish(const passed_ptr& one) noexcept;
  bool is_listed(const passed& one) noexcept;
  bool unlist(const passed& one) noexcept;
  bool say(const passed& one) noexcept;
  void take_back(const passed_ptr& one) noexcept;
  void release(const shared_thing& of, std::uint64_t count);

  const worker_things::teller tell_;
  const worker_things::refuser refuse_;
  std::mutex mutex_;
  bool is_over_ = false;
  open_wishes<passed> open_;
  held_permits permits_;  // has a lock of its own
};

}  // namespace manta::inline v0::node
