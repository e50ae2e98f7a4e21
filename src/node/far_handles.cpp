// SPDX-License-Identifier: Apache-2.0
#include "node/far_handles.hpp"

#include <algorithm>
#include <new>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>

#include "node/far_actors.hpp"
#include "node/far_arrays.hpp"
#include "node/far_futures.hpp"
#include "node/far_ids.hpp"
#include "node/node_things.hpp"
#include "node/resident_actors.hpp"
#include "node/workbench.hpp"

namespace manta::inline v0::node {

namespace {

constinit thread_local far_arrivals* read_here = nullptr;

// Of which this node counts, or another one.
bool is_counted(const spec::reference& one) noexcept {
  using kind = spec::reference_kind;
  return (one.kind == kind::actor && is_far_actor_id(one.what)) ||
         (one.kind == kind::future && is_far_future_id(one.what)) ||
         (one.kind == kind::array && is_far_array_id(one.what)) ||
         (is_of_thing(one.kind) && is_far_thing_id(one.what));
}

// Those inside of what such a message has.
std::span<const spec::reference> references_in(const wire::message_view& of) noexcept {
  if (const auto* const task = std::get_if<wire::task_view>(&of.body)) {
    return task->arguments.references;
  }
  if (const auto* const call = std::get_if<wire::call_view>(&of.body)) {
    return call->arguments.references;
  }
  if (const auto* const spawn = std::get_if<wire::spawn_view>(&of.body)) {
    return spawn->arguments.references;
  }
  if (const auto* const item = std::get_if<wire::item_view>(&of.body)) {
    return item->value.references;
  }
  if (const auto* const ask = std::get_if<wire::ask_view>(&of.body)) return ask->with.references;
  const auto* const came = std::get_if<wire::result_view>(&of.body);
  const auto* const value =
      came == nullptr ? nullptr : std::get_if<spec::parcel_view>(&came->outcome);
  return value == nullptr ? std::span<const spec::reference>() : value->references;
}

far_name name_of_own(exec::actor_core* core, const char* function) {
  if (!core->is_elsewhere()) {
    return {resident_actors::global().name(core), far_handles::global().self()};
  }
  raise(
      errc::unsupported,
      fmt::format("{}: the handle of an actor in an isolated worker can't go to another node yet; "
                  "have the actor in a thread of its node",
                  readable_name(function)));
}

}  // namespace

far_name name_of_weak(exec::actor_core* core, std::uint64_t to, const char* function) {
  if (core->is_afar()) return far_actors::global().name_of(core, to, function, true);
  return name_of_own(core, function);
}

far_name name_of_actor(exec::actor_core* core, std::uint64_t to, const char* function) {
  if (core->is_afar()) return far_actors::global().name_of(core, to, function);
  return name_of_own(core, function);
}

// ---- what came

far_arrivals::~far_arrivals() {
  for (const auto& [id, core] : weak_) core->unpin();
  for (one& each : all_) {
    if (!each.is_left) continue;
    if (each.thing != nullptr) {
      node_things::drop_soon(std::move(each.thing));
    } else if (each.own != nullptr) {
      each.own->drop_handle();
    } else if (each.future != nullptr) {
      far_futures::drop_soon({each.future});
    } else if (each.array != nullptr) {
      each.array->drop();
    } else if (each.is_counted) {
      far_handles::global().read(each.id);
    }
  }
}

far_reading::far_reading(far_arrivals* came) noexcept : outer_(std::exchange(read_here, came)) {}
far_reading::~far_reading() { read_here = outer_; }

far_arrivals* far_arrivals::reads_now() noexcept { return read_here; }

far_arrivals::one* far_arrivals::find(const base::id& what) noexcept {
  if (read_here == nullptr) return nullptr;
  std::vector<one>& all = read_here->all_;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t at = (read_here->next_ + i) % all.size();
    if (!all[at].is_left || all[at].id != what) continue;
    read_here->next_ = at + 1;
    return &all[at];
  }
  return nullptr;
}

exec::actor_core* borrow_far_actor(const base::id& what, const exec::actor_ops* kind) {
  far_arrivals::one* const came = far_arrivals::find(what);
  if (came == nullptr) return nullptr;
  exec::actor_core* const core =
      came->own != nullptr ? came->own : far_actors::global().mirror_of(what, came->owner, kind);
  came->is_left = false;
  if (came->is_counted) far_handles::global().read(what);
  return core;
}

far_handles& far_handles::global() {
  static auto* const made = new far_handles;
  return *made;
}

std::uint64_t far_handles::newest_owner_in(std::span<const std::byte> message, std::uint64_t self) {
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(message);
  std::uint64_t newest = 0;
  if (!read) return newest;
  for (const spec::reference& one : references_in(*read)) {
    if (is_counted(one) && one.owner.high != self) newest = std::max(newest, one.owner.high);
  }
  return newest;
}

