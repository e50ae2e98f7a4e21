// SPDX-License-Identifier: Apache-2.0
#include "node/actor_names.hpp"

#include <algorithm>
#include <memory>

#include <manta/node/carrier.hpp>

#include "node/far_handles.hpp"
#include "node/far_ids.hpp"
#include "node/shared_names.hpp"

namespace manta::inline v0::node {

namespace {
constinit thread_local arrived_handles* arrived_here = nullptr;
constexpr base::id taken{};  // nobody's
}  // namespace

actor_names& actor_names::global() {
  static auto* const made = new actor_names;
  return *made;
}

base::id actor_names::name(exec::actor_core* core, std::uint64_t process) {
  const std::lock_guard lock(mutex_);
  return name_it(core, process);
}

// Under the lock.
base::id actor_names::name_it(exec::actor_core* core, std::uint64_t process) {
  const auto found = by_core_.find(core);
  if (found != by_core_.end()) return found->second;
  const base::id id{process, ++last_};
  by_id_.emplace(id, entry{core});
  try {
    by_core_.emplace(core, id);
  } catch (...) {
    by_id_.erase(id);
    throw;
  }
  core->pin();
  return id;
}

namespace {

// An actor of this process that others have a name for.
struct end_of_name : exec::end_watcher {
  exec::actor_core* core;  // the names have a pin of it

  explicit end_of_name(exec::actor_core* of) noexcept : core(of) {
    tell = [](exec::end_watcher* w, const actor_end& /*how*/) noexcept {
      const std::unique_ptr<end_of_name> self(static_cast<end_of_name*>(w));
      actor_names::global().forget(self->core);
    };
    is_forgotten = [](exec::end_watcher* /*w*/) noexcept { return false; };
    give_up = [](exec::end_watcher* w) noexcept { delete static_cast<end_of_name*>(w); };
  }
};

}  // namespace

void actor_names::watch_end(exec::actor_core* core) {
  if (core->is_elsewhere() && !core->is_afar()) return;  // who runs it there says so
  auto watcher = std::make_unique<end_of_name>(core);
  actor_end how;
  if (core->watch(watcher.get(), how)) {
    static_cast<void>(watcher.release());
  } else {
    forget(core);
  }
}

base::id actor_names::name_here(exec::actor_core* core) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_core_.find(core);
    if (found != by_core_.end()) return found->second;
  }
  const base::id id = name(core, 0);
  watch_end(core);
  return id;
}

base::id actor_names::draw(exec::actor_core* core, std::uint64_t process) {
  const std::lock_guard lock(mutex_);
  const base::id id = name_it(core, process);
  entry& one = by_id_.find(id)->second;
  one.is_told = false;
  one.teller = std::this_thread::get_id();
  return id;
}

base::id actor_names::reserve(exec::actor_core* core, std::uint64_t process) {
  const std::lock_guard lock(mutex_);
  const base::id id = name_it(core, process);
  by_id_.find(id)->second.is_told = false;
  return id;
}

void actor_names::told(exec::actor_core* core) {
  const std::lock_guard lock(mutex_);
  const auto found = by_core_.find(core);
  if (found != by_core_.end()) by_id_.find(found->second)->second.is_told = true;
}

std::optional<base::id> actor_names::known(const exec::actor_core* core) {
  const std::lock_guard lock(mutex_);
  const auto found = by_core_.find(core);
  if (found == by_core_.end()) return std::nullopt;
  const entry& one = by_id_.find(found->second)->second;
  if (!one.is_told && one.teller != std::this_thread::get_id()) return std::nullopt;
  return found->second;
}

void actor_names::set(exec::actor_core* core, const base::id& id, std::uint32_t lent) {
  const std::lock_guard lock(mutex_);
  by_core_.emplace(core, id);
  try {
    by_id_.insert_or_assign(id, entry{core, lent});
  } catch (...) {
    by_core_.erase(core);
    throw;
  }
  core->pin();
}

exec::actor_core* actor_names::find(const base::id& id) {
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  found->second.core->pin();
  return found->second.core;
}

void actor_names::lend(const base::id& id, std::uint32_t n) {
  if (is_shared(id)) return shared_names::global().lend(id, n);
  const std::lock_guard lock(mutex_);
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return;
  found->second.lent += n;
  for (std::uint32_t i = 0; i < n; ++i) found->second.core->add_handle_inside();
}

