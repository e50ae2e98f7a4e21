// SPDX-License-Identifier: Apache-2.0
#include "node/far_copies.hpp"

#include <memory>
#include <new>
#include <utility>
#include <variant>
#include <vector>

#include <manta/codec/codec.hpp>

#include "node/array_home.hpp"
#include "node/facts_line.hpp"
#include "node/far_arrays.hpp"
#include "node/far_ids.hpp"
#include "node/far_pulls.hpp"
#include "node/peer_question.hpp"
#include "node/resting_array.hpp"
#include "node/trip.hpp"
#include "node/workbench.hpp"
#include "own/copy_limits.hpp"

namespace manta::inline v0::node {

namespace {

using namespace std::chrono_literals;

constexpr duration until_memory_for_copies = 10ms;

struct drop_copy {
  void operator()(array_block* of) const noexcept { of->drop(); }
};
using copy_hold = std::unique_ptr<array_block, drop_copy>;

// Null, and it is let go of: what has that name here is not what is asked for.
array_block* of_size(array_block* block, std::uint64_t bytes) noexcept {
  if (block == nullptr || block->bytes().size() == bytes) return block;
  block->drop();
  return nullptr;
}

}  // namespace

far_copies& far_copies::global() {
  static auto* const made = new far_copies;
  return *made;
}

void far_copies::begin() noexcept {
  close();
  const std::lock_guard lock(mutex_);
  is_open_ = true;
}

void far_copies::close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_open_ = false;
    searches_.clear();
    resting_.clear();
    waking_.clear();
    has_any_.store(false);
  }
  kept_.clear();
}

// ---- who looks for one

// It may be here, by another name or where nobody reads it.
void far_copies::seek(peers& by, std::uint64_t number, const copy_question& of) noexcept {
  try {
    if (find_here(number, of)) return;
  } catch (const std::exception&) {
    // No memory, no thread: another one may have it.
  }
  ask_others(by, number, of);
}

// False: others are to be asked, before it is read from the disk.
bool far_copies::find_here(std::uint64_t number, const copy_question& of) {
  array_block* block = find(of).block;
  resting_array* const rests = block == nullptr ? find_resting(of) : nullptr;
  if (rests != nullptr) {
    const std::unique_ptr<resting_array, drop_copy> held(rests);
    if (const auto is = wake_arrays({rests}, false)) block = is->front();
  }
  if (block == nullptr) return false;
  far_pulls::global().is_here(number, block);
  return true;
}

// No other node has it: it may lie on the disk here. What was to be its room is given back, since
// there may be none for both.
void far_copies::find_at_last(std::uint64_t number) noexcept {
  try {
    const std::optional<copy_question> of = far_pulls::global().let_room_go(number);
    resting_array* const one = of ? find_resting(*of) : nullptr;
    if (one != nullptr) return wake({nullptr, 0, number, *of}, one);
  } catch (const std::bad_alloc&) {
    // Then it is not found.
  }
  far_pulls::global().no_copy(number);
}

void far_copies::ask_others(peers& by, std::uint64_t number, const copy_question& of) noexcept {
  try {
    std::vector<std::uint64_t> among;
    for (const peers::member& one : by.all()) {
      if (one.epoch != of.owner && by.can_reach(one.epoch)) among.push_back(one.epoch);
    }
    std::vector<std::uint64_t> asked;
    {
      const std::lock_guard lock(mutex_);
      asked = searches_.begin(number, of.id(), among, base::now());
      if (!asked.empty()) has_any_.store(true);
    }
    if (asked.empty()) return find_at_last(number);
    by.turn_soon();
    for (const std::uint64_t one : asked) {
      const bool is_asked =
          ask_peer(by, one, {peers::pull, number}, wire::question::array_copy, of);
      if (!is_asked) heard(number, one, false);  // it is no member any more
    }
  } catch (...) {
    over(number);
    far_pulls::global().no_copy(number);
  }
}