std::shared_ptr<far_arrivals> far_handles::came(std::uint64_t from,
                                                std::span<const std::byte> message) {
  auto out = std::make_shared<far_arrivals>();
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(message);
  if (!read) return out;
  const std::span<const spec::reference> all = references_in(*read);
  out->all_.reserve(all.size());
  for (const spec::reference& one : all) {
    if (!is_counted(one)) continue;
    const std::uint64_t owner = one.owner.high;
    bool is_own = false;
    {
      const std::lock_guard lock(mutex_);
      if (refs_ == nullptr) return out;
      is_own = owner == refs_->self();
      // False: its node is dead, and calls of it fail.
      const bool counts = !is_own && refs_->came(one.what, owner, from);
      if (counts) ++others_[one.what].unread;
      if (!is_own) out->all_.push_back({.id = one.what, .owner = owner, .is_counted = counts});
    }
    if (!is_own) continue;
    far_arrivals::one& own = out->all_.emplace_back();  // there is room
    own.id = one.what;
    own.owner = owner;
    if (one.kind == spec::reference_kind::array) {
      own.array = far_arrays::global().block_of(one.what);
    } else if (one.kind == spec::reference_kind::future) {
      own.future = far_futures::global().job_of(one.what);
    } else if (is_of_thing(one.kind)) {
      own.thing = node_things::global().owner_of(one.what);
    } else {
      own.own = resident_actors::global().handle_of(one.what);
    }
  }
  return out;
}

// One of another node's was read, or never will be.
void far_handles::read(const base::id& thing) noexcept { let_go(thing, &holders::unread); }
void far_handles::lost_core(const base::id& thing) noexcept { let_go(thing, &holders::cores); }

void far_handles::let_go(const base::id& thing, std::uint32_t holders::*kind,
                         std::uint64_t run) noexcept {
  std::vector<base::id> freed;
  try {
    const std::lock_guard lock(mutex_);
    if (refs_ == nullptr) return;  // the looker may still read what came before the end
    if (run != 0 && run != run_) return;
    const auto found = others_.find(thing);
    if (found == others_.end() || found->second.*kind == 0) return;
    --(found->second.*kind);
    drop_if_unheld(thing);
    freed = say();
  } catch (...) {
    return;  // no memory: it lives until this node ends
  }
  after(std::move(freed));
}

// Under the mutex.
void far_handles::drop_if_unheld(const base::id& thing) {
  const auto found = others_.find(thing);
  if (found == others_.end() || found->second.cores > 0 || found->second.unread > 0) return;
  others_.erase(found);
  refs_->drop(thing);
}

// ---- cores here

void far_handles::has_core(const base::id& thing) {
  const std::lock_guard lock(mutex_);
  if (refs_ != nullptr) ++others_[thing].cores;
}

std::uint64_t far_handles::has_view(const base::id& array) {
  const std::lock_guard lock(mutex_);
  if (refs_ == nullptr) return 0;
  ++others_[array].cores;
  return run_;
}

void far_handles::lost_view(const base::id& array, std::uint64_t run) noexcept {
  let_go(array, &holders::cores, run);
}

std::uint64_t far_handles::run() const {
  const std::lock_guard lock(mutex_);
  return refs_ == nullptr ? 0 : run_;
}

void far_handles::has_made(const base::id& actor, std::uint64_t owner) {
  const std::lock_guard lock(mutex_);
  if (refs_ == nullptr || !refs_->came(actor, owner, owner)) return;
  ++others_[actor].cores;
}

// ---- what is sent

std::uint64_t far_handles::self() const {
  const std::lock_guard lock(mutex_);
  return refs_ == nullptr ? 0 : refs_->self();
}

result<void> far_handles::send(peers& by, base::id request, workbench& on, peers::when_full then) {
  const bool has_handles = !on.references.empty();
  if (has_handles) {
    request.high |= peers::with_handles;
    far_arrays::global().lends_out(on.references);
    lend(on.references, on.goes_to);
  }
  const auto pieces = on.writer.pieces();
  const std::size_t size = on.writer.size_bytes();
  result<void> is =
      then == peers::when_full::wait   ? by.send_when_room(on.goes_to, request, pieces, size)
      : then == peers::when_full::send ? by.send_anyway(on.goes_to, request, pieces, size)
                                       : by.send(on.goes_to, request, pieces, size);
  if (!is && has_handles) take_back(on.references, on.goes_to);
  return is;
}

// Of actors that live here others have one handle together from then on.
void far_handles::lend(std::span<const spec::reference> all, std::uint64_t to) {
  std::vector<base::id> freed;
  std::vector<base::id> own;
  {
    const std::lock_guard lock(mutex_);
    if (refs_ == nullptr) return;
    for (const spec::reference& one : all) {
      if (!is_counted(one)) continue;
      refs_->lend(one.what, one.owner.high, to);
      const bool is_actor = one.kind == spec::reference_kind::actor;
      if (is_actor && one.owner.high == refs_->self()) own.push_back(one.what);
    }
    freed = say();
  }
  for (const base::id& one : own) resident_actors::global().hold(one);
  after(std::move(freed));
}