void actor_names::give_back(const base::id& id, std::uint32_t n) {
  if (is_shared(id)) return shared_names::global().give_back(id, n);
  exec::actor_core* core = nullptr;
  bool is_over = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) return;
    entry& e = found->second;
    core = e.core;
    n = static_cast<std::uint32_t>(std::min<std::uint64_t>(n, e.lent));
    e.lent -= n;
    is_over = e.lent == 0 && (e.is_over || core->has_ended());
    if (is_over) {
      by_core_.erase(core);
      by_id_.erase(found);
    } else {
      core->pin();
    }
  }
  for (std::uint32_t i = 0; i < n; ++i) core->drop_handle();
  core->unpin();
}

void actor_names::forget(exec::actor_core* core) {
  bool is_gone = false;
  {
    const std::lock_guard lock(mutex_);
    const auto found = by_core_.find(core);
    if (found == by_core_.end()) return;
    const auto at = by_id_.find(found->second);
    // Another core may have the id by now.
    const bool has_id = at != by_id_.end() && at->second.core == core;
    is_gone = !has_id || at->second.lent == 0;
    if (is_gone) {
      by_core_.erase(found);
      if (has_id) by_id_.erase(at);
    } else {
      at->second.is_over = true;
    }
  }
  if (is_gone) core->unpin();
}

arrived_handles::arrived_handles(std::span<const spec::reference> came, const base::id& keeps,
                                 void (*give_back)(void* to, const base::id& id), void* to)
    : give_back_(give_back), to_(to), outer_(std::exchange(arrived_here, this)) {
  for (const spec::reference& one : came) {
    const bool is_counted = one.kind == spec::reference_kind::actor ||
                            one.kind == spec::reference_kind::array ||
                            one.kind == spec::reference_kind::future || is_shared(one.what);
    if (!is_counted) continue;
    if (one.what == keeps) {
      give_back(to, one.what);
    } else {
      left_.push_back(one.what);
    }
  }
}

arrived_handles::~arrived_handles() {
  arrived_here = outer_;
  for (const base::id& one : left_) {
    if (one != taken) give_back_(to_, one);
  }
}

bool arrived_handles::take(const base::id& id) noexcept {
  if (arrived_here == nullptr) return false;
  // They are read in the order in which they came, as a rule.
  std::vector<base::id>& left = arrived_here->left_;
  std::size_t& first = arrived_here->first_;
  while (first < left.size() && left[first] == taken) ++first;
  const auto found = std::find(left.begin() + static_cast<std::ptrdiff_t>(first), left.end(), id);
  if (found == left.end()) return false;
  *found = taken;
  return true;
}

namespace {

// Whether a core stands for an actor that the node has.
bool is_mirror(const exec::actor_core& core) noexcept {
  return core.is_elsewhere() && exec::asks_elsewhere();
}

}  // namespace

std::mutex& borrowing_actors() noexcept {
  static std::mutex one;
  return one;
}

// One at a time, so that an id has one core.
exec::actor_core* borrow_actor(const base::id& what, const exec::actor_ops* kind) {
  if (is_far_actor_id(what)) return borrow_far_actor(what, kind);
  const std::lock_guard lock(borrowing_actors());
  actor_names& names = actor_names::global();
  if (exec::actor_core* const known = names.find(what)) {
    const bool is_ours = !is_mirror(*known);
    const bool has = is_ours || known->try_add_handle();
    if (is_ours) known->add_handle_inside();
    // Without a note it was ended here a moment ago: what came goes back, and its calls fail.
    auto* const note = is_ours ? nullptr : static_cast<mirror_note*>(known->seat);
    if (has && note != nullptr && arrived_handles::take(what)) {
      note->came.fetch_add(1, std::memory_order_relaxed);
    }
    known->unpin();
    if (has) return known;
  }
  if (!arrived_handles::take(what)) return nullptr;
  auto note = std::make_unique<mirror_note>(what);
  exec::mirror_core* const made = exec::mirror_core::make(kind);
  made->seat = note.release();
  names.set(made, what);
  return made;
}

}  // namespace manta::inline v0::node
