// SPDX-License-Identifier: Apache-2.0
#include "node/far_things.hpp"

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include <manta/codec/errors.hpp>
#include <manta/exec/parker.hpp>

#include "node/actor_names.hpp"
#include "node/far_handles.hpp"
#include "node/far_ids.hpp"
#include "node/far_thing.hpp"
#include "node/large_ranges.hpp"
#include "node/node_things.hpp"
#include "node/trade.hpp"
#include "node/trip.hpp"
#include "node/worker_facts.hpp"
#include "node/worker_things.hpp"
#include "wire/error_record.hpp"

namespace manta::inline v0::node {

namespace {

using exec::wish_state;

std::atomic<far_things*> things_here{nullptr};

}  // namespace

void far_thing::write_asked(workbench& on, const base::id& request, thing_op op,
                            std::uint64_t value, const std::function<void()>& item) const {
  on.write_for(in_.node_);
  on.out.clear();
  codec::write(on.out, thing_question{id_.high, id_.low, static_cast<std::uint8_t>(op), value});
  item();
  on.out.finish();
  write_question(on, request, wire::question::thing, "an item of a channel");
}

// `sent`: a T, null: no item goes with it.
worker_questions::writer far_thing::question(thing_op op, std::uint64_t value,
                                             const void* sent) const {
  return [this, op, value, sent](workbench& on, const base::id& request) {
    write_asked(on, request, op, value, [&] {
      if (sent != nullptr) items_->write(sent, on.out);
    });
  };
}

// Those threads bring what would be waited for. A user's function is called there for an item that
// is read or written, and for one that goes.
void far_thing::check_may_wait() const {
  if (in_.node_ == 0 || (!trade::is_own_thread() && !facts_line::is_of_things_here())) return;
  raise(errc::unsupported,
        "a channel, semaphore or barrier of another node can't be used while a value is read, "
        "written or destroyed by the engine; use it in a task");
}

// Throws what the node says. `box`: none, where no item can come.
thing_answer far_thing::read(const wire::result_view& came, const box_of& box) const {
  if (const auto* const failure = std::get_if<wire::error_view>(&came.outcome)) {
    wire::to_error(*failure).raise();
  }
  const auto* const value = std::get_if<spec::parcel_view>(&came.outcome);
  if (value == nullptr) raise(errc::decode_failed, "an answer came that is no value");
  const opened_parcel opened(*value);
  codec::in_archive in(opened.view());
  const auto said = codec::read<thing_answer>(in);
  if (said.state > static_cast<std::uint8_t>(wish_state::closed)) {
    raise(errc::decode_failed, "an answer about a channel that is none");
  }
  const bool is_met = said.state == static_cast<std::uint8_t>(wish_state::met);
  if (box && is_met) items_->read(box(), in);
  in.finish();
  return said;
}

thing_answer far_thing::ask_number(thing_op op, std::uint64_t value) {
  struct waiting {
    exec::parker nap;
    thing_answer got;
    std::exception_ptr why;
  };
  check_may_wait();
  const auto until = std::make_shared<waiting>();
  in_.asks_.begin(question(op, value, nullptr), [this, until](const wire::result_view& came) {
    try {
      until->got = read(came, nullptr);
    } catch (...) {
      until->why = std::current_exception();
    }
    until->nap.signal();
  });
  worker_questions::wait(until->nap);
  // Who waits is the last to hold it.
  if (until->why) std::rethrow_exception(std::exchange(until->why, nullptr));
  return until->got;
}

// Nothing is answered.
void far_thing::tell(thing_op op, std::uint64_t value, const void* box) noexcept {
  try {
    in_.asks_.tell([&](workbench& on, const base::id& request) {
      write_asked(on, request, op, value, [&] {
        if (box != nullptr) items_->write_box(box, on.out);
      });
    });
  } catch (...) {
    // Without memory the item stays here.
  }
}

wish_state far_thing::attempt(const exec::wish& w) {
  struct waiting {
    exec::parker nap;
    thing_answer got;
    std::exception_ptr why;
  };
  if (items_ == nullptr) raise(errc::unsupported, "items of that channel can't travel");
  check_may_wait();
  const auto until = std::make_shared<waiting>();
  const box_of into = w.is_send ? box_of() : [to = w.value] { return to; };
  in_.asks_.begin(question(w.is_send ? thing_op::try_send : thing_op::try_receive, 0,
                           w.is_send ? w.value : nullptr),
                  [this, until, into](const wire::result_view& came) {
                    try {
                      until->got = read(came, into);
                    } catch (...) {
                      until->why = std::current_exception();
                    }
                    until->nap.signal();
                  });
  worker_questions::wait(until->nap);
  // Who waits is the last to hold it.
  if (until->why) std::rethrow_exception(std::exchange(until->why, nullptr));
  return static_cast<wish_state>(until->got.state);
}

void far_thing::restore(void* box) noexcept { tell(thing_op::restore, 0, box); }

void far_thing::pass_on(thing_op op, std::uint64_t value, const void* box,
                        worker_questions::taker then, std::uint64_t* number, held_send* counts) {
  in_.asks_.begin(
      [&](workbench& on, const base::id& request) {
        write_asked(on, request, op, value, [&] {
          if (box != nullptr) items_->write_box(box, on.out);
        });
        if (counts != nullptr) count(*counts, on.writer.size_bytes());
      },
      std::move(then), number);
}

void far_thing::release_now(std::uint64_t count) noexcept {
  const node_things::in_haste waits_for_nothing;
  tell(thing_op::release, count, nullptr);
}

// ---- all of them

far_thing* far_of(const shared_thing& of) noexcept {
  if (of.kind == spec::reference_kind::barrier) {
    return static_cast<far_thing*>(static_cast<exec::barrier_core*>(of.core)->stands_for());
  }
  if (of.kind == spec::reference_kind::semaphore) {
    return static_cast<far_thing*>(static_cast<exec::semaphore_core*>(of.core)->stands_for());
  }
  return static_cast<far_thing*>(static_cast<exec::channel_core*>(of.core)->stands_for());
}

base::id id_of_far(const shared_thing& of) noexcept {
  const far_thing* const far = far_of(of);
  return far != nullptr ? far->id() : base::id{};
}

std::uint64_t node_of_far(const shared_thing& of) noexcept {
  const far_thing* const far = far_of(of);
  return far != nullptr ? far->node() : 0;
}

far_things* far_things::here() noexcept { return things_here.load(std::memory_order_acquire); }

far_things::far_things(worker_questions& asks,
                       void (*give_back)(void*, const base::id&, std::uint32_t) noexcept,
                       void* to) noexcept
    : asks_(asks), give_back_(give_back), to_(to) {
  things_here.store(this, std::memory_order_release);
}

std::shared_ptr<void> far_things::borrow(const spec::reference& came, const item_ops* items,
                                         std::uint64_t size, make_mirror make) {
  std::shared_ptr<void> living;  // ends without the lock
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_id_.find(came.what);
    if (found != by_id_.end()) living = found->second.owner.lock();
    if (living != nullptr) {
      if (arrived_handles::take(came.what)) found->second.link->times_came.fetch_add(1);
      return living;
    }
  }
  if (!arrived_handles::take(came.what)) return nullptr;
  const auto link = std::make_shared<far_thing>(*this, came.what, came.type, items, node_link{});
  std::shared_ptr<void> made = make(link, size);
  const std::lock_guard lock(mutex_);
  by_id_[came.what] = {made, link.get()};
  return made;
}

// Two threads may both make one: each counts.
std::shared_ptr<void> far_things::view(const spec::reference& came, const item_ops* items,
                                       std::uint64_t size, make_mirror make, node_link by) {
  std::shared_ptr<void> living;  // ends without the lock
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_id_.find(came.what);
    if (found != by_id_.end()) living = found->second.owner.lock();
    if (living != nullptr) return found->second.link->type() == came.type ? living : nullptr;
  }
  const auto link = std::make_shared<far_thing>(*this, came.what, came.type, items, std::move(by));
  std::shared_ptr<void> made = make(link, size);
  const std::lock_guard lock(mutex_);
  by_id_[came.what] = {made, link.get()};
  return made;
}

std::shared_ptr<void> borrow_thing(const spec::reference& came, const item_ops* items,
                                   std::uint64_t size, make_mirror make) {
  if (is_far_thing_id(came.what)) return node_things::global().borrow(came, items, size, make);
  if (far_things* const all = far_things::here()) return all->borrow(came, items, size, make);
  const std::optional<shared_thing> known = shared_names::global().find(came.what);
  if (!known || known->kind != came.kind || known->type != came.type) return nullptr;
  return known->owner;
}

}  // namespace manta::inline v0::node
