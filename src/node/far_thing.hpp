// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include <manta/base/id.hpp>
#include <manta/exec/barrier_core.hpp>
#include <manta/exec/channel_core.hpp>
#include <manta/exec/parker.hpp>
#include <manta/exec/semaphore_core.hpp>

#include "node/far_handles.hpp"
#include "node/far_things.hpp"
#include "node/worker_things.hpp"

// One of what far_things.hpp has: the wishes of it that its node has, and those that wait here.
//
// Sends that wait. A channel takes what one node sends to it in the order in which that came, so
// who sends behind another one of this node waits for that one, here or there. There, its item
// would take memory that is another node's: so once those that have left and are not answered have
// most_asked_bytes, others are held here, unwritten, and leave as those are answered, by a
// thread that may wait for room. Other channels do not wait for them. What isolated workers of this
// node send, which thing_relay.hpp passes on, is in the same line and counts with the others.
//
//   enlist: leave --> asked: bytes count --> answered --> next one held: leave
//           held, when too many count --'                 '-> taken back: forgotten
//
// A send that is one of several cases of a select. Its group can be claimed here only, and room
// there is found there only. So the home is asked for room; when that is kept, and the group can be
// claimed, the item follows, and who waits is told when it has been put in. Else the room is freed.
//
//   enlist: ask for room --> kept: claim --yes--> fill it: item --> answered: told
//                 |                       '-no--> free it: forgotten
//                 '-> taken back, or closed: forgotten
//
// From the claim on nothing else of the select can happen: it ends as that answer says, or with the
// loss of the home. Who takes it back meanwhile waits for that.

namespace manta::inline v0::node {

/// Of sends to one channel that have left and are not answered.
inline constexpr std::size_t most_asked_bytes = std::size_t{32} << 20U;

class far_thing;

/// A send, or a question for room, that may be held back before it leaves. What is in it is guarded
/// by the mutex of its thing.
struct held_send {
  held_send() = default;
  held_send(const held_send&) = delete;
  held_send& operator=(const held_send&) = delete;
  virtual ~held_send() = default;
  /// It was held, and its turn has come. By who may wait for room; `self` is this.
  virtual void leave_now(far_thing& of, const std::shared_ptr<held_send>& self) noexcept = 0;

  std::size_t bytes = 0;      // of what was asked, while it counts
  bool is_concluded = false;  // it does not count any more
  bool is_leaving = false;    // it was held, and its item is being written
};

/// A wish that the node has: until it is answered, or was taken back. A send may be held back
/// before it leaves; the thing's mutex guards where it is then.
struct far_wish final : held_send {
  void leave_now(far_thing& of, const std::shared_ptr<held_send>& self) noexcept override;

  exec::parker answered;
  std::atomic<bool> was_withdrawn{false};
  std::uint64_t number = 0;
  struct conclusion {
    exec::wish_state state = exec::wish_state::open;
    bool is_told = false;
  };
  bool wants_room = false;  // it is a send, one of several cases
  bool is_filling = false;  // the room that was kept for that; its group is claimed by this
  std::atomic<bool> is_lost{false};  // it wants room, and its home is said to be lost
  std::optional<conclusion> end;     // of one that came while it was leaving
  bool is_unwanted = false;
  exec::wish* want = nullptr;
  exec::permit_request* request = nullptr;
  exec::barrier_party* party = nullptr;

