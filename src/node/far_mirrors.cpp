// SPDX-License-Identifier: Apache-2.0
// Cores of actors that live in other nodes, whose handles came here or go away: far_actors.hpp.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/parker.hpp>

#include "node/far_actors.hpp"
#include "node/far_ids.hpp"
#include "node/far_names.hpp"
#include "node/resident_actors.hpp"
#include "node/trade.hpp"
#include "node/worker_monitors.hpp"

namespace manta::inline v0::node {

// ---- handles that go away

namespace {

// What a weak handle is to is gone, or nobody here has it; of an earlier runtime's its id may be
// another one's by now.
far_name name_after_all(const exec::actor_core& of) {
  const far_handles& handles = far_handles::global();
  const exec::known_actor* const known = of.known_as();
  if (known != nullptr && known->run == handles.run()) return {known->id, known->home};
  const std::uint64_t self = handles.self();
  return {far_actor_id(self, far_actors::next_number()), self};
}

}  // namespace

// One wait for an actor that is not known where it lives.
class far_actors::naming {
 public:
  naming(far_actors& in, const exec::actor_core* of) : in_(in), of_(of) {}
  ~naming() {
    const std::lock_guard lock(in_.mutex_);
    if (auto* const seat = static_cast<note*>(of_->seat)) std::erase(seat->waiting, &nap_);
  }
  naming(const naming&) = delete;
  naming& operator=(const naming&) = delete;

  // Under the mutex.
  void wait_on(note& seat) { seat.waiting.push_back(&nap_); }
  // A worker lends its core: the construction may be in its own queue.
  void sleep() { exec::executor::sleep(nap_, {}); }

 private:
  far_actors& in_;
  const exec::actor_core* of_;
  exec::parker nap_;
};

far_name far_actors::name_of(exec::actor_core* core, std::uint64_t to, const char* function,
                             bool may_be_over) {
  for (;;) {
    naming wait(*this, core);
    bool waits_for_arguments = false;
    std::uint64_t lost_in = 0;
    {
      const std::lock_guard lock(mutex_);
      auto* const seat = static_cast<note*>(core->seat);
      if (!is_open_.load()) exec::ended_error().raise();
      const bool is_over = seat == nullptr || seat->is_left || seat->is_lost || core->has_ended();
      if (is_over && may_be_over) return name_after_all(*core);
      if (seat == nullptr || seat->is_left || core->has_ended()) ended_there_error(*core).raise();
      if (seat->is_lost) {
        lost_in = seat->node;
      } else if (seat->is_known || (seat->has_gone && to == seat->node)) {
        return {seat->id, seat->node};
      } else {
        waits_for_arguments = !seat->is_sent;
        wait.wait_on(*seat);
      }
    }
    if (lost_in != 0) lost_error(*core, lost_in, "it can't be reached from here").raise();
    // These may wait for this very thread.
    if (waits_for_arguments && trade::is_own_thread()) {
      raise(errc::unsupported,
            fmt::format("{}: the actor whose handle is to go to another node waits for its "
                        "constructor's arguments; pass the handle when it has been made",
                        readable_name(function)));
    }
    wait.sleep();
  }
}

// ---- cores that are made before the actor can be

far_name far_actors::whereabouts(const exec::actor_core* of) const {
  const std::lock_guard lock(mutex_);
  const auto* const seat = static_cast<const note*>(of->seat);
  if (seat == nullptr) ended_there_error(*of).raise();
  return {seat->id, seat->node};
}

std::optional<placement> far_actors::place_there(const exec::actor_core* of) const {
  const std::lock_guard lock(mutex_);
  const auto* const seat = static_cast<const note*>(of->seat);
  const bool is = seat != nullptr && seat->where.by == placement::rule::group;
  return is ? std::optional<placement>(seat->where) : std::nullopt;
}

// Its node counts this one as who has it, whatever becomes of it: it may have ended by now.
void far_actors::reserved(const exec::actor_core* of, const far_name& at, bool is) {
  far_handles::global().has_made(at.id, at.owner);
  {
    const std::lock_guard lock(mutex_);
    if (auto* const seat = is ? static_cast<note*>(of->seat) : nullptr) {
      seat->is_reserved = seat->is_known = true;
      wake(*seat);
      return;
    }
  }
  far_handles::global().lost_core(at.id);
}

void far_actors::unnamed(const exec::actor_core* of) noexcept { far_names::global().let_go(of); }

// ---- nodes that are lost

// The looker, which ends what is lost, may be among those that wait.
void far_actors::on_gone(std::uint64_t node) noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, one] : notes_) {
    if (one->node != node) continue;
    one->is_lost = true;
    wake(*one);
  }
}

