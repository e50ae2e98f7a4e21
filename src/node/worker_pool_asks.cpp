// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <manta/codec/errors.hpp>
#include <manta/exec/actor_core.hpp>

#include "node/actor_names.hpp"
#include "node/errand.hpp"
#include "node/far_names.hpp"
#include "node/guest_actor.hpp"
#include "node/trip.hpp"
#include "node/worker_facts.hpp"
#include "node/worker_hand.hpp"
#include "node/worker_monitors.hpp"
#include "node/worker_pool.hpp"

// What isolated workers ask their node, seen from the pool: values under keys and the history are
// worker_facts.hpp's, names of actors are here, and their ends (worker_monitors.hpp).
//
// Problem. An actor's name is taken when it is spawned, before its constructor's arguments are
// there: whoever finds it may call it from then on. The names are the node's, and a worker tells
// of a new actor when it can be made, not before.
//
// Idea. A worker that spawns an actor with a name asks first. The node makes the actor's core, as
// it would when the actor is to be made, and gives it the name; calls wait in its mailbox. Then
// the message that makes it finds the core instead of making one.
//
//   reserved --spawn--> as any actor of a worker
//       \---- the constructor failed in the worker, its last handle there went, or it died:
//             the core ends as one whose constructor failed, and the name is free

namespace manta::inline v0::node {

// Answers with a handle, which the worker has one time more then, or without; takes the handle
// over.
void worker_pool::answer_handle(hand& to, std::uint64_t number, exec::actor_core* core) {
  const borrowed_workbench on;
  try {
    spec::parcel_view value;
    on->references.clear();
    if (core != nullptr) {
      spec::reference named;
      named.what = actor_names::global().name_here(core);
      named.kind = spec::reference_kind::actor;
      on->references.push_back(named);
      value.references = on->references;
    }
    write_answer(*on, {1, number}, value);
    reply(to, *on);
  } catch (...) {
    if (core != nullptr) core->drop_handle();
    throw;
  }
  if (core != nullptr) core->drop_handle();
}

void worker_pool::answer_error(hand& to, std::uint64_t number, const error& why) {
  const borrowed_workbench on;
  write_failure(*on, {1, 1}, {1, number}, why);
  reply_error(to, *on);
}

// In a handler of what kept an answer from going: the worker is told that, or ended, since it would
// wait for ever.
void worker_pool::refuse_answer(hand& to, const base::id& request) noexcept {
  try {
    const borrowed_workbench on;
    write_failure(*on, {1, 1}, request, describe_current_exception("an answer to a worker"));
    reply_error(to, *on);
  } catch (...) {
    distrust(to, "no memory was left for an answer that it waits for");
  }
}

// By whichever thread has the answer.
void worker_pool::say_answer(hand& to, std::uint64_t number,
                             const wire::result_view& answer) noexcept {
  try {
    const borrowed_workbench on;
    on->references.clear();
    const result<void> written = on->writer.write({{1, number}, 1, 0}, answer);
    if (!written) {
      return answer_error(to, number, error(errc::encode_failed, written.error().message()));
    }
    reply(to, *on);
  } catch (...) {
    refuse_answer(to, {1, number});
  }
}

void worker_pool::on_ask(const std::shared_ptr<hand>& from, std::uint64_t number,
                         const wire::ask_view& asked) {
  try {
    if (asked.what == wire::question::find_actor) {
      return on_find(from, number, value_of_question<actor_question>(asked));
    }
    if (asked.what == wire::question::actor_end) return on_monitor(from, number, asked);
    if (asked.what == wire::question::thing) return on_thing(from, number, asked);
    if (asked.what == wire::question::delegation) {
      return on_delegation(*from, value_of_question<delegation_note>(asked));
    }
    if (asked.what == wire::question::future_value || asked.what == wire::question::cancel_future) {
      return on_future_ask(from, number, asked);
    }
    std::shared_ptr<worker_facts> facts;
    {
      const std::lock_guard lock(mutex_);
      if (from->is_dead) return;
      if (from->facts == nullptr) {
        from->facts = std::make_shared<worker_facts>(
            [to = std::weak_ptr(from)](std::uint64_t request, const wire::result_view& answer) {
              if (const auto alive = to.lock()) global().say_answer(*alive, request, answer);
            });
      }
      facts = from->facts;
    }
    facts->ask(number, asked);
  } catch (...) {
    distrust(*from, "a question that makes no sense, or that its node had no memory to answer");
  }
}

void worker_pool::on_find(const std::shared_ptr<hand>& from, std::uint64_t number,
                          const actor_question& asked) {
  exec::actor_core* found = nullptr;
  try {
    found = exec::actor_core::find(asked.name, asked.name_space, asked.type.c_str());
    if (found == nullptr && far_names::global().is_open()) return find_afar(from, number, asked);
  } catch (...) {
    return answer_error(*from, number, describe_current_exception("find_actor"));
  }
  answer_handle(*from, number, found);
}

// Other nodes are asked, which is waited for: by a worker, which lends its core meanwhile.
void worker_pool::find_afar(const std::shared_ptr<hand>& from, std::uint64_t number,
                            const actor_question& asked) {
  run_errand([this, from, number, asked](bool runs) {
    try {
      if (!runs) exec::ended_error().raise();
      answer_handle(*from, number,
                    far_names::global().find(asked.name, asked.name_space, {asked.type.c_str()}));
    } catch (...) {
      answer_error(*from, number, describe_current_exception("find_actor"));
    }
  });
}

void worker_pool::on_monitor(const std::shared_ptr<hand>& from, std::uint64_t number,
                             const wire::ask_view& asked) {
  const auto question = value_of_question<end_question>(asked);
  const base::id id{question.high, question.low};
  std::shared_ptr<worker_monitors> monitors;
  bool is_lent = false;
  {
    const std::lock_guard lock(mutex_);
    if (from->is_dead) return;
    is_lent = from->lent.contains(id);
    if (from->monitors == nullptr) {
      from->monitors = std::make_shared<worker_monitors>(
          [to = std::weak_ptr(from)](std::uint64_t request, const actor_end& how) {
            const auto alive = to.lock();
            if (alive == nullptr) return;
            global().say_written(*alive, request, [&](workbench& on) {
              codec::write(on.out, end_answer{static_cast<std::uint8_t>(how.reason), how.message});
            });
          });
    }
    monitors = from->monitors;
  }
  exec::actor_core* const of = is_lent ? actor_names::global().find(id) : nullptr;
  if (of == nullptr) {
    if (is_lent || id.high != from->unique) raise(errc::decode_failed, "an actor that it has not");
    // Its own that could not be made; the answer to that message says why.
    return answer_error(*from, number, error(errc::actor_lost, "the actor was not made"));
  }
  try {
    monitors->watch(number, of);
  } catch (...) {
    of->unpin();
    throw;
  }
  of->unpin();
}

// Tasks that wait for those are waited for.
void worker_pool::tell_monitors_of_end() noexcept {
  for (std::size_t i = 0;; ++i) {
    std::shared_ptr<worker_monitors> next;
    {
      const std::lock_guard lock(mutex_);
      if (i >= all_.size()) return;
      next = all_[i]->monitors;
    }
    if (next != nullptr) next->end_with_runtime();
  }
}

// A worker takes the name of an actor that it is about to make.
void worker_pool::on_reservation(const std::shared_ptr<hand>& from, std::uint64_t number,
                                 const wire::spawn_view& asked) {
  bool is_nonsense = asked.actor.high != from->unique;
  {
    const std::lock_guard lock(mutex_);
    is_nonsense = is_nonsense || from->lent.contains(asked.actor);
  }
  if (is_nonsense) return distrust(*from, "the reservation of an actor that is not its own");
  try {
    exec::actor_core* const made = make_asked(asked);
    const auto settle = [this, from, number, made, id = asked.actor](const taking& take) {
      settle_reservation(*from, number, id, made, take);
    };
    if (!far_names::global().is_open()) {
      return settle([made, &asked] { return made->take_name(asked.may_exist); });
    }
    const control::claimed_name name{std::string(asked.name_space),
                                     std::string(asked.options->name)};
    run_errand([settle, made, name, may_exist = asked.may_exist](bool runs) {
      settle([&] {
        if (!runs) exec::ended_error().raise();
        return far_names::global().take_here(made, name, may_exist);
      });
    });
  } catch (...) {
    answer_error(*from, number, describe_current_exception("spawn"));
  }
}

// `take`: its name; answers the living one that will do instead. By then it has the id that others
// are given, and the worker's death ends it.
void worker_pool::settle_reservation(hand& from, std::uint64_t number, const base::id& id,
                                     exec::actor_core* made, const taking& take) noexcept {
  made->pin();
  const std::unique_ptr<exec::actor_core, void (*)(exec::actor_core*)> stays(
      made, [](exec::actor_core* of) { of->unpin(); });
  exec::actor_core* living = nullptr;
  try {
    welcome(*made, from, id, true);
  } catch (...) {
    const error why = describe_current_exception("spawn");
    abandon_core(*made, why);
    actor_names::global().give_back(id, 1);
    return answer_error(from, number, why);
  }
  try {
    living = take();
    if (living != nullptr) turn_out(from, id);
  } catch (...) {
    const error why = describe_current_exception("spawn");
    turn_out(from, id);
    return answer_error(from, number, why);
  }
  try {
    answer_handle(from, number, living);
  } catch (...) {
    refuse_answer(from, {1, number});
  }
}

// A new actor whose one handle is that worker's; `is_reserved`: it is to be made later. When it
// throws the actor is as it was.
void worker_pool::welcome(exec::actor_core& made, hand& to, const base::id& id, bool is_reserved) {
  actor_names::global().set(&made, id, 1);
  try {
    actor_names::global().watch_end(&made);
    const std::lock_guard lock(mutex_);
    if (is_reserved) {
      if (to.is_dead) raise(errc::worker_lost, "the worker has ended");
      to.reserved.emplace(id, &made);
    }
    to.has_handles.store(true, std::memory_order_relaxed);
    ++to.lent[id];
  } catch (...) {
    actor_names::global().forget(&made);
    throw;
  }
}

// It is not to be: what welcome did is undone, unless the worker's death has.
void worker_pool::turn_out(hand& from, const base::id& id) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!from.reserved.contains(id)) return;
    from.lent.erase(id);
  }
  abandon_reserved(from, id, "its name was taken");
  actor_names::global().give_back(id, 1);
}

