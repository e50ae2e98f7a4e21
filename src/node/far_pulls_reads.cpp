// SPDX-License-Identifier: Apache-2.0
// How what has stayed elsewhere is asked for, and how who reads it waits for room and its bytes.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <manta/exec/cancellation.hpp>
#include <manta/exec/executor.hpp>

#include "node/array_home.hpp"
#include "node/beside_store.hpp"
#include "node/far_pulls.hpp"
#include "node/reading_stop.hpp"

namespace manta::inline v0::node {

bool fetch_arrays(std::span<array_block* const> all, const base::deadline& until) {
  return far_pulls::global().fetch(all, until, reading_stop::of_this_thread());
}

/// What a fetch has asked for; what has not come when it ends is waited for no longer.
struct far_pulls::waits {
  explicit waits(far_pulls& of) noexcept : in(of) {}
  waits(const waits&) = delete;
  waits& operator=(const waits&) = delete;
  ~waits() { in.stop_waiting(std::span(all).subspan(done), are_cancelled); }

  far_pulls& in;
  std::vector<wait> all;
  std::size_t done = 0;
  bool are_cancelled = false;
};

namespace {

std::uint64_t bytes_to_come(std::span<array_block* const> all) noexcept {
  std::uint64_t sum = 0;
  for (array_block* const one : all) {
    if (!one->is_away(0)) continue;
    const auto& block = static_cast<const distant_block&>(*one);
    if (block.taken() == nullptr) sum += block.from().bytes;
  }
  return sum;
}

// Room beside the store for all that are to come, or for none: two that had some of it each could
// wait for each other.
beside_store keep_beside(std::span<array_block* const> all) noexcept {
  auto kept = beside_store::take(bytes_to_come(all), array_home::global().limit_bytes());
  return kept ? *std::move(kept) : beside_store();
}

bool rest_together(std::span<array_block* const> all) noexcept {
  std::uint64_t sum = 0;
  for (const array_block* const one : all) sum += one->bytes().size();
  const array_home& home = array_home::global();
  return own::room_limits::rest_together(sum, home.limit_bytes(), home.has_disk());
}

}  // namespace

// Who finds no room asks again, as long as who makes an array waits for it, whichever node it is
// that has none. A thread that others wait for hears at once.
bool far_pulls::fetch(std::span<array_block* const> all, const base::deadline& until,
                      const std::stop_token& stop) {
  const bool is_patient = may_wait();
  const own::room_wait line(base::now(), array_home::global().store_wait(), is_patient);
  for (bool is_first = true;; is_first = false) {
    try {
      if (!fetch_now(all, until, stop, line)) return false;
      if (wake_taken(all, is_patient)) return true;
      raise_on_disk();
    } catch (const store_full&) {
      // The first one may have been that of who takes what nobody reads, and does not wait.
      const bool may_be_others = is_first && is_patient;
      if (!may_be_others && line.is_over(base::now())) throw;
    }
    exec::parker nap;
    const std::stop_callback wakes(stop, [&nap] { nap.signal(); });
    const base::time_point next = base::now() + own::room_wait::between_steps;
    exec::executor::sleep(nap, base::earlier(until, next));
    if (stop.stop_requested()) exec::cancelled_error().raise();
    if (until && base::now() >= *until) return false;
  }
}

// Behind one that has no room none is asked for: each would take its time to find that out.
bool far_pulls::fetch_now(std::span<array_block* const> all, const base::deadline& until,
                          const std::stop_token& stop, const own::room_wait& line) {
  waits my(*this);
  my.all.reserve(all.size());
  asking how;
  how.room.is_for_store = line.is_early(base::now(), until) && array_home::global().has_disk();
  std::optional<beside_store> kept;
  if (all.size() > 1) {
    how.is_of_many = rest_together(all);
    how.room.kept = &kept.emplace(how.room.is_for_store ? beside_store() : keep_beside(all));
  }
  for (array_block* const one : all) {
    if (!one->is_away(0)) continue;
    my.are_cancelled = stop.stop_requested();
    if (my.are_cancelled) exec::cancelled_error().raise();
    auto& block = static_cast<distant_block&>(*one);
    if (block.taken() != nullptr) continue;
    // What it has waited for others counts.
    const base::time_point now = base::now();
    how.room.line_end = line.step_end(now, until);
    // Others may have taken it past that moment.
    if (how.room.is_for_store) {
      how.room.line_end = std::min(how.room.line_end, now + own::room_wait::soon);
    }
    const asked is = ask(block, how);
    my.all.emplace_back(&block, is.who);
    if (is.is_refused) break;
  }
  kept.reset();
  for (const auto& [block, who] : my.all) {
    const std::stop_callback wakes(stop, [&nap = who->nap] { nap.signal(); });
    const bool has_ended = exec::executor::sleep(who->nap, until);
    my.are_cancelled = stop.stop_requested();
    if (my.are_cancelled) exec::cancelled_error().raise();
    if (!has_ended) return false;
    ++my.done;
    if (who->why.has_value()) who->why->raise();
  }
  return true;
}

std::shared_ptr<pull_room> far_pulls::room_for(std::uint64_t bytes, const asking& how) {
  if (!how.takes) return std::make_shared<pull_room>(make_read_array(bytes, how.room));
  const bool leaves = *how.takes == plea::leaves;
  return std::make_shared<pull_room>(leaves ? make_array_copy(bytes) : make_taken_array(bytes));
}

// Asked once, whoever waits. Room is taken without the mutex, since that may wait: who takes it in
// any case looks for some, too, while its reader does.
far_pulls::asked far_pulls::ask(distant_block& of, const asking& how) {
  auto me = std::make_shared<waiter>();
  auto fresh = std::make_shared<pull>();
  const bool takes = how.takes.has_value();
  fresh->is_taken = takes;
  fresh->is_of_many = how.is_of_many;
  if (!takes) fresh->waiting.push_back(me);
  of.hold();
  fresh->block = &of;
  pull_ptr is = fresh;
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    if (by_ == nullptr) exec::ended_error().raise();
    if (by_->is_loop()) raise(errc::unsupported, "the loop's thread can't wait for an array");
    // In the next runtime its id is another array's.
    if (of.from().since != far_handles::global().run()) let_go_error().raise();
    if (const auto known = numbers_.find(&of); known != numbers_.end()) {
      number = known->second;
      is = pulls_.find(number)->second;
      if (!takes) is->waiting.push_back(me);
      if (takes && !std::exchange(is->is_taken, true)) taken_bytes_ += of.from().bytes;
      if (how.takes != plea::leaves || is->is_begun) return {me};
    } else {
      if (of.here() != nullptr || of.taken() != nullptr) {
        me->nap.signal();
        return {me};
      }
      number = ++last_;
      numbers_.emplace(&of, number);
      try {
        pulls_.emplace(number, fresh);
      } catch (...) {
        numbers_.erase(&of);
        throw;
      }
      if (takes) taken_bytes_ += of.from().bytes;
    }
  }
  try {
    start(number, is, room_for(of.from().bytes, how));
    return {me};
  } catch (...) {
    const error why = describe_current_exception("fetching an array");
    // It is its first one's that has none.
    return {me, is == fresh && refuse(number, *is, why)};
  }
}

