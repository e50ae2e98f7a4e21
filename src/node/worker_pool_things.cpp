// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <manta/codec/errors.hpp>

#include "node/large_ranges.hpp"
#include "node/trip.hpp"
#include "node/worker_hand.hpp"
#include "node/worker_pool.hpp"
#include "node/worker_things.hpp"

// Channels, semaphores and barriers of the node that isolated workers use, seen from the pool:
// shared_names.hpp has the story.

namespace manta::inline v0::node {

// What a worker names it has been given. False: nonsense.
bool worker_pool::has_all_shared(hand& of, std::span<const spec::reference> came) noexcept {
  const auto is_one = [](const spec::reference& one) {
    return is_of_thing(one.kind) || is_shared(one.what);
  };
  if (std::ranges::none_of(came, is_one)) return true;
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(came, [&](const spec::reference& one) {
    return !is_one(one) || (is_shared(one.what) && of.lent.contains(one.what));
  });
}

std::shared_ptr<worker_things> worker_pool::things_of(const std::shared_ptr<hand>& of) {
  const std::lock_guard lock(mutex_);
  if (of->is_dead) return nullptr;
  if (of->things == nullptr) {
    const std::weak_ptr<hand> to = of;
    of->things = std::make_shared<worker_things>(
        [to](std::uint64_t number, const worker_things::writer& write, bool /*may_wait*/) {
          const auto alive = to.lock();
          const bool is = alive != nullptr && global().say_written(*alive, number, write);
          return is ? worker_things::told::yes : worker_things::told::no;
        },
        [to](std::uint64_t number, const error& why) {
          if (const auto alive = to.lock()) global().answer_error(*alive, number, why);
        },
        facts_line::global());
  }
  return of->things;
}

void worker_pool::on_thing(const std::shared_ptr<hand>& from, std::uint64_t number,
                           const wire::ask_view& asked) {
  const opened_parcel opened(asked.with);
  codec::in_archive in(opened.view());
  const auto question = codec::read<thing_question>(in);
  const base::id id{question.high, question.low};
  bool is_lent = false;
  {
    const std::lock_guard lock(mutex_);
    is_lent = from->lent.contains(id);
  }
  const std::optional<shared_thing> of = shared_names::global().find(id);
  if (!is_lent || !is_shared(id) || !of) raise(errc::decode_failed, "a thing that it has not");
  if (const auto things = things_of(from)) things->ask(number, *of, question, in);
}

// False: the worker is gone, or was told why there is no answer.
bool worker_pool::say_written(hand& to, std::uint64_t number,
                              const std::function<void(workbench& on)>& write) noexcept {
  try {
    const borrowed_workbench on;
    on->out.clear();
    write(*on);
    on->out.finish();
    write_answer(*on, {1, number}, "an item of a channel");
    return reply(to, *on);
  } catch (...) {
    refuse_answer(to, {1, number});
    return false;
  }
}

// The runtime ends: who waits for an item, permits or others is asked to stop, as threads are then;
// who waits for an actor's end is told.
void worker_pool::stop_waiting_tasks() noexcept {
  tell_monitors_of_end();
  const std::lock_guard lock(mutex_);
  for (const auto& one : all_) {
    if (one->things == nullptr || !one->things->is_waiting()) continue;
    const auto stop = [&](const flight& f) {
      if (f.number != 0) say_order(*one, {worker_order::kind::stop, f.number});
    };
    for (const flight& f : one->flights) stop(f);
    for (const auto& [number, f] : one->off_stack) stop(f);
  }
}

}  // namespace manta::inline v0::node
