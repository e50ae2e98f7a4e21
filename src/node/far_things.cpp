// SPDX-License-Identifier: Apache-2.0
#include "node/far_things.hpp"

#include <atomic>
#include <exception>
#include <functional>
#include <optional>
#include <utility>
#include <variant>

#include <manta/codec/errors.hpp>
#include <manta/exec/parker.hpp>

#include "node/actor_names.hpp"
#include "node/far_handles.hpp"
#include "node/far_ids.hpp"
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

// A wish that the node has: until it is answered, or was taken back.
struct far_wish {
  exec::parker answered;
  std::atomic<bool> was_withdrawn{false};
  std::uint64_t number = 0;
  exec::wish* want = nullptr;
  exec::permit_request* request = nullptr;
  exec::barrier_party* party = nullptr;

  exec::waiter* whom() const noexcept {
    if (want != nullptr) return want->group->tell;
    return request != nullptr ? request->tell : party->tell;
  }
};

}  // namespace

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

  wish_state attempt(const exec::wish& w) override;
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
           static_cast<std::uint8_t>(wish_state::met);
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
  std::atomic<std::uint32_t> times_came{1};  // times the node has sent it, which it has back then

 private:
  worker_questions::writer question(thing_op op, std::uint64_t value, const void* sent) const;
  void write_asked(workbench& on, const base::id& request, thing_op op, std::uint64_t value,
                   const std::function<void()>& item) const;
  void check_may_wait() const;
  thing_answer ask_number(thing_op op, std::uint64_t value);
  void tell(thing_op op, std::uint64_t value, const void* box) noexcept;
  thing_answer read(const wire::result_view& came, void* into) const;
  void answered(far_wish& one, const void* key, const wire::result_view& came) noexcept;
  bool note_item(exec::wish& w, wish_state state, std::exception_ptr why) noexcept;
  template <class Wish>
  bool enlist_far(Wish& w, Wish* far_wish::*as, thing_op op, std::uint64_t value) noexcept;
  void begin(const std::shared_ptr<far_wish>& one, const void* key,
             const worker_questions::writer& ask);
  bool take_back(const void* key) noexcept;

  far_things& in_;
  const base::id id_;
  const std::uint64_t type_;  // of the handle
  const item_ops* const items_;
  const std::shared_ptr<void> holds_;  // what in_ is a part of
  std::uint64_t run_ = 0;              // the runtime that counts it
  std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<far_wish>> open_;
};

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
  if (in_.node_ == 0 || (!trade::is_looker() && !facts_line::of_things().is_here())) return;
  raise(errc::unsupported,
        "a channel, semaphore or barrier of another node can't be used while a value is read, "
        "written or destroyed by the engine; use it in a task");
}

// Throws what the node says. `into`: the box for an item that was received.
thing_answer far_thing::read(const wire::result_view& came, void* into) const {
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
  if (into != nullptr && is_met) items_->read(into, in);
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
  if (until->why) std::rethrow_exception(until->why);
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
  void* const into = w.is_send ? nullptr : w.value;
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
  if (until->why) std::rethrow_exception(until->why);
  return static_cast<wish_state>(until->got.state);
}

// Its answer may come before this is over. Throws with nothing listed.
void far_thing::begin(const std::shared_ptr<far_wish>& one, const void* key,
                      const worker_questions::writer& ask) {
  check_may_wait();
  {
    const std::lock_guard lock(mutex_);
    open_[key] = one;
  }
  try {
    in_.asks_.begin(
        ask,
        [self = shared_from_this(), one, key](const wire::result_view& came) {
          self->answered(*one, key, came);
        },
        &one->number);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    open_.erase(key);
    throw;
  }
}

bool far_thing::enlist(exec::wish& w) noexcept {
  try {
    if (items_ == nullptr) raise(errc::unsupported, "items of that channel can't travel");
    if (w.is_send && w.group->open.load(std::memory_order_relaxed) > 1) {
      raise(errc::unsupported,
            "select: sending to a channel of another process can't be one of several cases yet; "
            "receive in the select, or send without it");
    }
    const auto one = std::make_shared<far_wish>();
    one->want = &w;
    begin(
        one, &w,
        question(w.is_send ? thing_op::send : thing_op::receive, 0, w.is_send ? w.value : nullptr));
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

// Whether its group is told, which has the only one to hold `why` then.
bool far_thing::note_item(exec::wish& w, wish_state state, std::exception_ptr why) noexcept {
  if (state == wish_state::closed) {
    w.state = state;
    return w.group->open.fetch_sub(1, std::memory_order_acq_rel) == 1 && w.group->claim();
  }
  if (state != wish_state::met) return false;
  const bool is_told = w.group->claim();
  const bool has_failed = why != nullptr;
  // Else another case of its select has happened, or that has been given up.
  if (!is_told && !w.is_send && !has_failed) tell(thing_op::restore, 0, w.value);
  if (is_told) w.failure = std::move(why);
  // What was sent was, also when that is too late: it waited alone.
  if (is_told || (w.is_send && !has_failed)) w.state = state;
  return is_told;
}

// By who found the answer in the ring. `key`: what it is listed by.
void far_thing::answered(far_wish& one, const void* key, const wire::result_view& came) noexcept {
  exec::wish* const w = one.want;
  std::exception_ptr why;
  thing_answer said{static_cast<std::uint8_t>(wish_state::met), 0};
  try {
    said = read(came, w != nullptr && !w->is_send ? w->value : nullptr);
  } catch (...) {
    why = std::current_exception();
  }
  const auto state = static_cast<wish_state>(said.state);
  bool is_told = state == wish_state::met;
  // Who is told holds the failure alone, and ends it.
  if (w != nullptr) {
    is_told = note_item(*w, state, std::move(why));
  } else if (is_told && one.request != nullptr) {
    one.request->failure = std::move(why);
  } else if (is_told && one.party != nullptr) {
    one.party->failure = std::move(why);
    one.party->generation = said.value / 2;
    one.party->is_last = said.value % 2 != 0;
  }
  {
    const std::lock_guard lock(mutex_);
    open_.erase(key);
    one.was_withdrawn = state == wish_state::open;
    exec::waiter* const whom = one.whom();
    if (is_told) whom->fire(whom);
  }
  one.answered.signal();
}

// Waits for the answer, since that may be under way: afterwards nobody touches the wish.
bool far_thing::take_back(const void* key) noexcept {
  std::shared_ptr<far_wish> one;
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(key);
    if (found == open_.end()) return false;
    one = found->second;
  }
  tell(thing_op::withdraw, one->number, nullptr);
  try {
    worker_questions::wait(one->answered);
  } catch (...) {
    std::terminate();  // the wish may go while it is used
  }
  return one->was_withdrawn;
}

void far_thing::restore(void* box) noexcept { tell(thing_op::restore, 0, box); }

// ---- all of them

namespace {

// Null: it lives here.
const far_thing* far_of(const shared_thing& of) noexcept {
  if (of.kind == spec::reference_kind::barrier) {
    return static_cast<far_thing*>(static_cast<exec::barrier_core*>(of.core)->stands_for());
  }
  if (of.kind == spec::reference_kind::semaphore) {
    return static_cast<far_thing*>(static_cast<exec::semaphore_core*>(of.core)->stands_for());
  }
  return static_cast<far_thing*>(static_cast<exec::channel_core*>(of.core)->stands_for());
}

}  // namespace

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
