// SPDX-License-Identifier: Apache-2.0
#include "node/worker_things.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>
#include <manta/exec/barrier_core.hpp>
#include <manta/exec/channel_core.hpp>
#include <manta/exec/semaphore_core.hpp>

#include "node/far_things.hpp"
#include "node/thing_relay.hpp"
#include "node/worker_facts.hpp"

namespace manta::inline v0::node {

namespace {

using exec::wish_state;

exec::channel_core& channel_of(const shared_thing& of) {
  return *static_cast<exec::channel_core*>(of.core);
}
exec::semaphore_core& semaphore_of(const shared_thing& of) {
  return *static_cast<exec::semaphore_core*>(of.core);
}
exec::barrier_core& barrier_of(const shared_thing& of) {
  return *static_cast<exec::barrier_core*>(of.core);
}

error too_many(std::size_t open) {
  return {errc::store_full,
          fmt::format("another process waits for {} sends, receives, permits and barriers of this "
                      "node's, which is the most; let some of them end first",
                      open)};
}

error no_such_wish() {
  return {errc::cancelled,
          "cancelled: nothing of that number waits at the node of the channel, "
          "semaphore or barrier"};
}

// Counts what was met, in its order: a wish that waited under its thing's lock; one that did not by
// the thread that lists them, so that nothing was met for another one of them meanwhile.
constinit std::atomic<std::uint64_t> takes{0};

}  // namespace

// A wish of the worker, a request for permits, or an arrival. Whoever meets it does so under the
// thing's lock, so it is answered by the thread of the line.
struct worker_things::open_wish : exec::waiter, std::enable_shared_from_this<open_wish> {
  open_wish(worker_things& in, std::uint64_t asked, const shared_thing& thing)
      : of(in.shared_from_this()), number(asked), at(thing) {
    group.tell = this;
    want.group = &group;
    request.tell = this;
    party.tell = this;
    fire = [](exec::waiter* w) noexcept {
      auto* const self = static_cast<open_wish*>(w);
      self->taken = ++takes;
      if (self->at.kind != spec::reference_kind::channel) self->want.state = wish_state::met;
      try {
        self->of->line_.add([one = self->shared_from_this()] { one->of->finish(*one); });
      } catch (...) {
        std::terminate();  // there is no memory to go on with: nobody would be told
      }
    };
  }
  ~open_wish() {
    if (box != nullptr) at.items->drop_box(box);
  }
  const std::shared_ptr<worker_things> of;
  const std::uint64_t number;
  const shared_thing at;
  exec::wish want;
  exec::wish_group group;
  void* box = nullptr;
  std::uint64_t taken = 0;  // of an item: which one of all that were, if it was
  std::shared_ptr<const void> kept;
  bool has_room = false;  // it was told so; guarded by the mutex of `of`
  exec::permit_request request;
  exec::barrier_party party;

