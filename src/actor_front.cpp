// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <string>

#include <fmt/format.h>

#include <manta/actor_life.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/outside.hpp>

#include "node/far_actors.hpp"
#include "node/far_names.hpp"
#include "node/worker_questions.hpp"

// The compiled part of actors' public front.

namespace manta::inline v0 {
namespace detail {

namespace {

/// The future that monitor() gives: a job that no thread runs, and its actor's end completes. It
/// has an origin so that a method which waits for it is found waiting for itself.
struct end_monitor : cell<actor_end>, exec::end_watcher {
  exec::actor_core* core;

  explicit end_monitor(exec::actor_core* of) noexcept : cell<actor_end>(&ops, 2), core(of) {
    tell = [](exec::end_watcher* w, const actor_end& how) noexcept {
      static_cast<end_monitor*>(w)->complete(how);
    };
    is_forgotten = [](exec::end_watcher* w) noexcept {
      return static_cast<end_monitor*>(w)->is_unique();
    };
    give_up = [](exec::end_watcher* w) noexcept {
      static_cast<end_monitor*>(w)->complete({end_reason::ended, {}});
    };
  }

  // Takes over the watcher's hold. The user may have cancelled it.
  void complete(const actor_end& how) noexcept {
    if (!try_claim()) {
      job::drop();
      return;
    }
    auto* const told = new (&value_of<actor_end>(this)) actor_end{how.reason, {}};
    try {
      told->message = how.message;
    } catch (const std::bad_alloc&) {
      // The reason alone.
    }
    finish(exec::job_bits::ready, 1);
  }

  static const exec::job_ops ops;
};

const exec::job_ops end_monitor::ops = {
    .execute = nullptr,
    .run = nullptr,
    .ready = nullptr,
    .cancel = nullptr,
    .drop_arguments = nullptr,
    .drop_value = value_dropper<actor_end>(),
    .alias = nullptr,
    .origin = [](exec::job* j) noexcept -> exec::call_origin {
      return {static_cast<end_monitor*>(j)->core, exec::actor_core::all_groups};
    },
    .size = sizeof(end_monitor),
    .front = 0,
    .in_place = false,
    .function = "actor_end manta::monitor()",
    .function_hash = base::hash_name("actor_end manta::monitor()"),
};

exec::actor_core* running_actor(const char* what) {
  const exec::context* const caller = exec::this_thread.current;
  if (caller != nullptr && caller->actor != nullptr) return caller->actor;
  raise(errc::invalid_argument,
        fmt::format("this_actor::{} was called outside of an actor's method (a task that a method "
                    "made is outside, too); call it in the method itself",
                    what));
}

}  // namespace

namespace {

exec::actor_core* take_name(exec::actor_core* made, const node::spawn_asked& asked,
                            const exec::actor_ops* mirror) {
  node::far_names& names = node::far_names::global();
  if (names.is_open()) return names.take(made, asked, mirror);
  node::worker_questions* const afar = node::worker_questions::for_all();
  return afar != nullptr ? afar->reserve(made, asked, mirror)
                         : made->take_name(asked.options.get_if_exists);
}

// What no message has room for can't be made elsewhere; who asks for it may have one that lives.
exec::actor_core* find_or_take(exec::actor_core* made, const node::spawn_asked& asked,
                               const exec::actor_ops* mirror) {
  const actor_options& with = asked.options;
  const bool is_found_only =
      made->is_elsewhere() && with.get_if_exists && node::far_actors::has_too_many_groups(with);
  if (!is_found_only) return take_name(made, asked, mirror);
  exec::actor_core* const living = find_core(*with.name, with.name_space, mirror);
  if (living == nullptr) node::far_actors::check_groups_elsewhere(with);
  return living;
}

}  // namespace

// Names are the cluster's, or the node's where there is none.
exec::actor_core* apply_options(exec::actor_core* made, const actor_options& asked,
                                const exec::actor_ops* mirror, const exec::job_ops* construction) {
  exec::actor_core* living = nullptr;
  try {
    if (made->is_elsewhere() && !asked.get_if_exists) {
      node::far_actors::check_groups_elsewhere(asked);
    }
    made->apply(asked);
    node::far_names& names = node::far_names::global();
    if (asked.detached) names.check_outlives(*made);
    if (asked.name) {
      living = find_or_take(made, {asked, *construction}, mirror);
    }
    if (asked.detached && living == nullptr && !made->is_afar()) names.keep(made);
  } catch (...) {
    made->discard();
    throw;
  }
  if (living != nullptr) made->discard();
  return living;
}

exec::actor_core* find_core(const std::string& name, const std::string& name_space,
                            const exec::actor_ops* mirror) {
  exec::executor::require();
  node::far_names& names = node::far_names::global();
  if (names.is_open()) return names.find(name, name_space, {mirror->type, mirror});
  if (node::worker_questions* const afar = node::worker_questions::for_all()) {
    return afar->find_actor(name, name_space, mirror);
  }
  return exec::actor_core::find(name, name_space, mirror->type);
}

future<actor_end> watch_core(exec::actor_core* core) {
  exec::executor::require();
  auto* const made = make_job<end_monitor>(core);
  exec::name_child(made);
  future<actor_end> out = access::make<actor_end>(made);
  actor_end how;
  try {
    if (!core->watch(made, how)) made->complete(how);
  } catch (...) {
    made->complete(how);
    throw;
  }
  if (exec::actor_host* const away = core->host()) away->watch(core);
  return out;
}

void kill_core(exec::actor_core* core) {
  exec::executor::require();
  core->kill();
}

void retire_core(exec::actor_core* core) {
  exec::executor::require();
  core->retire();
}

exec::actor_core* own_core(const char* type) {
  exec::actor_core* const core = running_actor("handle");
  if (std::strcmp(core->kind().type, type) == 0) return core;
  raise(errc::invalid_argument,
        fmt::format("this_actor::handle: this actor is a {}, asked for a {}; ask for its own type",
                    readable_name(core->kind().type), readable_name(type)));
}

}  // namespace detail

void this_actor::exit() { detail::running_actor("exit")->exit(); }

}  // namespace manta::inline v0
