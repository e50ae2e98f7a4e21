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

// In line with those that make arrays, as they wait: not so long that what is let go of beside the
// store, or that nobody reads any more, goes unseen.
std::chrono::milliseconds patience_of(base::time_point end, const base::deadline& until) {
  constexpr duration longest = std::chrono::seconds(1);
  const base::time_point last = until ? std::min(end, *until) : end;
  const duration left = std::clamp(duration(last - base::now()), duration(room_soon), longest);
  return std::chrono::duration_cast<std::chrono::milliseconds>(left);
}

std::uint64_t bytes_to_come(std::span<array_block* const> all) noexcept {
  std::uint64_t sum = 0;
  for (array_block* const one : all) {
    if (!one->is_away(0)) continue;
    const auto& block = static_cast<const distant_block&>(*one);
    if (block.taken() == nullptr) sum += block.from().bytes;
  }
  return sum;
}

// `kept`: room beside the store for those that are to come, all or none: two that had some of it
// each could wait for each other.
// True: the store has room for them together, so they rest until all have come. Not where there is
// a disk: what rests may go there, and comes back into the store only, however much room is beside.
bool keep_together(std::span<array_block* const> all, room_in where,
                   std::optional<beside_store>& kept) noexcept {
  const array_home& home = array_home::global();
  const std::uint64_t limit = home.limit_bytes();
  std::uint64_t sum = 0;
  for (const array_block* const one : all) sum += one->bytes().size();
  const bool is_for_store = where == room_in::store && home.has_disk();
  if (!is_for_store) {
    if (auto taken = beside_store::take(bytes_to_come(all), limit)) kept.emplace(*std::move(taken));
  }
  if (!kept.has_value()) kept.emplace();
  return sum <= limit && !home.has_disk();
}

}  // namespace

// Who finds no room asks again, as long as who makes an array waits for it, whichever node it is
// that has none; for a moment only the store's is asked for. A thread that others wait for hears at
// once.
bool far_pulls::fetch(std::span<array_block* const> all, const base::deadline& until,
                      const std::stop_token& stop) {
  constexpr auto pause = std::chrono::milliseconds(20);
  constexpr duration longest_for_store = std::chrono::milliseconds(250);
  const bool waits = may_wait();
  const duration wait = array_home::global().store_wait();
  const base::time_point begun = base::now();
  for (bool is_first = true;; is_first = false) {
    const duration past = base::now() - begun;
    const bool is_early = waits && past < std::min(wait / 2, longest_for_store);
    asking how{.where = is_early ? room_in::store : room_in::store_or_beside};
    if (!waits) how.patience = {};
    if (waits && !is_early && !is_first) how.patience = patience_of(begun + wait, until);
    try {
      if (!fetch_now(all, until, stop, how)) return false;
      if (wake_taken(all, waits)) return true;
      raise_on_disk();
    } catch (const store_full&) {
      // The first one may have been that of who takes what nobody reads, and does not wait.
      if (!waits || (!is_first && base::now() - begun >= wait)) throw;
    }
    exec::parker nap;
    const std::stop_callback wakes(stop, [&nap] { nap.signal(); });
    exec::executor::sleep(nap, base::earlier(until, base::now() + pause));
    if (stop.stop_requested()) exec::cancelled_error().raise();
    if (until && base::now() >= *until) return false;
  }
}

// Behind one that has no room none is asked for: each would take its time to find that out.
bool far_pulls::fetch_now(std::span<array_block* const> all, const base::deadline& until,
                          const std::stop_token& stop, asking how) {
  waits my(*this);
  my.all.reserve(all.size());
  std::optional<beside_store> kept;
  if (all.size() > 1) how.is_of_many = keep_together(all, how.where, kept);
  if (kept.has_value()) how.kept = &*kept;
  for (array_block* const one : all) {
    if (!one->is_away(0)) continue;
    if (how.is_refused) break;
    my.are_cancelled = stop.stop_requested();
    if (my.are_cancelled) exec::cancelled_error().raise();
    // What others waited for has taken of the time.
    if (until) how.patience = std::min(how.patience, patience_of(*until, until));
    auto& block = static_cast<distant_block&>(*one);
    if (block.taken() == nullptr) my.all.emplace_back(&block, ask(block, how));
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

// Asked once, whoever waits. Room is taken without the mutex, since that may wait: who takes it in
// any case looks for some, too, while its reader does.
far_pulls::waiter_ptr far_pulls::ask(distant_block& of, asking& how) {
  auto me = std::make_shared<waiter>();
  auto fresh = std::make_shared<pull>();
  fresh->is_taken = how.takes;
  fresh->is_of_many = how.is_of_many;
  if (!how.takes) fresh->waiting.push_back(me);
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
      if (!how.takes) is->waiting.push_back(me);
      if (how.takes && !std::exchange(is->is_taken, true)) taken_bytes_ += of.from().bytes;
      if (!how.takes || how.where != room_in::any || is->is_begun) return me;
    } else {
      if (of.here() != nullptr || of.taken() != nullptr) {
        me->nap.signal();
        return me;
      }
      number = ++last_;
      numbers_.emplace(&of, number);
      try {
        pulls_.emplace(number, fresh);
      } catch (...) {
        numbers_.erase(&of);
        throw;
      }
      if (how.takes) taken_bytes_ += of.from().bytes;
    }
  }
  try {
    start(number, is,
          std::make_shared<pull_room>(
              make_fetched_array(of.from().bytes, how.where, how.patience, how.kept)));
  } catch (...) {
    const error why = describe_current_exception("fetching an array");
    // It is its first one's that has none.
    how.is_refused = is == fresh && refuse(number, *is, why);
  }
  return me;
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
