// SPDX-License-Identifier: Apache-2.0
#include "node/thing_relay.hpp"

#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>

#include "node/aside.hpp"
#include "node/facts_line.hpp"
#include "node/far_thing.hpp"
#include "node/node_things.hpp"

namespace manta::inline v0::node {

namespace {

using exec::wish_state;

bool is_met(const thing_answer& said) noexcept {
  return said.state == static_cast<std::uint8_t>(wish_state::met);
}
bool brings_item(thing_op op) noexcept {
  return op == thing_op::receive || op == thing_op::try_receive;
}
bool takes_item(thing_op op) noexcept {
  return op == thing_op::send || op == thing_op::try_send || op == thing_op::restore ||
         op == thing_op::fill_room;
}
bool takes_permits(thing_op op) noexcept {
  return op == thing_op::acquire || op == thing_op::try_acquire;
}

// Whether a thing of that kind is asked that.
bool makes_sense(const shared_thing& of, thing_op op, std::uint64_t value) noexcept {
  if (of.kind == spec::reference_kind::barrier) return op == thing_op::arrive;
  if (of.kind == spec::reference_kind::semaphore) {
    const std::size_t total = static_cast<exec::semaphore_core*>(of.core)->total();
    return op == thing_op::available || (takes_permits(op) && value > 0 && value <= total);
  }
  return of.items != nullptr && (takes_item(op) || brings_item(op) || op == thing_op::close ||
                                 op == thing_op::look || op == thing_op::keep_room);
}

error too_many_passed(std::size_t open) {
  return {errc::store_full,
          fmt::format("an isolated worker waits for {} sends, receives, permits and barriers of "
                      "other nodes, which is the most; let some of them end first",
                      open)};
}

}  // namespace

/// One question that goes on.
struct thing_relay::passed final : held_send {
  passed(std::shared_ptr<thing_relay> asks, std::uint64_t under, const shared_thing& thing,
         thing_op what, std::uint64_t with)
      : by(std::move(asks)), number(under), at(thing), to(far_of(thing)), op(what), value(with) {}
  ~passed() override {
    if (box != nullptr) at.items->drop_box(box);
  }
  void leave_now(far_thing& /*of*/, const std::shared_ptr<held_send>& self) noexcept override {
    by->go(std::static_pointer_cast<passed>(self), value);
  }
  const std::shared_ptr<thing_relay> by;
  const std::uint64_t number;  // the worker's
  const shared_thing at;
  far_thing* const to;
  const thing_op op;
  const std::uint64_t value;
  passed_ptr about;         // whose number goes with it, once that has one
  void* box = nullptr;      // an item, which goes with it or came
  std::uint64_t asked = 0;  // this node's number; 0: it has none yet. The home's line, and after it
  bool has_left = false;    // so it has one, which does not change; the lock's
  bool has_room = false;    // kept for it at the home; the lock's
  bool is_filled = false;   // or about to be, that room; the lock's
  std::optional<error> why;
  thing_answer said;
};

void thing_relay::ask(std::uint64_t number, const shared_thing& of, const thing_question& asked,
                      codec::in_archive& in) {
  const auto op = static_cast<thing_op>(asked.op);
  if (op == thing_op::withdraw) {
    // One that is not known has been answered.
    const passed_ptr one = found(asked.value);
    if (one != nullptr && !forget_held(one)) tell_of(one, op);
    return;
  }
  if (op == thing_op::release && of.kind == spec::reference_kind::semaphore) {
    return release(of, asked.value);
  }
  if (op == thing_op::free_room && of.kind == spec::reference_kind::channel) {
    const passed_ptr kept = room_of(of, asked.value);
    if (kept != nullptr && unlist(*kept)) tell_of(kept, op);
    return;
  }
  if (!makes_sense(of, op, asked.value)) {
    raise(errc::decode_failed, "a question about a thing of another node that is none");
  }
  pass(std::make_shared<passed>(shared_from_this(), number, of, op, asked.value), in);
}

void thing_relay::pass(const passed_ptr& one, codec::in_archive& in) {
  if (takes_item(one->op)) {
    try {
      one->box = one->at.items->make_box();
      one->at.items->read(one->box, in);
    } catch (...) {
      if (one->op == thing_op::restore) throw;
      return refuse_(one->number, describe_current_exception("an item for a channel"));
    }
  }
  if (one->op == thing_op::fill_room) {
    one->about = room_to_fill(one->at, one->value);
    if (one->about == nullptr) {
      return refuse_(one->number, {errc::node_lost, "no room is kept for that item"});
    }
  }
  if (one->op == thing_op::restore || list(one)) leave_soon(one);
}

// False: it was told why not, or the worker is gone.
bool thing_relay::list(const passed_ptr& one) {
  std::size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return false;
    count = open_.size();
    // What fills room ends two of them.
    if (count < worker_things::most_open || one->op == thing_op::fill_room) {
      if (!open_.add(one)) {
        raise(errc::decode_failed, "two questions of one number");
      }
      return true;
    }
  }
  refuse_(one->number, too_many_passed(count));
  return false;
}

