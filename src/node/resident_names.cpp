// SPDX-License-Identifier: Apache-2.0
// Cores of actors that others are about to make here, and whose names are taken before:
// resident_actors.hpp, far_names.hpp.
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <manta/exec/executor.hpp>

#include "node/far_ids.hpp"
#include "node/far_names.hpp"
#include "node/resident.hpp"
#include "node/resident_actors.hpp"
#include "node/trip.hpp"
#include "node/worker_facts.hpp"

namespace manta::inline v0::node {

// Its maker has it from here on, and gives it back if the name is not to be had.
void resident_actors::reserve(
    peers& by, std::uint64_t from, const wire::spawn_view& asked,
    const std::function<void(const result<control::name_holder>& who)>& then) {
  const bool is_nonsense = !asked.reserves || asked.options == nullptr ||
                           asked.options->name.empty() || maker_of(asked.actor) != from;
  if (is_nonsense) raise(errc::decode_failed, "an actor that wants a name, and is none");
  if (asked.detached) far_names::global().check_outlives_here();
  const resident_ptr one = make(by, from, asked);
  one->is_reserved.store(true);
  const auto is_not_to_be = [this, one, from] {
    give_up_reserved(*one, exec::ended_error(), false);
    far_handles::global().take_back_from_maker(one->id, from);
  };
  const control::claimed_name name{std::string(asked.name_space), std::string(asked.options->name)};
  try {
    far_handles::global().lend_to_maker(one->id, from);
    {
      // Before it is found by its name: then it goes to others by its id.
      const std::lock_guard lock(mutex_);
      residents_.emplace(one->id, one);
      names_.emplace(one->core, one->id);
    }
    far_names::global().hold(one->core, name,
                             [this, one, then, is_not_to_be,
                              is_kept = asked.detached](const result<control::name_holder>& who) {
                               if (who && *who == control::name_holder{} && is_kept)
                                 far_names::global().keep(one->core);
                               if (!who) {
                                 is_not_to_be();
                               } else if (*who != control::name_holder{}) {
                                 // Its maker gives it back, as one that it has had.
                                 give_up_reserved(*one, exec::ended_error(), false);
                               }
                               then(who);
                             });
  } catch (...) {
    is_not_to_be();
    throw;
  }
  // Who was lost before this was in the list was not found there.
  if (!by.has(from)) lose_reserved(from);
}

// The loop's thread. Null: it has ended, and its maker is told so.
resident_actors::resident_ptr resident_actors::take_reserved(
    std::uint64_t from, const peers::kept_message& message) noexcept {
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(message.bytes);
  const auto* const asked = read ? std::get_if<wire::spawn_view>(&read->body) : nullptr;
  if (asked == nullptr || maker_of(asked->actor) != from) return nullptr;
  resident_ptr one = find(asked->actor);
  return one != nullptr && one->is_reserved.exchange(false) ? one : nullptr;
}

// It is never made.
void resident_actors::give_up_reserved(resident& one, const error& why, bool was_told) noexcept {
  if (!one.is_reserved.exchange(false)) return;
  {
    const std::lock_guard lock(mutex_);
    if (!was_told) one.from = 0;
    unlist(one);
  }
  abandon_core(*one.core, why);
}

// Those of a maker that is lost; not on the loop's thread, since their calls end.
void resident_actors::lose_reserved(std::uint64_t maker) {
  std::vector<resident_ptr> lost;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, one] : residents_) {
      if (one->from == maker && one->is_reserved.load()) lost.push_back(one);
    }
  }
  if (lost.empty()) return;
  facts_line::global().add([this, lost = std::move(lost)] {
    for (const resident_ptr& one : lost) {
      give_up_reserved(*one, error(errc::actor_lost, "its node was lost before it was made"), true);
    }
  });
}

// Under the mutex.
void resident_actors::unlist(const resident& one) noexcept {
  const auto found = residents_.find(one.id);
  if (found != residents_.end() && found->second.get() == &one) residents_.erase(found);
  const auto named = names_.find(one.core);
  if (named != names_.end() && named->second == one.id) names_.erase(named);
}

}  // namespace manta::inline v0::node