// The actor of that name, whose construction comes or never will; null: it is none of those.
exec::actor_core* worker_pool::take_reserved(hand& from, const base::id& id) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = from.reserved.find(id);
  if (found == from.reserved.end()) return nullptr;
  exec::actor_core* const core = found->second;
  from.reserved.erase(found);
  return core;
}

bool worker_pool::abandon_reserved(hand& from, const base::id& id, std::string_view why) noexcept {
  exec::actor_core* const core = take_reserved(from, id);
  if (core == nullptr) return false;
  try {
    abandon_core(*core, error(errc::actor_lost, std::string(why)));
  } catch (const std::bad_alloc&) {
    abandon_core(*core, error::out_of_memory());
  }
  return true;
}

// The worker is gone, or the runtime ends: what it had asked for is forgotten.
void worker_pool::forget_questions(hand& of) noexcept {
  std::shared_ptr<worker_facts> facts;
  std::shared_ptr<worker_things> things;
  std::shared_ptr<worker_monitors> monitors;
  {
    const std::lock_guard lock(mutex_);
    facts = std::move(of.facts);
    things = std::move(of.things);
    monitors = std::move(of.monitors);
  }
  if (facts != nullptr) facts->end();
  if (things != nullptr) things->end();
  if (monitors != nullptr) monitors->end();
  for (;;) {
    base::id next;
    {
      const std::lock_guard lock(mutex_);
      if (of.reserved.empty()) return;
      next = of.reserved.begin()->first;
    }
    abandon_reserved(of, next, "its isolated worker ended before it was made");
  }
}

}  // namespace manta::inline v0::node