thing_relay::passed_ptr thing_relay::found(std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  return open_.find(number);
}

// Null: none is kept for it there.
thing_relay::passed_ptr thing_relay::room_of(const shared_thing& of,
                                             std::uint64_t number) noexcept {
  passed_ptr out;  // ends without the lock
  const std::lock_guard lock(mutex_);
  out = open_.find(number);
  return out != nullptr && out->has_room && out->at.core == of.core ? out : nullptr;
}

// The same, for the first that fills it.
thing_relay::passed_ptr thing_relay::room_to_fill(const shared_thing& of,
                                                  std::uint64_t number) noexcept {
  passed_ptr kept = room_of(of, number);
  if (kept == nullptr) return nullptr;
  const std::lock_guard lock(mutex_);
  return std::exchange(kept->is_filled, true) ? nullptr : kept;
}

// What has no answer of its own. Room that others wait for is freed at once.
void thing_relay::tell_of(const passed_ptr& which, thing_op op) noexcept {
  bool goes_now = false;
  {
    const std::lock_guard lock(mutex_);
    goes_now = which->has_left && op == thing_op::free_room;
  }
  if (goes_now) {
    const node_things::in_haste waits_for_nothing;
    return which->to->pass_told(op, which->asked, nullptr);
  }
  try {
    auto one = std::make_shared<passed>(shared_from_this(), 0, which->at, op, 0);
    one->about = which;
    leave_soon(std::move(one));
  } catch (...) {
    return;  // no memory: it goes with the end of this node
  }
}

void thing_relay::leave_soon(passed_ptr one) noexcept {
  const std::uint64_t home = one->to->home();
  do_aside_surely(home, [held = std::move(one)]() noexcept { held->by->leave(held); });
}

void thing_relay::leave(const passed_ptr& one) noexcept {
  std::uint64_t value = one->value;
  if (one->about != nullptr) {
    value = one->about->asked;
    if (value == 0) {  // that has not left
      static_cast<void>(forget_held(one->about));
      return;
    }
  }
  if (one->op == thing_op::restore || one->number == 0) {
    return one->to->pass_told(one->op, value, one->box);
  }
  if (!is_listed(*one)) return;  // the worker is gone, and nothing of it is to be held
  try {
    if (is_held(one)) return;
  } catch (...) {
    one->why = describe_current_exception("a question to another node");
    return finish(one);
  }
  go(one, value);
}

// Until those that have left for its channel are fewer. One that wants room waits only behind
// others, though for bytes, too, once it is the first: its channel is full then.
bool thing_relay::is_held(const passed_ptr& one) {
  const bool is_send = one->op == thing_op::send;
  if (!is_send && one->op != thing_op::keep_room) return false;
  return one->to->hold_back(one, is_send);
}

// It is taken back, and ends here and now: its home does not know it, and what stands in the line
// of that home may wait for it. False: it has left, or its turn in that line has not come.
bool thing_relay::forget_held(const passed_ptr& one) noexcept {
  if (!one->to->forget_held(one)) return false;
  if (unlist(*one)) say(*one);
  return true;
}

void thing_relay::go(const passed_ptr& one, std::uint64_t value) noexcept {
  if (!is_listed(*one)) return;  // the worker is gone
  const bool is_send = one->op == thing_op::send;
  try {
    one->to->pass_on(
        one->op, value, takes_item(one->op) ? one->box : nullptr,
        [one](const wire::result_view& came) { one->by->answered(one, came); }, &one->asked,
        is_send ? one.get() : nullptr);
    const std::lock_guard lock(mutex_);
    one->has_left = true;
  } catch (...) {
    if (is_send) one->to->conclude_send(*one);
    one->why = describe_current_exception("a question to another node");
    finish(one);
  }
}