  exec::waiter* whom() const noexcept {
    if (want != nullptr) return want->group->tell;
    return request != nullptr ? request->tell : party->tell;
  }
};
using far_wish_ptr = std::shared_ptr<far_wish>;

/// One of them. Wishes are looked up by their address; who is told is told under the lock, so that
/// who takes a wish back knows that it is not being told. It may be the last one to use this, so
/// who brings an answer keeps it.
class far_thing final : public std::enable_shared_from_this<far_thing>,
                        public far_link,
                        public exec::far_channel,
                        public exec::far_semaphore,
                        public exec::far_barrier {
 public:
  far_thing(far_things& in, const base::id& id, std::uint64_t type, const item_ops* items,
            node_link by)
      : in_(in), id_(id), type_(type), items_(items), holds_(std::move(by.asker)) {
    channel = this;
    semaphore = this;
    barrier = this;
    if (by.counts) run_ = far_handles::global().has_view(id_);
  }
  ~far_thing() override {
    {
      const std::lock_guard lock(in_.mutex_);
      const auto found = in_.by_id_.find(id_);
      if (found != in_.by_id_.end() && found->second.link == this) in_.by_id_.erase(found);
    }
    if (in_.node_ != 0) {
      if (run_ != 0) far_handles::global().lost_view(id_, run_);
    } else {
      in_.give_back_(in_.to_, id_, times_came.load());
    }
  }

  exec::wish_state attempt(const exec::wish& w) override;
  bool enlist(exec::wish& w) noexcept override;
  bool withdraw(exec::wish& w) noexcept override { return take_back(&w); }
  void restore(void* box) noexcept override;
  bool close() override { return ask_number(thing_op::close, 0).value != 0; }
  std::pair<std::size_t, bool> look() override {
    const thing_answer found = ask_number(thing_op::look, 0);
    return {static_cast<std::size_t>(found.value), found.state != 0};
  }

  bool attempt(std::size_t count) override {
    return ask_number(thing_op::try_acquire, count).state ==
           static_cast<std::uint8_t>(exec::wish_state::met);
  }
  bool enlist(exec::permit_request& r) noexcept override;
  bool withdraw(exec::permit_request& r) noexcept override { return take_back(&r); }
  void release(std::size_t count) noexcept override { tell(thing_op::release, count, nullptr); }
  std::size_t available() override {
    return static_cast<std::size_t>(ask_number(thing_op::available, 0).value);
  }

  bool enlist(exec::barrier_party& p) noexcept override;
  bool withdraw(exec::barrier_party& p) noexcept override { return take_back(&p); }

  const base::id& id() const noexcept { return id_; }
  std::uint64_t type() const noexcept { return type_; }
  // 0: it is a worker's, or of a node or a runtime that is over.
  std::uint64_t node() const noexcept {
    return run_ != 0 && run_ == far_handles::global().run() ? in_.node_ : 0;
  }
  // Also of one that is over.
  std::uint64_t home() const noexcept { return in_.node_; }

  // For thing_relay.hpp, whose wishes are in no list of this.
  /// Where an item is read into, when one came.
  using box_of = std::function<void*()>;
  /// Throws what the node says. `box`: none, where no item can come.
  thing_answer read(const wire::result_view& came, const box_of& box) const;
  /// A question, as it is; by who may wait for room. `box`: null, no item goes with it. `counts`:
  /// the send whose bytes these are, until it is concluded. Throws as worker_questions::begin.
  void pass_on(thing_op op, std::uint64_t value, const void* box, worker_questions::taker then,
               std::uint64_t* number, held_send* counts = nullptr);
  /// False: it may leave now. True: it is told when. Throws std::bad_alloc.
  bool hold_back(const std::shared_ptr<held_send>& one, bool has_item);
  /// False: it is not held, or not any more.
  bool forget_held(const std::shared_ptr<held_send>& one) noexcept;
  /// It was answered, or could not leave: others may.
  void conclude_send(held_send& one) noexcept;
  /// The same of what has no answer, and never throws.
  void pass_told(thing_op op, std::uint64_t value, const void* box) noexcept {
    tell(op, value, box);
  }
  /// Permits; by any thread, which waits for nothing.
  void release_now(std::uint64_t count) noexcept;

  std::atomic<std::uint32_t> times_came{1};  // times the node has sent it, which it has back then

 private:
  worker_questions::writer question(thing_op op, std::uint64_t value, const void* sent) const;
  void write_asked(workbench& on, const base::id& request, thing_op op, std::uint64_t value,
                   const std::function<void()>& item) const;
  void check_may_wait() const;
  thing_answer ask_number(thing_op op, std::uint64_t value);
  void tell(thing_op op, std::uint64_t value, const void* box) noexcept;
  void free_room_of(const far_wish& one) noexcept;
  void answered(const far_wish_ptr& one, const void* key, const wire::result_view& came) noexcept;
  void answered_item(const far_wish_ptr& one, const wire::result_view& came) noexcept;
  void fill_soon(const far_wish_ptr& one) noexcept;
  void fill(const far_wish_ptr& one) noexcept;
  void filled(const far_wish_ptr& one, std::exception_ptr why) noexcept;
  static bool note_item(exec::wish& w, exec::wish_state state, std::exception_ptr why,
                        bool is_claimed) noexcept;
  void give_back_soon(const far_wish_ptr& one, void* item) noexcept;
  void conclude(far_wish& one, const void* key, exec::wish_state state, bool is_told) noexcept;
  template <class Wish>
  bool enlist_far(Wish& w, Wish* far_wish::*as, thing_op op, std::uint64_t value) noexcept;
  void begin(const far_wish_ptr& one, const void* key, const worker_questions::writer& ask);
  void leave(const far_wish_ptr& one, const void* key, const worker_questions::writer& ask);
  bool take_back(const void* key) noexcept;

  worker_questions::writer send_of(const far_wish_ptr& one);
  worker_questions::writer question_of(const far_wish_ptr& one);
  bool holds_back(const far_wish_ptr& one);
  bool has_to_wait(bool has_item) const noexcept;
  void count(held_send& one, std::size_t bytes) noexcept;
  bool count_no_more(held_send& one) noexcept;
  void send_held_soon() noexcept;
  void send_held() noexcept;
  void send_one_held(const far_wish_ptr& one) noexcept;
  friend struct far_wish;

  far_things& in_;
  const base::id id_;
  const std::uint64_t type_;  // of the handle
  const item_ops* const items_;
  const std::shared_ptr<void> holds_;  // what in_ is a part of
  std::uint64_t run_ = 0;              // the runtime that counts it
  std::mutex mutex_;
  std::unordered_map<const void*, far_wish_ptr> open_;
  std::size_t asked_bytes_ = 0;  // in sends that have left and are not answered
  // Sends that wait until it is less; some are under way then.
  std::deque<std::shared_ptr<held_send>> held_;
  std::uint32_t leaving_ = 0;  // of those, taken from there and not sent yet
};

/// Null: it lives here.
far_thing* far_of(const shared_thing& of) noexcept;

}  // namespace manta::inline v0::node
