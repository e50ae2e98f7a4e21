// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include <manta/codec/errors.hpp>

#include "node/aside.hpp"
#include "node/far_thing.hpp"
#include "node/node_things.hpp"
#include "wire/error_record.hpp"

// What becomes of the wishes of a thing that lives elsewhere.

namespace manta::inline v0::node {

namespace {

using exec::wish_state;

}  // namespace

// Throws with nothing listed.
void far_thing::begin(const far_wish_ptr& one, const void* key,
                      const worker_questions::writer& ask) {
  check_may_wait();
  const std::shared_ptr<far_thing> self = shared_from_this();  // who hears it may drop the last one
  {
    const std::lock_guard lock(mutex_);
    open_[key] = one;
  }
  try {
    leave(one, key, ask);
  } catch (...) {
    bool has_room = false;
    {
      const std::lock_guard lock(mutex_);
      open_.erase(key);
      has_room = count_no_more(*one);
    }
    if (has_room) send_held_soon();
    throw;
  }
}

// Its answer may come before this is over.
void far_thing::leave(const far_wish_ptr& one, const void* key,
                      const worker_questions::writer& ask) {
  in_.asks_.begin(
      ask,
      [self = shared_from_this(), one, key](const wire::result_view& came) {
        self->answered(one, key, came);
      },
      &one->number);
  // Its end may have overtaken it; it leaves all the same.
  if (one->is_lost.load()) free_room_of(*one);
}

bool far_thing::enlist(exec::wish& w) noexcept {
  try {
    if (items_ == nullptr) raise(errc::unsupported, "items of that channel can't travel");
    const auto one = std::make_shared<far_wish>();
    one->want = &w;
    one->wants_room = w.is_send && w.group->open.load(std::memory_order_relaxed) > 1;
    if (!w.is_send || !holds_back(one)) begin(one, &w, question_of(one));
    return false;
  } catch (...) {
    if (!w.group->claim()) return false;
    w.failure = std::current_exception();
    w.state = wish_state::met;
    return true;
  }
}

// As one that is met at once when it could not be asked for.
template <class Wish>
bool far_thing::enlist_far(Wish& w, Wish* far_wish::*as, thing_op op,
                           std::uint64_t value) noexcept {
  try {
    const auto one = std::make_shared<far_wish>();
    (*one).*as = &w;
    begin(one, &w, question(op, value, nullptr));
    return false;
  } catch (...) {
    w.failure = std::current_exception();
    return true;
  }
}

bool far_thing::enlist(exec::permit_request& r) noexcept {
  return enlist_far(r, &far_wish::request, thing_op::acquire, r.count);
}

bool far_thing::enlist(exec::barrier_party& p) noexcept {
  return enlist_far(p, &far_wish::party, thing_op::arrive, 0);
}

// Whether its group is told, which has the only one to hold `why` then. `is_claimed`: for this.
bool far_thing::note_item(exec::wish& w, wish_state state, std::exception_ptr why,
                          bool is_claimed) noexcept {
  if (state == wish_state::closed) {
    w.state = state;
    return w.group->open.fetch_sub(1, std::memory_order_acq_rel) == 1 && w.group->claim();
  }
  if (state != wish_state::met) return false;
  const bool is_told = is_claimed || w.group->claim();
  const bool has_failed = why != nullptr;
  if (is_told) w.failure = std::move(why);
  // What was sent was, also when that is too late: it waited alone.
  if (is_told || (w.is_send && !has_failed)) w.state = state;
  return is_told;
}

// By who found the answer in the ring. `key`: what it is listed by.
void far_thing::answered(const far_wish_ptr& one, const void* key,
                         const wire::result_view& came) noexcept {
  if (one->want != nullptr) return answered_item(one, came);
  std::exception_ptr why;
  thing_answer said{static_cast<std::uint8_t>(wish_state::met), 0};
  try {
    said = read(came, {});
  } catch (...) {
    why = std::current_exception();
  }
  const auto state = static_cast<wish_state>(said.state);
  const bool is_told = state == wish_state::met;
  // Who is told holds the failure alone, and ends it.
  if (is_told && one->request != nullptr) {
    one->request->failure = std::move(why);
  } else if (is_told && one->party != nullptr) {
    one->party->failure = std::move(why);
    one->party->generation = said.value / 2;
    one->party->is_last = said.value % 2 != 0;
  }
  conclude(*one, key, state, is_told);
}

// An item is read when it is known whose it is: another case of its select may have happened, or
// that has been given up. Then it goes back; and room that was kept for one is free again. An error
// of what wants room may come from here, when the home has been given up: that has the wish still,
// if it lives.
void far_thing::answered_item(const far_wish_ptr& one, const wire::result_view& came) noexcept {
  exec::wish& w = *one->want;
  std::exception_ptr why;
  wish_state state = wish_state::met;
  bool is_ours = false;
  void* lost = nullptr;
  const auto box = [&] {
    is_ours = w.group->claim();
    if (!is_ours) lost = items_->make_box();
    return is_ours ? w.value : lost;
  };
  try {
    state = static_cast<wish_state>(read(came, w.is_send ? box_of() : box_of(std::ref(box))).state);
  } catch (...) {
    why = std::current_exception();
  }
  if (lost != nullptr) {
    if (why == nullptr) return give_back_soon(one, lost);
    items_->drop_box(lost);
  }
  if (one->wants_room && state == wish_state::met) {
    if (why == nullptr && w.group->claim()) return fill_soon(one);
    if (why != nullptr) one->is_lost.store(true);
    free_room_of(*one);
    // Another case has happened, or it was given up.
    if (why == nullptr) state = wish_state::open;
  }
  conclude(*one, &w, state, note_item(w, state, std::move(why), is_ours));
}

// An item that nobody here wants goes back, to be the oldest again, before the wish that it came
// for is over: what is asked then comes behind it.
void far_thing::give_back_soon(const far_wish_ptr& one, void* item) noexcept {
  do_aside_surely(in_.node_, [self = shared_from_this(), one, item]() noexcept {
    self->restore(item);
    self->items_->drop_box(item);
    self->conclude(*one, one->want, wish_state::met, false);
  });
}

// ---- sends that are one of several cases

// By whoever ends it, also where what goes there must not be waited for.
void far_thing::free_room_of(const far_wish& one) noexcept {
  const node_things::in_haste waits_for_nothing;
  tell(thing_op::free_room, one.number, nullptr);
}

void far_thing::fill_soon(const far_wish_ptr& one) noexcept {
  {
    const std::lock_guard lock(mutex_);
    one->is_filling = true;
  }
  do_aside_surely(in_.node_, [self = shared_from_this(), one]() noexcept { self->fill(one); });
}

void far_thing::fill(const far_wish_ptr& one) noexcept {
  try {
    in_.asks_.begin(question(thing_op::fill_room, one->number, one->want->value),
                    [self = shared_from_this(), one](const wire::result_view& came) {
                      std::exception_ptr why;
                      try {
                        const thing_answer said = self->read(came, {});
                        if (said.state != static_cast<std::uint8_t>(wish_state::met)) {
                          raise(errc::decode_failed, "an answer about a channel that is none");
                        }
                      } catch (...) {
                        why = std::current_exception();
                      }
                      self->filled(one, std::move(why));
                    });
  } catch (...) {
    filled(one, std::current_exception());
  }
}

// The home may have kept the room when the item has not come, or could not be put there.
void far_thing::filled(const far_wish_ptr& one, std::exception_ptr why) noexcept {
  if (why != nullptr) free_room_of(*one);
  exec::wish& w = *one->want;
  conclude(*one, &w, wish_state::met, note_item(w, wish_state::met, std::move(why), true));
}

void far_thing::conclude(far_wish& one, const void* key, wish_state state, bool is_told) noexcept {
  bool has_room = false;
  {
    const std::lock_guard lock(mutex_);
    if (one.is_leaving) {  // its item is being written: who does that concludes it
      one.end = {state, is_told};
      return;
    }
    open_.erase(key);
    has_room = count_no_more(one);
    one.was_withdrawn = state == wish_state::open;
    if (is_told) {
      exec::waiter* const whom = one.whom();
      whom->fire(whom);
    }
  }
  one.answered.signal();
  if (has_room) send_held_soon();
}

// Waits for the answer, since that may be under way: afterwards nobody touches the wish.
bool far_thing::take_back(const void* key) noexcept {
  far_wish_ptr one;
  bool has_left = true;
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(key);
    if (found == open_.end()) return false;
    one = found->second;
    if (std::erase(held_, one) > 0) {
      open_.erase(found);
      return true;
    }
    has_left = !one->is_leaving && !one->is_filling;
    one->is_unwanted = true;
  }
  if (has_left) tell(thing_op::withdraw, one->number, nullptr);
  try {
    worker_questions::wait(one->answered);
  } catch (...) {
    std::terminate();  // the wish may go while it is used
  }
  return one->was_withdrawn;
}