  bool wants_room() const noexcept { return want.is_send && want.move == nullptr; }
  // False: it is met, or about to be.
  bool withdraw() noexcept {
    switch (at.kind) {
      case spec::reference_kind::semaphore:
        return semaphore_of(at).withdraw(request);
      case spec::reference_kind::barrier:
        return barrier_of(at).withdraw(party);
      default:
        return channel_of(at).withdraw(want);
    }
  }
};

void worker_things::ask(std::uint64_t number, const shared_thing& of, const thing_question& asked,
                        codec::in_archive& in, std::shared_ptr<const void> kept) {
  if (asked.op > static_cast<std::uint8_t>(thing_op::free_room)) {
    raise(errc::decode_failed, "a question that is none");
  }
  if (id_of_far(of) != base::id{}) {
    if (const auto by = relay()) by->ask(number, of, asked, in);
    return;
  }
  const auto what = static_cast<thing_op>(asked.op);
  if (what == thing_op::withdraw) return withdraw(asked.value);
  if (of.kind == spec::reference_kind::semaphore) return ask_semaphore(number, of, asked);
  if (of.kind == spec::reference_kind::barrier) {
    if (what == thing_op::arrive) return arrive(number, of);
    raise(errc::decode_failed, "a question about a barrier that is none");
  }
  if (of.items == nullptr) raise(errc::decode_failed, "a channel whose items can't travel");
  switch (what) {
    case thing_op::try_send:
    case thing_op::send: {
      const auto one = std::make_shared<open_wish>(*this, number, of);
      one->kept = std::move(kept);
      return send(one, what == thing_op::send, in);
    }
    case thing_op::try_receive:
    case thing_op::receive:
      return receive(number, of, what == thing_op::receive);
    case thing_op::restore:
      return restore(of, in);
    case thing_op::keep_room:
      return keep_room(number, of);
    case thing_op::fill_room:
      return fill_room(number, of, asked.value, in);
    case thing_op::free_room:
      return free_room(of, asked.value);
    case thing_op::close:
      return say(number, {.value = channel_of(of).close() ? 1U : 0U});
    case thing_op::look:
      return say(number, {.state = static_cast<std::uint8_t>(channel_of(of).is_closed()),
                          .value = channel_of(of).size()});
    default:
      raise(errc::decode_failed, "a question about a channel that is none");
  }
}

// Null: the worker is gone.
std::shared_ptr<thing_relay> worker_things::relay() {
  const std::lock_guard lock(mutex_);
  if (is_over_) return nullptr;
  if (relay_ == nullptr) relay_ = std::make_shared<thing_relay>(tell_, refuse_);
  return relay_;
}

bool worker_things::is_waiting() noexcept {
  const std::lock_guard lock(mutex_);
  return !open_.is_empty() || (relay_ != nullptr && relay_->is_waiting());
}

void worker_things::ask_semaphore(std::uint64_t number, const shared_thing& of,
                                  const thing_question& asked) {
  exec::semaphore_core& core = semaphore_of(of);
  switch (static_cast<thing_op>(asked.op)) {
    case thing_op::try_acquire:
    case thing_op::acquire:
      if (asked.value == 0 || asked.value > core.total()) break;
      return acquire(number, of, asked.value,
                     asked.op == static_cast<std::uint8_t>(thing_op::acquire));
    case thing_op::release:
      return release(of, asked.value);
    case thing_op::available:
      return say(number, {.value = core.available()});
    default:
      break;
  }
  raise(errc::decode_failed, "a question about a semaphore that is none");
}

void worker_things::say(std::uint64_t number, const thing_answer& what) noexcept {
  tell_(
      number, [&](workbench& on) { codec::write(on.out, what); }, false);
}

// Before it can be met. False: it was told why not, or the worker is gone.
bool worker_things::list(const std::shared_ptr<open_wish>& one) {
  std::size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return false;
    count = open_.size();
    if (count < most_open && !open_.add(one)) {
      raise(errc::decode_failed, "two questions of one number");
    }
  }
  if (count < most_open) return true;
  refuse_(one->number, too_many(count));
  return false;
}

bool worker_things::is_listed(const open_wish& one) noexcept {
  const std::lock_guard lock(mutex_);
  return open_.has(one);
}

// False: the worker is gone. Who asks keeps it.
bool worker_things::unlist(const open_wish& one) noexcept {
  const std::lock_guard lock(mutex_);
  return open_.take(one);
}

void worker_things::send(const std::shared_ptr<open_wish>& one, bool waits, codec::in_archive& in) {
  const item_ops& items = *one->at.items;
  one->box = items.make_box();
  try {
    items.read(one->box, in);
  } catch (...) {
    return refuse_(one->number, describe_current_exception("an item for a channel"));
  }
  one->want.is_send = true;
  one->want.move = items.put;
  one->want.value = one->box;
  wish_for(one, waits);
}

void worker_things::receive(std::uint64_t number, const shared_thing& of, bool waits) {
  const auto one = std::make_shared<open_wish>(*this, number, of);
  one->box = of.items->make_box();
  one->want.move = of.items->take;
  one->want.value = one->box;
  wish_for(one, waits);
}

void worker_things::wish_for(const std::shared_ptr<open_wish>& one, bool waits) {
  if (!list(one)) return;
  exec::channel_core& core = channel_of(one->at);
  if (waits) {
    if (!core.enlist(one->want)) return;
    one->taken = ++takes;
    return finish(*one);
  }
  try {
    one->want.state = core.attempt(one->want);
  } catch (...) {
    one->want.failure = std::current_exception();
    one->want.state = wish_state::met;
  }
  one->taken = ++takes;
  finish(*one);
}

// A send that is one of several cases elsewhere. Its item comes when it is known that it is to be
// sent.
void worker_things::keep_room(std::uint64_t number, const shared_thing& of) {
  const auto one = std::make_shared<open_wish>(*this, number, of);
  one->want.is_send = true;
  wish_for(one, true);
}

// It is known by its number until who asked says what becomes of it, or is gone.
void worker_things::finish_room(open_wish& one) noexcept {
  bool is_there = false;
  {
    const std::lock_guard lock(mutex_);
    is_there = open_.has(one);
    if (is_there) one.has_room = true;  // else who ended it may look at that now
  }
  if (!is_there) {
    refuse_late(one);
    return channel_of(one.at).free_room();
  }
  const auto write = [](workbench& on) {
    codec::write(on.out, thing_answer{static_cast<std::uint8_t>(wish_state::met), 0});
  };
  const told is = tell_(one.number, write, false);
  if (is == told::yes || !unlist(one)) return;
  channel_of(one.at).free_room();
  if (is == told::later) refuse_(one.number, {errc::store_full, "no room to say that there is"});
}