void far_handles::take_back(std::span<const spec::reference> all, std::uint64_t to) {
  std::vector<base::id> freed;
  {
    const std::lock_guard lock(mutex_);
    if (refs_ == nullptr) return;
    for (const spec::reference& one : all) {
      if (is_counted(one)) refs_->take_back(one.what, one.owner.high, to);
    }
    freed = say();
  }
  after(std::move(freed));
}

void far_handles::lend_to_maker(const base::id& actor, std::uint64_t maker) {
  std::vector<base::id> freed;
  {
    const std::lock_guard lock(mutex_);
    if (refs_ == nullptr) return;
    refs_->lend(actor, refs_->self(), maker);
    freed = say();
  }
  after(std::move(freed));
}

void far_handles::take_back_from_maker(const base::id& actor, std::uint64_t maker) {
  std::vector<base::id> freed;
  {
    const std::lock_guard lock(mutex_);
    if (refs_ == nullptr) return;
    refs_->take_back(actor, refs_->self(), maker);
    freed = say();
  }
  after(std::move(freed));
}

bool far_handles::is_lent(const base::id& thing) const {
  const std::lock_guard lock(mutex_);
  return refs_ != nullptr && refs_->is_lent(thing);
}

std::pair<std::size_t, std::size_t> far_handles::lent_and_borrowed() const {
  const std::lock_guard lock(mutex_);
  if (refs_ == nullptr) return {};
  return {refs_->lent(), refs_->borrowed()};
}

std::vector<own::references::lending> far_handles::lendings_of(const base::id& thing) const {
  const std::lock_guard lock(mutex_);
  if (refs_ == nullptr) return {};
  return refs_->lendings_of(thing);
}

// ---- other nodes

void far_handles::begin(peers& by) {
  const std::lock_guard lock(mutex_);
  by_ = &by;
  refs_ = std::make_unique<own::references>(by.epoch());
  ++run_;
  others_.clear();
  unsaid_.clear();
}

void far_handles::joined(std::uint64_t node) {
  const std::lock_guard lock(mutex_);
  if (refs_ != nullptr) refs_->joined(node);
}

void far_handles::gone(std::uint64_t node) {
  std::vector<base::id> freed;
  {
    const std::lock_guard lock(mutex_);
    if (refs_ == nullptr) return;
    refs_->gone(node);
    freed = say();
  }
  after(std::move(freed));
}

void far_handles::hear(std::uint64_t from, std::span<const std::byte> message) {
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(message);
  const auto* const said = read ? std::get_if<wire::ask_view>(&read->body) : nullptr;
  if (said == nullptr || said->what != wire::question::references) return;
  const auto all = codec::decode<notes>(said->with);
  std::vector<base::id> freed;
  {
    const std::lock_guard lock(mutex_);
    if (refs_ == nullptr) return;
    for (const own::reference_note& one : all) refs_->hear(from, one);
    freed = say();
  }
  after(std::move(freed));
}

// Under the mutex, so that what is said first goes first. Answers what nobody else needs by now.
std::vector<base::id> far_handles::say() {
  own::references::work todo = refs_->take();
  for (const auto& [to, note] : todo.notes) unsaid_[to].push_back(note);
  for (auto at = unsaid_.begin(); at != unsaid_.end();) {
    const borrowed_workbench on;
    on->out.clear();
    const base::id request{peers::references, ++last_};
    const result<void> written = on->writer.write(
        {request, 1, 0},
        wire::ask_view{wire::question::references, codec::encode(on->out, at->second)});
    if (!written) break;  // no memory
    const result<void> is =
        by_->send(at->first, request, on->writer.pieces(), on->writer.size_bytes());
    const bool waits = !is && is.error().code() == errc::store_full;
    at = waits ? std::next(at) : unsaid_.erase(at);
  }
  return std::move(todo.freed);
}

void far_handles::after(std::vector<base::id> freed) noexcept {
  std::erase_if(freed, [](const base::id& one) {
    if (!is_far_thing_id(one)) return false;
    node_things::global().freed(one);
    return true;
  });
  const auto futures = std::partition(freed.begin(), freed.end(),
                                      [](const base::id& one) { return !is_far_future_id(one); });
  const auto arrays = std::partition(freed.begin(), futures,
                                     [](const base::id& one) { return !is_far_array_id(one); });
  if (futures != freed.end()) far_futures::global().freed({futures, freed.end()});
  for (auto at = arrays; at != futures; ++at) far_arrays::global().freed(*at);
  for (auto at = freed.begin(); at != arrays; ++at) resident_actors::global().freed(*at);
}

void far_handles::say_again() noexcept {
  std::vector<base::id> freed;
  try {
    const std::lock_guard lock(mutex_);
    if (refs_ == nullptr || unsaid_.empty()) return;
    freed = say();
  } catch (...) {
    return;  // the next time
  }
  after(std::move(freed));
}

void far_handles::close() noexcept {
  const std::lock_guard lock(mutex_);
  refs_ = nullptr;
  by_ = nullptr;
  others_.clear();
  unsaid_.clear();
}

}  // namespace manta::inline v0::node