// Under the mutex.
void far_actors::wake(note& of) noexcept {
  for (exec::parker* const each : of.waiting) each->signal();
  of.waiting.clear();
}

void far_actors::on_known(std::uint64_t number) noexcept {
  peers* const by = peers_.load();
  if (by == nullptr) return;
  const std::lock_guard lock(mutex_);
  note* const one = made_here(far_actor_id(by->epoch(), number));
  if (one == nullptr) return;
  one->is_known = true;
  wake(*one);
}

// ---- handles that came

// With a handle; null: there is none that takes one, and `was_left` says whether there was one.
exec::actor_core* far_actors::known_here(const base::id& actor, bool& was_left) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = notes_.equal_range(actor);
  const auto at = std::find_if(first, last, [](const auto& of) { return of.second->counts; });
  if (at == last) return nullptr;
  if (at->second->core->try_add_handle()) return at->second->core;
  // It is about to be left, and goes on to its end beside the next one.
  at->second->counts = false;
  was_left = true;
  return nullptr;
}

exec::actor_core* far_actors::mirror_of(const base::id& actor, std::uint64_t owner,
                                        const exec::actor_ops* kind) {
  const std::lock_guard borrow(borrowing_);
  bool was_left = false;
  exec::actor_core* const known = known_here(actor, was_left);
  if (known != nullptr) return known;
  // What came with the message that is read counts, too.
  if (was_left) far_handles::global().lost_core(actor);
  auto fresh = std::make_unique<note>();
  exec::mirror_core* const made = exec::mirror_core::make(kind, true);
  bool counts = false;
  try {
    made->know_as({actor, owner, far_handles::global().run()});
    if (lives_nowhere(actor, owner, made)) return made;
    fresh->id = actor;
    fresh->node = owner;
    fresh->core = made;
    fresh->is_made_here = false;
    fresh->is_sent = fresh->has_gone = fresh->is_known = fresh->has_begun = true;
    far_handles::global().has_core(actor);
    counts = true;
    const std::lock_guard lock(mutex_);
    const auto at = notes_.emplace(actor, std::move(fresh));
    made->seat = at->second.get();
    made->pin();
  } catch (...) {
    if (counts) far_handles::global().lost_core(actor);
    made->drop_handle();
    throw;
  }
  end_if_lost(made, owner);
  return made;
}

// Who ends what is lost may have looked before this one was there, or before it asked.
void far_actors::end_if_lost(exec::actor_core* mirror, std::uint64_t owner) noexcept {
  const peers* const by = peers_.load();
  if (by == nullptr || by->has(owner)) return;
  note_ptr lost = take_note_of(mirror);
  if (lost == nullptr) return;
  end(std::move(lost), {end_reason::process_lost, {}}, lost_error(*mirror, owner, "it has left"));
}

// Whether its node is gone, or is this one and it has ended; then `mirror` has, too.
bool far_actors::lives_nowhere(const base::id& actor, std::uint64_t owner,
                               exec::actor_core* mirror) {
  peers* const by = peers_.load();
  if (owner == far_handles::global().self()) {
    const actor_end how = resident_actors::global().how_ended(actor);
    mirror->note_end(how);
    mirror->lose_elsewhere(how.reason, error(errc::actor_lost, how.message));
    return true;
  }
  if (is_open_.load() && by != nullptr && by->has(owner)) return false;
  mirror->lose_elsewhere(end_reason::process_lost, lost_error(*mirror, owner, "it has left"));
  return true;
}

// Its maker is told anyway.
void far_actors::watch(exec::actor_core* of) {
  base::id id;
  std::uint64_t node = 0;
  {
    const std::lock_guard lock(mutex_);
    auto* const seat = static_cast<note*>(of->seat);
    if (seat == nullptr || seat->is_made_here || std::exchange(seat->is_watched, true)) return;
    id = seat->id;
    node = seat->node;
  }
  const borrowed_workbench on;
  on->out.clear();
  const end_question what{id.high, id.low};
  send_order(node, line_about(peers::release, id),
             wire::ask_view{wire::question::actor_end, codec::encode(on->out, what)});
  end_if_lost(of, node);
}

}  // namespace manta::inline v0::node
