// SPDX-License-Identifier: Apache-2.0
#include "exec/named_actors.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <manta/exec/actor_core.hpp>
#include <manta/exec/observer.hpp>
#include <manta/exec/outside.hpp>

#include "actor_state.hpp"

// Actors' names, each of one living actor in its namespace.

namespace manta::inline v0::exec {

namespace {

// The living actors that have a name. An entry whose actor is about to end counts as free.
struct name_table {
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, actor_core*> actors;

  static name_table& global() {
    static auto* const made = new name_table;
    return *made;
  }
};

std::string in_space(const std::string& name, const std::string& name_space) {
  return name_space.empty() ? fmt::format("\"{}\"", name)
                            : fmt::format("\"{}\" of namespace \"{}\"", name, name_space);
}

[[noreturn]] void raise_other_type(const std::string& what, const char* found, const char* asked) {
  raise(errc::invalid_argument,
        fmt::format("the actor {} is a {}, asked for a {}; use its type, or another name", what,
                    readable_name(found), readable_name(asked)));
}

// A worker's actor may be known by the first 1,024 bytes of its type's name (wire/views.hpp).
bool is_same_type(const char* a, const char* b) noexcept {
  constexpr std::size_t most_known = 1024;
  const bool may_be_cut =
      std::min(strnlen(a, most_known + 1), strnlen(b, most_known + 1)) == most_known;
  return may_be_cut ? std::strncmp(a, b, most_known) == 0 : std::strcmp(a, b) == 0;
}

// Takes the handle over.
actor_core* of_type(actor_core* found, const std::string& name, const std::string& name_space,
                    const char* type) {
  if (is_same_type(found->kind().type, type)) return found;
  const char* const found_type = found->kind().type;
  found->drop_handle();
  raise_other_type(in_space(name, name_space), found_type, type);
}

}  // namespace

actor_core* actor_core::take_name(bool may_exist) {
  rare_state& r = *rare();
  name_table& names = name_table::global();
  actor_core* found = nullptr;
  bool is_other = false;
  {
    const std::lock_guard lock(names.mutex);
    const auto [at, is_new] = names.actors.try_emplace({r.name_space, r.name}, this);
    if (is_new || !at->second->try_add_handle()) {
      at->second = this;
      r.is_named = true;
      if (const run_observer* const by = observing()) by->named(r.name, r.name_space, kind_->type);
    } else {
      found = at->second;
      is_other = !is_same_type(found->kind_->type, kind_->type);
    }
  }
  if (found == nullptr) {
    // Who ended it meanwhile may have looked for a name before it had this one.
    if (life_.load(std::memory_order_seq_cst) == phase::gone) lose_name(r);
    return nullptr;
  }
  if (may_exist && !is_other) return found;
  const char* const type = found->kind_->type;
  found->drop_handle();
  if (may_exist) raise_other_type(in_space(r.name, r.name_space), type, kind_->type);
  raise_taken(r.name, r.name_space, type);
}

void raise_taken(const std::string& name, const std::string& name_space, const char* type) {
  raise(errc::name_taken,
        fmt::format("an actor {} is alive already (a {}); choose another name or namespace, or ask "
                    "for it with get_if_exists or find_actor",
                    in_space(name, name_space), readable_name(type)));
}

void actor_core::note_name() noexcept {
  rare_state& r = *rare();
  const std::lock_guard lock(name_table::global().mutex);
  r.is_named = true;
  if (const run_observer* const by = observing()) by->named(r.name, r.name_space, kind_->type);
}

namespace {

// With a handle; null: nobody has that name from now on.
actor_core* living_or_free(const std::string& name, const std::string& name_space) {
  name_table& names = name_table::global();
  const std::lock_guard lock(names.mutex);
  const auto at = names.actors.find({name_space, name});
  if (at == names.actors.end()) return nullptr;
  if (at->second->try_add_handle()) return at->second;
  names.actors.erase(at);
  if (const run_observer* const by = observing()) by->unnamed(name, name_space);
  return nullptr;
}

}  // namespace

std::string type_of_named(const std::string& name, const std::string& name_space) {
  actor_core* const found = living_or_free(name, name_space);
  if (found == nullptr) return {};
  std::string out = found->kind().type;
  found->drop_handle();
  return out;
}

actor_core* find_or_free(const std::string& name, const std::string& name_space, const char* type) {
  actor_core* const found = living_or_free(name, name_space);
  return found == nullptr ? nullptr : of_type(found, name, name_space, type);
}

actor_core* actor_core::find(const std::string& name, const std::string& name_space,
                             const char* type) {
  name_table& names = name_table::global();
  actor_core* found = nullptr;
  {
    const std::lock_guard lock(names.mutex);
    const auto at = names.actors.find({name_space, name});
    if (at == names.actors.end() || !at->second->try_add_handle()) return nullptr;
    found = at->second;
  }
  return of_type(found, name, name_space, type);
}

void actor_core::lose_name(const rare_state& of) noexcept {
  bool was_last = is_afar_;
  {
    name_table& names = name_table::global();
    const std::lock_guard lock(names.mutex);
    if (!of.is_named) return;
    const auto at = names.actors.find({of.name_space, of.name});
    if (at != names.actors.end() && at->second == this) {
      names.actors.erase(at);
      was_last = true;
    }
    if (const run_observer* const by = was_last ? observing() : nullptr) {
      by->unnamed(of.name, of.name_space);
    }
  }
  if (actor_host* const others = actors_afar.load(std::memory_order_acquire)) others->unnamed(this);
}

}  // namespace manta::inline v0::exec