// What is no answer is none that has it.
void far_copies::on_answer(std::uint64_t from, std::uint64_t number,
                           std::span<const std::byte> message) noexcept {
  bool has_it = false;
  try {
    const borrowed_workbench on;
    const result<const wire::message_view&> read = on->reader.read(message);
    const auto* const came = read ? std::get_if<wire::result_view>(&read->body) : nullptr;
    const auto* const value =
        came == nullptr ? nullptr : std::get_if<spec::parcel_view>(&came->outcome);
    has_it = value != nullptr && codec::decode<bool>(*value);
  } catch (...) {
    has_it = false;
  }
  heard(number, from, has_it);
}

void far_copies::heard(std::uint64_t number, std::uint64_t from, bool has_it) noexcept {
  own::copy_step next;
  {
    const std::lock_guard lock(mutex_);
    try {
      next = searches_.answered(number, from, has_it, base::now());
    } catch (const std::bad_alloc&) {
      next = searches_.answered(number, from, false, base::now());  // which takes none
    }
  }
  perform(number, next);
}

void far_copies::failed(std::uint64_t number) noexcept {
  own::copy_step next;
  {
    const std::lock_guard lock(mutex_);
    next = searches_.failed(number, base::now());
  }
  perform(number, next);
}

void far_copies::over(std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  searches_.over(number);
}

void far_copies::gone(std::uint64_t node) noexcept {
  own::copies::steps all;
  try {
    const std::lock_guard lock(mutex_);
    all = searches_.gone(node, base::now());
  } catch (const std::bad_alloc&) {
    return;  // its time is over at some point
  }
  perform(all);
}

// The one that is taken may be none that can be asked.
void far_copies::perform(std::uint64_t number, own::copy_step what) noexcept {
  while (what.is == own::copy_step::kind::take) {
    if (far_pulls::global().fetch_of(number, what.member)) return;
    const std::lock_guard lock(mutex_);
    what = searches_.failed(number, base::now());
  }
  if (what.is == own::copy_step::kind::none) find_at_last(number);
}

void far_copies::perform(const own::copies::steps& all) noexcept {
  for (const auto& [number, what] : all) perform(number, what);
}

// ---- who has one

void far_copies::on_question(peers& by, std::uint64_t from, std::uint64_t number,
                             const copy_question& what) {
  if (what.id() != far_array_id(what.owner, what.low)) return say(by, from, number, false);
  const found_copy found = find(what);
  if (const copy_hold held(found.block); held != nullptr) {
    return say(by, from, number, keep(what.id(), *held) || found.is_found_again);
  }
  if (resting_array* const one = find_resting(what)) return wake({&by, from, number, what}, one);
  say(by, from, number, false);
}

void far_copies::say(peers& by, std::uint64_t to, std::uint64_t number, bool has_it) {
  const base::id request{peers::copy_answer, number};
  const borrowed_workbench on;
  on->out.clear();
  on->references.clear();
  write_answer(*on, request, codec::encode(on->out, has_it));
  // False is of one that is gone.
  static_cast<void>(by.send_anyway(to, request, on->writer.pieces(), on->writer.size_bytes()));
}

far_copies::found_copy far_copies::find(const copy_question& what) noexcept {
  if (!is_far_array_id(what.id())) return {};
  array_block* block = of_size(far_pulls::global().copy_of(what.id()), what.bytes);
  if (block != nullptr) return {block, true};
  if (what.contents != 0) block = copy_cache::global().find(what.key(), base::now());
  if (block == nullptr) {
    block = of_size(far_arrays::global().view_named(what.id()), what.bytes);
  }
  return {block, false};
}

// With a hold.
resting_array* far_copies::find_resting(const copy_question& what) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = resting_.find(what.id());
  if (found == resting_.end() || found->second->size() != what.bytes) return nullptr;
  return found->second->try_hold() ? found->second : nullptr;
}

// Takes the hold over. What lies on the disk is read by a thread that may wait for it, once for all
// who ask meanwhile, and only if it can be kept.
void far_copies::wake(const asker& who, resting_array* one) {
  const std::shared_ptr<resting_array> held(one, [](resting_array* of) { of->drop(); });
  bool is_first = false;
  try {
    if (const auto is = wake_arrays({one}, false)) {
      if (!give(who, is->front())) refuse(who);
      return;
    }
    const bool has_room = who.node == 0 || kept_.has_room(one->size(), most_kept());
    if (!has_room || !waits_for_others(who, is_first)) return refuse(who);
  } catch (...) {
    return refuse(who);  // the disk has lost it, or no memory
  }
  if (!is_first) return;
  const base::id id = who.what.id();
  try {
    facts_line::of_copies().add([this, id, held] { wake_for_all(id, *held); });
  } catch (...) {
    for (const asker& one : all_who_wait_for(id)) refuse(one);
  }
}