// By the looker. What is the user's is written for the worker by the facts' thread.
void thing_relay::answered(const passed_ptr& one, const wire::result_view& came) noexcept {
  if (one->op == thing_op::send) one->to->conclude_send(*one);
  try {
    const auto box = [&] { return one->box = one->at.items->make_box(); };
    one->said = one->to->read(
        came, brings_item(one->op) ? far_thing::box_of(std::ref(box)) : far_thing::box_of());
  } catch (...) {
    one->why = describe_current_exception("an answer of another node");
  }
  const bool has_item = !one->why.has_value() && brings_item(one->op) && is_met(one->said);
  if (!has_item || !is_listed(*one)) return finish(one);
  try {
    facts_line::global().add([one] { one->by->finish(one); });
  } catch (...) {
    finish(one);  // no memory, no thread
  }
}

void thing_relay::finish(const passed_ptr& one) noexcept {
  const bool has_happened = !one->why.has_value() && is_met(one->said);
  const bool has_room = has_happened && one->op == thing_op::keep_room;
  bool is_known = false;
  {
    const std::lock_guard lock(mutex_);
    is_known = has_room ? open_.has(*one) : open_.take(*one);
    if (is_known) one->has_room = has_room;
  }
  if (one->why.has_value()) {
    // The home may have it still, when it has been given up from here.
    if (one->op == thing_op::keep_room) tell_of(one, thing_op::free_room);
    if (is_known) refuse_(one->number, *one->why);
    return;
  }
  if (has_happened && one->op == thing_op::fill_room) static_cast<void>(unlist(*one->about));
  try {
    if (is_known && has_happened && takes_permits(one->op)) permits_.note(one->at, one->value);
  } catch (...) {
    std::terminate();  // permits that nobody would ever give back
  }
  if (is_known && say(*one)) return;
  if (!has_happened) return;
  if (has_room && is_known && !unlist(*one)) return;  // `end` has it
  if (takes_permits(one->op) && is_known && !permits_.forget(one->at, one->value)) return;
  take_back(one);
}

bool thing_relay::is_listed(const passed& one) noexcept {
  const std::lock_guard lock(mutex_);
  return open_.has(one);
}

// False: it is not known any more. Who asks keeps it.
bool thing_relay::unlist(const passed& one) noexcept {
  const std::lock_guard lock(mutex_);
  return open_.take(one);
}

bool thing_relay::say(const passed& one) noexcept {
  const auto write = [&](workbench& on) {
    codec::write(on.out, one.said);
    if (brings_item(one.op) && is_met(one.said)) one.at.items->write_box(one.box, on.out);
  };
  return tell_(one.number, write, false) == worker_things::told::yes;
}

// What has happened for who does not hear of it any more.
void thing_relay::take_back(const passed_ptr& one) noexcept {
  if (one->op == thing_op::keep_room) return tell_of(one, thing_op::free_room);
  if (takes_permits(one->op)) return one->to->release_now(one->value);
  if (!brings_item(one->op)) return;
  try {
    auto back =
        std::make_shared<passed>(shared_from_this(), one->number, one->at, thing_op::restore, 0);
    back->box = std::exchange(one->box, nullptr);
    leave_soon(std::move(back));
  } catch (...) {
    return;  // no memory: it is lost with who was to have it
  }
}

void thing_relay::release(const shared_thing& of, std::uint64_t count) {
  permits_.give_back(of, count);
  far_of(of)->release_now(count);
}

void thing_relay::end() noexcept {
  open_wishes<passed>::list waiting;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    waiting = open_.take_all();
  }
  // What has left is taken back at once: before anything that this node asks as it hears of the
  // end. What may be leaving just now is behind that.
  for (const auto& [number, one] : waiting) {
    const thing_op op = one->has_room ? thing_op::free_room : thing_op::withdraw;
    bool has_left = false;
    {
      const std::lock_guard lock(mutex_);
      has_left = one->has_left;
    }
    if (!has_left) {
      if (!forget_held(one)) tell_of(one, op);
      continue;
    }
    const node_things::in_haste waits_for_nothing;
    one->to->pass_told(op, one->asked, nullptr);
  }
  for (const auto& [core, all] : permits_.take_all()) far_of(all.of)->release_now(all.count);
}

}  // namespace manta::inline v0::node
