// SPDX-License-Identifier: Apache-2.0
#include "node/worker_questions.hpp"

#include <manta/codec/errors.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/outside.hpp>
#include <manta/node/carrier.hpp>

#include "node/actor_names.hpp"
#include "node/trip.hpp"

namespace manta::inline v0::node {

namespace {

std::atomic<worker_questions*> asks_here{nullptr};
std::atomic<worker_questions*> asks_all{nullptr};

}  // namespace

worker_questions* worker_questions::here() noexcept {
  return asks_here.load(std::memory_order_acquire);
}

worker_questions* worker_questions::for_all() noexcept {
  return asks_all.load(std::memory_order_acquire);
}

worker_questions::worker_questions(std::uint64_t worker,
                                   void (*sends)(void* to, workbench& on) noexcept, void* to,
                                   std::atomic<std::uint32_t>& is_making, scope asked_here,
                                   std::uint64_t life) noexcept
    : worker_(worker),
      send_(sends),
      to_(to),
      is_making_(is_making),
      life_(life),
      last_(life << life_shift) {
  if (asked_here != scope::none) asks_here.store(this, std::memory_order_release);
  if (asked_here == scope::all) asks_all.store(this, std::memory_order_release);
}

void worker_questions::leave() noexcept {
  for (std::atomic<worker_questions*>* const at : {&asks_here, &asks_all}) {
    worker_questions* self = this;
    at->compare_exchange_strong(self, nullptr);
  }
}

void worker_questions::write_question(workbench& on, const base::id& request, wire::question what,
                                      const spec::parcel_view& with) {
  const result<void> written = on.writer.write({request, 1, 0}, wire::ask_view{what, with});
  if (!written) raise(errc::encode_failed, written.error().message());
}

void worker_questions::tell(const writer& write) {
  const borrowed_workbench on;
  write(*on, {worker_, question_mark | life_ << life_shift});
  send_(to_, *on);
}

void worker_questions::begin(const writer& write, taker then, std::uint64_t* told) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (over_.has_value()) over_->raise();
    number = ++last_ | question_mark;
    if (told != nullptr) *told = number;  // `then` may read it
    asked_.emplace(number, std::move(then));
  }
  // Or two threads of the node could handle two questions of one task in the wrong order.
  is_making_.store(1, std::memory_order_relaxed);
  try {
    const borrowed_workbench on;
    on->question = number;
    write(*on, {worker_, number});
    send_(to_, *on);
  } catch (...) {
    // Else `end` has answered it, or is about to: who asked hears of that, and only of that.
    const std::lock_guard lock(mutex_);
    if (asked_.erase(number) > 0) throw;
  }
}

void worker_questions::end(const error& why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!over_.has_value()) over_ = why;
  }
  end_asked(why, UINT64_MAX);
}

void worker_questions::end_asked(const error& why, std::uint64_t until) noexcept {
  std::unordered_map<std::uint64_t, taker> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(asked_);
    for (auto at = left.begin(); at != left.end();) {
      const auto one = at++;
      if (one->first > until) asked_.insert(left.extract(one));
    }
  }
  try {
    const wire::error_record record(why);
    const wire::result_view said{.task = {1, 1}, .outcome = record.view()};
    for (const auto& [number, then] : left) then(said);
  } catch (const std::bad_alloc&) {
    std::abort();  // who asked would wait for ever
  }
}

bool worker_questions::answer(std::uint64_t number, const wire::result_view& came) noexcept {
  if ((number & question_mark) == 0) return false;
  taker then;
  {
    const std::lock_guard lock(mutex_);
    const auto found = asked_.find(number);
    if (found == asked_.end()) return true;
    then = std::move(found->second);
    asked_.erase(found);
  }
  then(came);
  return true;
}

void worker_questions::wait(exec::parker& until) {
  exec::outside* const away = exec::elsewhere.load(std::memory_order_acquire);
  const bool is_worker = away != nullptr && away->asks_elsewhere;
  while (!until.is_signalled()) {
    if (is_worker) {
      away->sleep(until, {}, nullptr);
    } else {  // a node that asks another one
      exec::executor::sleep(until, {});
    }
  }
}

// The answer is a handle or nothing. It is made of the message by who hears that, since what it
// does not take goes back to the node.
exec::actor_core* worker_questions::ask_actor(const writer& write, const exec::actor_ops* kind) {
  struct waiting {
    exec::parker nap;
    exec::actor_core* found = nullptr;
    std::optional<error> why;
  };
  const auto until = std::make_shared<waiting>();
  begin(write, [until, kind](const wire::result_view& came) {
    try {
      if (const auto* const failure = std::get_if<wire::error_view>(&came.outcome)) {
        until->why = wire::to_error(*failure);
      } else {
        const auto& value = std::get<spec::parcel_view>(came.outcome);
        if (!value.references.empty()) {
          until->found = borrow_actor(value.references.front().what, kind);
        }
      }
    } catch (...) {
      until->why = describe_current_exception("an answer of the node");
    }
    until->nap.signal();
  });
  wait(until->nap);
  if (until->why) until->why->raise();
  return until->found;
}

exec::actor_core* worker_questions::find_actor(const std::string& name,
                                               const std::string& name_space,
                                               const exec::actor_ops* kind) {
  const actor_question asked{name, name_space, kind->type};
  return ask_actor(
      [&asked](workbench& on, const base::id& request) {
        on.out.clear();
        write_question(on, request, wire::question::find_actor, codec::encode(on.out, asked));
      },
      kind);
}

exec::actor_core* worker_questions::reserve(exec::actor_core* made, const spawn_asked& asked,
                                            const exec::actor_ops* kind) {
  is_making_.store(1, std::memory_order_relaxed);  // before the first message of it
  actor_names& names = actor_names::global();
  const base::id id = names.reserve(made, worker_);
  try {
    auto note = std::make_unique<mirror_note>(id);
    exec::actor_core* const living = ask_actor(
        [&](workbench& on, const base::id& request) {
          write_reservation(on, *made, asked, id, request);
        },
        kind);
    if (living == nullptr) {
      made->seat = note.release();
    } else {
      names.forget(made);
    }
    return living;
  } catch (...) {
    names.forget(made);
    throw;
  }
}

}  // namespace manta::inline v0::node