// ---- sends that wait here until they may leave

worker_questions::writer far_thing::send_of(const far_wish_ptr& one) {
  return [this, one](workbench& on, const base::id& request) {
    write_asked(on, request, thing_op::send, 0, [&] { items_->write(one->want->value, on.out); });
    count(*one, on.writer.size_bytes());
  };
}

worker_questions::writer far_thing::question_of(const far_wish_ptr& one) {
  if (one->wants_room) return question(thing_op::keep_room, 0, nullptr);
  return one->want->is_send ? send_of(one) : question(thing_op::receive, 0, nullptr);
}

// False: it may leave now; what has no item only waits for those that are held. While some are
// held one is under way, whose end lets the next one go.
bool far_thing::holds_back(const far_wish_ptr& one) {
  if (in_.node_ == 0) return false;
  check_may_wait();
  const std::lock_guard lock(mutex_);
  if (!has_to_wait(!one->wants_room)) return false;
  held_.push_back(one);
  try {
    open_[one->want] = one;
  } catch (...) {
    held_.pop_back();
    throw;
  }
  return true;
}

bool far_thing::hold_back(const std::shared_ptr<held_send>& one, bool has_item) {
  const std::lock_guard lock(mutex_);
  if (!has_to_wait(has_item)) return false;
  held_.push_back(one);
  return true;
}