// False: another one has had room for it meanwhile.
bool far_pulls::refuse(std::uint64_t number, pull& of, const error& why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(of.is_begun, true)) return false;
  }
  end(number, &why);
  return true;
}

// The first room that there is for it.
void far_pulls::start(std::uint64_t number, const pull_ptr& of,
                      std::shared_ptr<pull_room> room) noexcept {
  const std::uint64_t owner = of->block->from().owner;
  const bool was_lost = of->block->from().run == 0;
  bool is_reached = false;
  std::uint64_t unasked = 0;
  try {
    const std::lock_guard lock(mutex_);
    if (by_ == nullptr || !pulls_.contains(number)) return;  // ended meanwhile, or close ends it
    if (std::exchange(of->is_begun, true)) return;
    of->room = std::move(room);
    // Of one that can't be reached from here on gone() hears, and finds this one with its room.
    is_reached = !was_lost && by_->can_reach(owner);
    if (is_reached) of->is_in_bulk = begin_bulk(number, *of);
    if (is_reached) unasked = ask_more(owner);
  } catch (...) {
    const error why = describe_current_exception("fetching an array");
    return end(number, &why);
  }
  end_unasked(unasked);
  if (is_reached) return;
  seek(number, was_lost ? "it was before the array came" : "it can't be reached");
}

}  // namespace manta::inline v0::node