// Null: none is kept there, any more.
std::shared_ptr<worker_things::open_wish> worker_things::take_room(const shared_thing& of,
                                                                   std::uint64_t kept) noexcept {
  std::shared_ptr<open_wish> out;  // ends without the lock
  const std::lock_guard lock(mutex_);
  out = open_.find(kept);
  if (out == nullptr || !out->has_room || out->at.core != of.core) return nullptr;
  open_.take(*out);
  return out;
}

// One that is not known was never listed, or has been filled or freed. One that waits yet is of who
// has given this process up: nobody would hear that there is room. When that has been found and is
// not finished, it is known no more, so who finishes it frees it.
void worker_things::free_room(const shared_thing& of, std::uint64_t kept) noexcept {
  std::shared_ptr<open_wish> one;
  {
    const std::lock_guard lock(mutex_);
    one = open_.find(kept);
    if (one == nullptr || one->at.core != of.core || !one->wants_room()) return;
    open_.take(*one);
  }
  if (one->has_room) {
    channel_of(of).free_room();
  } else {
    one->withdraw();
  }
}

void worker_things::fill_room(std::uint64_t number, const shared_thing& of, std::uint64_t kept,
                              codec::in_archive& in) {
  const std::shared_ptr<open_wish> one = take_room(of, kept);
  if (one == nullptr) {
    const error why{errc::node_lost, "no room is kept for that item: who sends it was given up"};
    return refuse_(number, why);
  }
  bool is_read = false;
  try {
    one->box = of.items->make_box();
    of.items->read(one->box, in);
    is_read = true;
    channel_of(of).fill_room(of.items->put, one->box);
  } catch (...) {
    if (!is_read) channel_of(of).free_room();
    return refuse_(number, describe_current_exception("an item for a channel"));
  }
  say(number, {static_cast<std::uint8_t>(wish_state::met), 0});
}

void worker_things::acquire(std::uint64_t number, const shared_thing& of, std::uint64_t count,
                            bool waits) {
  const auto one = std::make_shared<open_wish>(*this, number, of);
  one->request.count = static_cast<std::size_t>(count);
  if (!list(one)) return;
  exec::semaphore_core& core = semaphore_of(of);
  const bool is_met = waits ? core.enlist(one->request) : core.attempt(one->request.count);
  if (is_met) {
    one->want.state = wish_state::met;
  } else if (waits) {
    return;
  }
  finish(*one);
}

void worker_things::arrive(std::uint64_t number, const shared_thing& of) {
  const auto one = std::make_shared<open_wish>(*this, number, of);
  if (!list(one) || !barrier_of(of).enlist(one->party)) return;
  one->want.state = wish_state::met;
  finish(*one);
}

// It was met, or found closed, or was not to wait. What the worker does not get is put back.
void worker_things::finish(open_wish& one, bool may_wait) noexcept {
  if (one.wants_room() && one.want.state == wish_state::met) return finish_room(one);
  // One that waits to be told is known meanwhile: who takes it back is answered by it.
  const bool is_there = may_wait ? is_listed(one) : unlist(one);
  if (!is_there) refuse_late(one);
  switch (one.at.kind) {
    case spec::reference_kind::semaphore:
      return finish_permits(one, is_there);
    case spec::reference_kind::barrier:
      if (!is_there) return;
      return say(one.number, {static_cast<std::uint8_t>(wish_state::met),
                              2 * one.party.generation + (one.party.is_last ? 1 : 0)});
    default:
      finish_item(one, is_there, may_wait);
      if (may_wait) unlist(one);
  }
}

// It was met as all of them ended.
void worker_things::refuse_late(const open_wish& one) noexcept {
  std::optional<error> why;
  {
    const std::lock_guard lock(mutex_);
    why = why_over_;
  }
  if (why) refuse_(one.number, *why);
}

void worker_things::finish_permits(open_wish& one, bool is_there) noexcept {
  if (one.want.state != wish_state::met) return is_there ? say(one.number, {}) : void();
  try {
    if (is_there) permits_.note(one.at, one.request.count);
  } catch (...) {
    std::terminate();  // permits that nobody would ever give back
  }
  const auto write = [](workbench& on) {
    codec::write(on.out, thing_answer{static_cast<std::uint8_t>(wish_state::met), 0});
  };
  const bool has_them = is_there && tell_(one.number, write, false) == told::yes;
  const bool is_ours = !is_there || (!has_them && permits_.forget(one.at, one.request.count));
  if (is_ours) semaphore_of(one.at).release(one.request.count);
}

