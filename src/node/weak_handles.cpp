// SPDX-License-Identifier: Apache-2.0
// Weak handles of actors that go from process to process.
//
// Problem. Such a handle keeps nothing alive, so nobody counts it; still a handle that is made of
// it has to be one exactly as long as the actor has another, wherever that is.
// Idea. It goes as the actor's name, uncounted. Where it is read it holds the core that stands for
// the actor there; if none does, one without handles, which has ended and knows the name
// (exec/known_actor.hpp). A handle is made of it where the handles are counted: by the core, while
// this process has one; else by who has the object, who is asked as for the actor of a name
// (far_names.hpp), and answers with a handle that is lent before it goes.
//
//   asker: lock --lives?--> home: does anybody have one?  yes: a handle    no, or it ended: nothing
//                                 the others' one, when all of those have gone by what has come
//                                 here, counts no more, though calls in front of it wait to be read
//
// Who has killed, retired or let go of an actor and asks then hears no, also in the home itself:
// one node's messages come in their order, and as they come it is noted in the core that an end is
// asked for, or that the others' handle goes.
#include <algorithm>
#include <functional>
#include <mutex>

#include <manta/codec/errors.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/node/carrier.hpp>

#include "node/far_actors.hpp"
#include "node/far_handles.hpp"
#include "node/far_ids.hpp"
#include "node/far_names.hpp"
#include "node/looking.hpp"
#include "node/resident_actors.hpp"
#include "node/trade.hpp"
#include "node/worker_facts.hpp"
#include "own/handle_limits.hpp"

namespace manta::inline v0::node {

namespace {

// The loop and the looker hear the answers, and the giver has others' tasks; the other two answer
// others, whose own may wait for this node's.
void check_may_ask(const peers* by) {
  const bool is_loop = by != nullptr && by->is_loop();
  const bool may_wait = !is_loop && !trade::is_own_thread() && !facts_line::global().is_here() &&
                        !facts_line::of_answers().is_here();
  if (may_wait) return;
  raise(errc::unsupported,
        "weak_actor::lock: asked for an actor of another node while a value that came from "
        "elsewhere is read or destroyed; lock it in the task or method that uses it");
}

// One that has ended, as nobody here has a handle; with a pin.
exec::actor_core* make_ended(const exec::known_actor& as, bool is_over,
                             const exec::actor_ops* kind) {
  exec::mirror_core* const made = exec::mirror_core::make(kind, true);
  try {
    made->know_as(as);
  } catch (...) {
    made->drop_handle();
    throw;
  }
  made->pin();
  if (is_over) {
    made->lose_elsewhere(end_reason::ended, error(errc::actor_lost, "the actor has ended"));
  }
  made->drop_handle();
  return made;
}

}  // namespace

// ---- where they are read

exec::actor_core* far_arrivals::weak(const base::id& what,
                                     const std::function<exec::actor_core*()>& make) {
  far_arrivals* const here = reads_now();
  if (here == nullptr) return make();
  const auto [at, is_new] = here->weak_.try_emplace(what, nullptr);
  if (is_new) {
    try {
      at->second = make();
    } catch (...) {
      here->weak_.erase(at);
      throw;
    }
  }
  at->second->pin();
  return at->second;
}

exec::actor_core* far_actors::weak_of(const base::id& actor, std::uint64_t owner,
                                      const exec::actor_ops* kind) {
  const std::uint64_t self = far_handles::global().self();
  if (owner == self) {
    exec::actor_core* const own = resident_actors::global().core_of(actor);
    if (own != nullptr) return own;
  } else {
    const std::lock_guard lock(mutex_);
    const auto [first, last] = notes_.equal_range(actor);
    const auto at = std::find_if(first, last, [](const auto& of) { return of.second->counts; });
    if (at != last) {
      at->second->core->pin();
      return at->second->core;
    }
  }
  return make_ended({actor, owner, far_handles::global().run()}, owner == self, kind);
}

exec::actor_core* borrow_far_weak(const spec::reference& what, const exec::actor_ops* kind) {
  return far_arrivals::weak(
      what.what, [&] { return far_actors::global().weak_of(what.what, what.owner.high, kind); });
}

exec::actor_core* borrow_weak_actor(const spec::reference& what, const exec::actor_ops* kind) {
  if (what.owner.high == 0 || !is_far_actor_id(what.what)) {
    raise(errc::decode_failed, "a weak handle of an actor came that no node has named");
  }
  return borrow_far_weak(what, kind);
}

// ---- handles of them

// What this node knows of it; the handle of one that lives.
far_actors::sight far_actors::look(const base::id& actor,
                                   exec::actor_core*& with_handle) const noexcept {
  sight out = sight::none;
  const std::lock_guard lock(mutex_);
  const auto [first, last] = notes_.equal_range(actor);
  for (auto at = first; at != last; ++at) {
    exec::actor_core* const core = at->second->core;
    if (core->try_add_handle()) {
      with_handle = core;
      return sight::lives;
    }
    if (!core->takes_calls()) return sight::ends;
    if (at->second->counts) out = sight::leaves;
  }
  for (const farewell* each = farewells_; each != nullptr; each = each->next) {
    if (each->of == actor) out = sight::leaves;
  }
  return out;
}

exec::actor_core* far_actors::lock(const exec::actor_core* of, const exec::actor_ops* kind) {
  const exec::known_actor* const known = of->known_as();
  if (known == nullptr || known->run != far_handles::global().run()) return nullptr;
  exec::actor_core* out = nullptr;
  sight is = sight::ends;  // with the runtime
  // Another thread may send its last calls, or word of its end: the home, which is asked behind
  // them, counts this node until then.
  using limits = own::handle_limits;
  look_until({.between = limits::between_looks, .most = limits::most_looks}, [&] {
    is = is_open_.load() ? look(known->id, out) : sight::ends;
    if (is == sight::lives || is == sight::ends) return true;
    check_may_ask(peers_.load());
    return is != sight::leaves;
  });
  if (is == sight::lives || is == sight::ends) return out;
  try {
    return far_names::global().upgrade(*known, kind);
  } catch (const exception& e) {
    // What is lost from here has no handle here, either, be it a member for others yet.
    const bool is_over = !is_open_.load() || !far_names::global().is_open();
    if (is_over || e.code() == errc::node_lost) return nullptr;
    throw;
  }
}

exec::actor_core* lock_actor(const exec::actor_core* of, const exec::actor_ops* kind) {
  if (!of->is_afar() || !of->takes_calls()) return nullptr;
  return far_actors::global().lock(of, kind);
}

}  // namespace manta::inline v0::node
