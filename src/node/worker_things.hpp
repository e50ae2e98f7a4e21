// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include <manta/base/id.hpp>
#include <manta/node/shared_thing.hpp>

#include "node/held_permits.hpp"
#include "node/open_wishes.hpp"
#include "node/shared_names.hpp"
#include "node/workbench.hpp"

// What one other process does with the channels, semaphores and barriers of this node, here: an
// isolated worker of it (the story is shared_names.hpp's), or another node (node_things.hpp's).

namespace manta::inline v0::node {

class facts_line;
class thing_relay;

enum class thing_op : std::uint8_t {
  try_send,
  send,
  try_receive,
  receive,
  restore,  ///< an item that was received and is not wanted; no answer
  close,
  look,      ///< how many items; whether it is closed
  withdraw,  ///< the wish of that number; that one is answered
  try_acquire,
  acquire,
  release,  ///< no answer
  available,
  arrive,
  keep_room,  ///< met: room is kept for an item, until one of the two that follow
  fill_room,  ///< that of the wish of that number, with the item
  free_room   ///< the same, without, also of one that waits for it yet; no answer
};

/// What is asked; the item of a send is behind it.
struct thing_question {
  std::uint64_t high = 0;  ///< the thing's id
  std::uint64_t low = 0;
  std::uint8_t op = 0;
  std::uint64_t value = 0;  ///< permits; of withdraw, fill_room and free_room a wish's number
};
/// The answer; an item that was received is behind it.
struct thing_answer {
  std::uint8_t state = 0;   ///< exec::wish_state
  std::uint64_t value = 0;  ///< of arrive twice the round, and 1 when this completed it
};

class worker_things : public std::enable_shared_from_this<worker_things> {
 public:
  static constexpr std::size_t most_open = 65536;
  /// Of what another node has asked and is not done, where that is larger than small_bytes.
  static constexpr std::size_t most_open_bytes = std::size_t{512} << 20U;
  static constexpr std::size_t small_bytes = 4096;

  using writer = std::function<void(workbench& on)>;
  enum class told : std::uint8_t {
    yes,
    no,    ///< the worker has not got it
    later  ///< it would have to wait for room, which it may not
  };
  /// Says an answer, whose value `write` writes into `out`, under the request of that number. Any
  /// thread; takes the lock of the pool.
  using teller = std::function<told(std::uint64_t number, const writer& write, bool may_wait)>;
  using refuser = std::function<void(std::uint64_t number, const error& why)>;
  /// Has something done by a thread that waits for room where this one sends to. May throw.
  using waiter = std::function<void(std::function<void()> what)>;
  /// What is met is told by the thread of `line`, or of `aside` when that has to wait.
  worker_things(teller tell, refuser refuse, facts_line& line, waiter aside = {})
      : tell_(std::move(tell)), refuse_(std::move(refuse)), line_(line), aside_(std::move(aside)) {}

  /// A question about a thing that the worker has; `in` is behind it. `kept` lives as long as its
  /// item waits here. Throws decode_failed: nonsense; std::bad_alloc.
  void ask(std::uint64_t number, const shared_thing& of, const thing_question& asked,
           codec::in_archive& in, std::shared_ptr<const void> kept = nullptr);
  /// The worker is gone: what it waits for is withdrawn, its permits go back, and room that was
  /// kept for it is free. With `why` it is told so, as it may hear it.
  void end(const error* why = nullptr) noexcept;
  /// Whether it waits for something.
  bool is_waiting() noexcept;

 private:
  struct open_wish;
  struct returned;
  void send(const std::shared_ptr<open_wish>& one, bool waits, codec::in_archive& in);
  void receive(std::uint64_t number, const shared_thing& of, bool waits);
  void keep_room(std::uint64_t number, const shared_thing& of);
  void fill_room(std::uint64_t number, const shared_thing& of, std::uint64_t kept,
                 codec::in_archive& in);
  void finish_room(open_wish& one) noexcept;
  void free_room(const shared_thing& of, std::uint64_t kept) noexcept;
  std::shared_ptr<open_wish> take_room(const shared_thing& of, std::uint64_t kept) noexcept;
  void wish_for(const std::shared_ptr<open_wish>& one, bool waits);
  void acquire(std::uint64_t number, const shared_thing& of, std::uint64_t count, bool waits);
  void arrive(std::uint64_t number, const shared_thing& of);
  void restore(const shared_thing& of, codec::in_archive& in);
  void withdraw(std::uint64_t number);
  void release(const shared_thing& of, std::uint64_t count);
  void ask_semaphore(std::uint64_t number, const shared_thing& of, const thing_question& asked);
  bool list(const std::shared_ptr<open_wish>& one);
  bool is_listed(const open_wish& one) noexcept;
  bool unlist(const open_wish& one) noexcept;
  void finish(open_wish& one, bool may_wait = false) noexcept;
  void refuse_late(const open_wish& one) noexcept;
  void finish_permits(open_wish& one, bool is_there) noexcept;
  void finish_item(open_wish& one, bool is_there, bool may_wait) noexcept;
  bool waits_aside(open_wish& one) noexcept;
  void give_back(open_wish& one) noexcept;
  static void give_back_all() noexcept;
  void say(std::uint64_t number, const thing_answer& what) noexcept;
  std::shared_ptr<thing_relay> relay();

  const teller tell_;
  const refuser refuse_;
  facts_line& line_;
  const waiter aside_;
  std::mutex mutex_;
  bool is_over_ = false;
  std::optional<error> why_over_;  // for who may hear of it still
  open_wishes<open_wish> open_;
  std::shared_ptr<thing_relay> relay_;  // null: it uses nothing of other nodes
  held_permits permits_;                // has a lock of its own
};

}  // namespace manta::inline v0::node