void worker_things::finish_item(open_wish& one, bool is_there, bool may_wait) noexcept {
  if (one.want.failure != nullptr) {
    try {
      std::rethrow_exception(one.want.failure);
    } catch (...) {
      if (is_there) refuse_(one.number, describe_current_exception("an item of a channel"));
    }
    return;
  }
  const bool has_item = !one.want.is_send && one.want.state == wish_state::met;
  const auto write = [&](workbench& on) {
    codec::write(on.out, thing_answer{static_cast<std::uint8_t>(one.want.state), 0});
    if (has_item) one.at.items->write_box(one.box, on.out);
  };
  const told is = is_there ? tell_(one.number, write, may_wait) : told::no;
  if (is == told::later) {
    if (waits_aside(one)) return;
    refuse_late(one);
  }
  if (has_item && is != told::yes) give_back(one);
}

// Others are told meanwhile. False: who asked is gone, or there was no memory for it, and that one
// is told so.
bool worker_things::waits_aside(open_wish& one) noexcept {
  try {
    std::shared_ptr<open_wish> held = one.shared_from_this();
    {
      const std::lock_guard lock(mutex_);
      if (is_over_ || !open_.add(held)) return false;
    }
    aside_([held] { held->of->finish(*held, true); });
    return true;
  } catch (...) {
    if (unlist(one)) refuse_(one.number, describe_current_exception("an item of a channel"));
    return false;
  }
}

// Items that were taken for who did not get them, of all who ask.
struct worker_things::returned {
  std::mutex mutex;
  std::vector<std::shared_ptr<open_wish>> all;
  static returned& here() {
    static auto* const made = new returned;  // late threads find it
    return *made;
  }
};

// Not at once: what was taken behind it may have to go back as well, which is known when all that
// was met by now is finished, here and aside. Each is put before the others, so the last one that
// was taken is the first.
void worker_things::give_back(open_wish& one) noexcept {
  try {
    returned& to = returned::here();
    const std::lock_guard lock(to.mutex);
    to.all.push_back(one.shared_from_this());
  } catch (...) {
    return channel_of(one.at).restore(one.at.items->put_front, one.box);  // no memory
  }
  try {
    if (!aside_) return line_.add([] { give_back_all(); });
    aside_([to = shared_from_this()] { to->line_.add([] { give_back_all(); }); });
  } catch (...) {
    give_back_all();
  }
}

void worker_things::give_back_all() noexcept {
  std::vector<std::shared_ptr<open_wish>> all;
  {
    returned& from = returned::here();
    const std::lock_guard lock(from.mutex);
    all.swap(from.all);
  }
  std::ranges::sort(all, [](const auto& a, const auto& b) { return a->taken > b->taken; });
  for (const auto& one : all) channel_of(one->at).restore(one->at.items->put_front, one->box);
}

void worker_things::restore(const shared_thing& of, codec::in_archive& in) {
  void* const box = of.items->make_box();
  try {
    of.items->read(box, in);
    channel_of(of).restore(of.items->put_front, box);
  } catch (...) {
    of.items->drop_box(box);
    raise(errc::decode_failed, "an item that was to go back into its channel");
  }
  of.items->drop_box(box);
}

// One that has been met is answered by that. Where this very thread finishes wishes, one that is
// not known has been answered, or was never heard; else it may be about to be.
void worker_things::withdraw(std::uint64_t number) {
  std::shared_ptr<open_wish> one;
  {
    const std::lock_guard lock(mutex_);
    one = open_.find(number);
  }
  if (one == nullptr) return line_.is_here() ? refuse_(number, no_such_wish()) : void();
  if (one->withdraw() && unlist(*one)) say(number, {});
}

void worker_things::release(const shared_thing& of, std::uint64_t count) {
  permits_.give_back(of, count);
  semaphore_of(of).release(static_cast<std::size_t>(count));
}

void worker_things::end(const error* why) noexcept {
  open_wishes<open_wish>::list waiting;
  std::shared_ptr<thing_relay> relay;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    relay = relay_;
    if (why != nullptr) why_over_ = *why;
    waiting = open_.take_all();
  }
  // What is met already is put back by who finishes it, but for room, which is finished.
  for (const auto& [number, one] : waiting) {
    if (one->withdraw() && why != nullptr) refuse_(number, *why);
    if (one->has_room) channel_of(one->at).free_room();
  }
  for (const auto& [core, all] : permits_.take_all()) semaphore_of(all.of).release(all.count);
  if (relay != nullptr) relay->end();
}

}  // namespace manta::inline v0::node