// False: too many are woken, or wait for this one.
bool far_copies::waits_for_others(const asker& who, bool& is_first) {
  const std::lock_guard lock(mutex_);
  const auto known = waking_.find(who.what.id());
  is_first = known == waking_.end();
  if (!is_open_ || (is_first && waking_.size() >= own::copy_limits::most_woken)) return false;
  if (is_first) return waking_.emplace(who.what.id(), std::vector{who}).second;
  if (known->second.size() >= own::search_limits{}.most_asked) return false;
  known->second.push_back(who);
  return true;
}

std::vector<far_copies::asker> far_copies::all_who_wait_for(const base::id& id) noexcept {
  std::vector<asker> out;
  const std::lock_guard lock(mutex_);
  const auto known = waking_.find(id);
  if (known == waking_.end()) return out;  // its runtime has ended
  out.swap(known->second);
  waking_.erase(known);
  return out;
}

void far_copies::wake_for_all(const base::id& id, resting_array& one) noexcept {
  copy_hold is;
  try {
    if (const auto woken = wake_arrays({&one}, true)) is.reset(woken->front());
  } catch (...) {
    is.reset();  // the disk has lost it, or there is no room
  }
  for (const asker& who : all_who_wait_for(id)) {
    try {
      if (is != nullptr) is->hold();
      if (is == nullptr || !give(who, is.get())) refuse(who);
    } catch (...) {
      refuse(who);
    }
  }
}

// Takes the hold over. False: it can't be kept for them.
bool far_copies::give(const asker& who, array_block* block) {
  if (who.node == 0) {
    far_pulls::global().is_here(who.number, block);
    return true;
  }
  const copy_hold held(block);
  if (!keep(who.what.id(), *held)) return false;
  say(*who.by, who.node, who.number, true);
  return true;
}

void far_copies::refuse(const asker& who) noexcept {
  if (who.node == 0) return far_pulls::global().no_copy(who.number);
  try {
    say(*who.by, who.node, who.number, false);
  } catch (...) {
    return;  // no memory: who asks waits for its time
  }
}

std::uint64_t far_copies::most_kept() noexcept {
  return own::copy_limits::most_bytes(array_home::global().limit_bytes());
}

bool far_copies::keep(const base::id& id, array_block& block) noexcept {
  const std::lock_guard lock(mutex_);
  if (!is_open_ || !kept_.keep(id, block, base::now(), most_kept())) return false;
  has_any_.store(true);
  return true;
}

array_block* far_copies::kept(const base::id& id) noexcept { return kept_.find(id, base::now()); }

void far_copies::rests(const base::id& id, resting_array& as) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    resting_[id] = &as;
  } catch (const std::bad_alloc&) {
    return;  // it is not found
  }
  // It may have come by another name, too: it is found by the last one alone.
  const auto before = as.named() == id ? resting_.end() : resting_.find(as.named());
  if (before != resting_.end() && before->second == &as) resting_.erase(before);
  as.note_named(id);
}

void far_copies::left(const resting_array& one) noexcept {
  const std::lock_guard lock(mutex_);
  const auto known = resting_.find(one.named());
  if (known != resting_.end() && known->second == &one) resting_.erase(known);
}

// ---- time

// What is added meanwhile asks for another turn.
base::deadline far_copies::turn(base::time_point now) noexcept {
  if (!has_any_.exchange(false)) return std::nullopt;
  base::deadline due = kept_.sweep(now);
  own::copies::steps steps;
  {
    const std::lock_guard lock(mutex_);
    try {
      steps = searches_.look(now);
      due = base::earlier(due, searches_.due());
    } catch (const std::bad_alloc&) {
      due = now + until_memory_for_copies;
    }
  }
  if (due.has_value()) has_any_.store(true);
  perform(steps);
  return due;
}

}  // namespace manta::inline v0::node