bool far_thing::forget_held(const std::shared_ptr<held_send>& one) noexcept {
  const std::lock_guard lock(mutex_);
  // From the end: those of a worker that has ended are about the last ones, the newest first.
  const auto found = std::find(held_.rbegin(), held_.rend(), one);
  if (found == held_.rend()) return false;
  held_.erase(std::next(found).base());
  return true;
}

void far_thing::conclude_send(held_send& one) noexcept {
  bool has_room = false;
  {
    const std::lock_guard lock(mutex_);
    has_room = count_no_more(one);
  }
  if (has_room) send_held_soon();
}

// The mutex is held.
bool far_thing::has_to_wait(bool has_item) const noexcept {
  const bool is_full = has_item && asked_bytes_ >= most_asked_bytes;
  return is_full || !held_.empty() || leaving_ > 0;
}

// Not of one whose node is found lost while it is written.
void far_thing::count(held_send& one, std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  if (one.is_concluded) return;
  one.bytes = bytes;
  asked_bytes_ += bytes;
}

// Whether others may leave, and nobody sees to it yet: who lets one leave looks again after it. The
// mutex is held.
bool far_thing::count_no_more(held_send& one) noexcept {
  asked_bytes_ -= std::exchange(one.bytes, 0);
  one.is_concluded = true;
  return leaving_ == 0 && !held_.empty() && asked_bytes_ < most_asked_bytes;
}

void far_thing::send_held_soon() noexcept {
  do_aside_surely(in_.node_, [self = shared_from_this()]() noexcept { self->send_held(); });
}

void far_thing::send_held() noexcept {
  for (std::uint32_t mine = 0;; mine = 1) {
    std::shared_ptr<held_send> one;
    {
      const std::lock_guard lock(mutex_);
      leaving_ -= mine;  // who comes now goes behind it
      if (held_.empty() || asked_bytes_ >= most_asked_bytes) return;
      one = std::move(held_.front());
      held_.pop_front();
      ++leaving_;
      one->is_leaving = true;
    }
    one->leave_now(*this, one);
  }
}

void far_wish::leave_now(far_thing& of, const std::shared_ptr<held_send>& self) noexcept {
  of.send_one_held(std::static_pointer_cast<far_wish>(self));
}

// Who waits does so until it is concluded, which it is not while it is written.
void far_thing::send_one_held(const far_wish_ptr& one) noexcept {
  exec::wish& w = *one->want;
  std::exception_ptr why;
  try {
    leave(one, &w, question_of(one));
  } catch (...) {
    why = std::current_exception();
  }
  std::optional<far_wish::conclusion> end;
  bool is_unwanted = false;
  {
    const std::lock_guard lock(mutex_);
    one->is_leaving = false;
    end = one->end;
    is_unwanted = one->is_unwanted;
  }
  if (why != nullptr) {
    end = {wish_state::met, note_item(w, wish_state::met, std::move(why), false)};
  }
  if (end.has_value()) {
    conclude(*one, &w, end->state, end->is_told);
  } else if (is_unwanted) {
    tell(thing_op::withdraw, one->number, nullptr);
  }
}

}  // namespace manta::inline v0::node
