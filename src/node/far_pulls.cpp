// SPDX-License-Identifier: Apache-2.0
#include "node/far_pulls.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include <manta/codec/codec.hpp>
#include <manta/codec/errors.hpp>
#include <manta/exec/executor.hpp>

#include "node/copy_cache.hpp"
#include "node/far_arrays.hpp"
#include "node/far_copies.hpp"
#include "node/link_times.hpp"
#include "node/peer_question.hpp"
#include "node/trip.hpp"
#include "node/workbench.hpp"
#include "spec/made_error.hpp"
#include "wire/error_record.hpp"

namespace manta::inline v0::node {

error let_go_error() noexcept {
  return spec::made_error(errc::object_lost, [] {
    return "the node that has made an array has let go of it before it was read; call its task "
           "again";
  });
}

namespace {

error too_many_parts_error() noexcept {
  return spec::made_error(errc::store_full, [] {
    return fmt::format(
        "a node asks for parts of arrays of another one, and {} of its questions wait there for "
        "earlier answers to come to it, which is the most; it is to ask for {} at a time",
        far_pulls::most_waiting, far_pulls::most_parts);
  });
}

error bad_part_error() noexcept {
  return error(errc::decode_failed, "a part of an array came that was not asked for");
}

}  // namespace

std::uint64_t fetched_array_bytes() noexcept { return far_pulls::global().fetched_bytes(); }

void raise_array_away() { let_go_error().raise(); }

// ---- those of others

far_pulls& far_pulls::global() {
  static auto* const made = new far_pulls;
  return *made;
}

void far_pulls::begin(peers& by) {
  unanswered_.clear();
  copy_cache::global().clear();  // of an earlier runtime, whose numbers come again
  far_copies::global().begin();
  const std::lock_guard lock(mutex_);
  late_.clear();
  views_.clear();
  unreached_.clear();
  unreached_readers_.clear();
  places_.clear();
  link_times::global().clear();
  by_ = &by;
}

distant_block* far_pulls::view_of(const spec::reference& came, const far_arrivals::one& from) {
  const std::lock_guard lock(mutex_);
  if (by_ == nullptr) exec::ended_error().raise();
  if (came.place.bytes == 0) raise(errc::decode_failed, "an array of no bytes has stayed away");
  distant_block*& known = views_[came.what];
  if (known != nullptr && known->try_hold()) return known;
  const std::uint64_t run = from.is_counted ? far_handles::global().has_view(came.what) : 0;
  const std::uint64_t since = far_handles::global().run();
  try {
    known = new distant_block({came.what, from.owner, came.place.bytes, came.place.at, run, since});
  } catch (...) {
    if (run != 0) far_handles::global().lost_view(came.what, run);
    throw;
  }
  ++away_;
  return known;
}

bool far_pulls::begin_naming(const distant_block& of) {
  const std::lock_guard lock(mutex_);
  if (of.is_let_go_ || !of.counts()) return false;
  return far_handles::global().has_view(of.from().id) != 0;
}

void far_pulls::left(const distant_block& block) noexcept {
  const std::lock_guard lock(mutex_);
  // Another one may have the id by now.
  const auto at = views_.find(block.from().id);
  if (at != views_.end() && at->second == &block) views_.erase(at);
}

// Under the mutex.
std::uint64_t far_pulls::parts_under_way(const pull& of) noexcept {
  return (of.asked - of.came + part_bytes - 1) / part_bytes;
}

// Under the mutex, of one that is given up. Of a node that can't be reached nothing comes, and
// gone() may have been here.
void far_pulls::expect_late(std::uint64_t number, const pull& of) noexcept {
  if (by_ == nullptr || !by_->can_reach(of.block->from().owner)) return;
  try {
    late_.add(number, of.block->from().owner, parts_under_way(of));
  } catch (const std::bad_alloc&) {
    return;  // then more may be under way, once
  }
}

// The loop's thread. What waits for its turn has been waiting for this.
void far_pulls::came_late(std::uint64_t number, std::uint64_t node) noexcept {
  std::uint64_t unasked = 0;
  {
    const std::lock_guard lock(mutex_);
    late_.came(number, node);
    unasked = ask_more(node);
  }
  end_unasked(unasked);
}

// Under the mutex. The one that could not be asked for, which the caller ends; 0: none.
std::uint64_t far_pulls::ask_more(std::uint64_t node) noexcept {
  if (by_ == nullptr) return 0;  // close ends them
  std::uint64_t under_way = late_.under_way(node);
  for (const auto& [number, one] : pulls_) {
    if (one->block->from().owner != node || one->is_sought) continue;
    under_way += parts_under_way(*one);
  }
  for (const auto& [number, one] : pulls_) {
    if (one->block->from().owner != node || one->room == nullptr) continue;
    if (one->is_in_bulk || one->is_sought) continue;
    while (under_way < most_parts && one->asked < one->block->from().bytes) {
      try {
        if (!ask_part(number, *one)) return 0;
      } catch (...) {
        return number;  // no memory
      }
      ++under_way;
    }
  }
  return 0;
}

void far_pulls::end_unasked(std::uint64_t number) noexcept {
  if (number == 0) return;
  const error why = error::out_of_memory();
  end(number, &why);
}

// False: its node is no member, and the loop's thread is about to say so.
bool far_pulls::ask_part(std::uint64_t number, pull& of) {
  const distant_block::source& from = of.block->from();
  if (of.asked == 0) begin_timing(of);
  const pull_question what{from.id.high, from.id.low, of.asked,
                           std::min(part_bytes, from.bytes - of.asked)};
  const base::id request{peers::pull, number};
  if (!ask_peer(*by_, from.owner, request, wire::question::array_bytes, what)) return false;
  of.asked += what.bytes;
  return true;
}

far_pulls::pull_ptr far_pulls::find(std::uint64_t number, std::uint64_t node) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = pulls_.find(number);
  // What its maker still says of one that comes from elsewhere is not written beside that.
  const bool is_one = found != pulls_.end() && !found->second->is_sought &&
                      found->second->block->from().owner == node;
  return is_one ? found->second : nullptr;
}

void far_pulls::on_part(std::uint64_t from, std::uint64_t number,
                        std::span<const std::byte> message) noexcept {
  const pull_ptr of = find(number, from);
  if (of == nullptr) return came_late(number, from);  // it has ended
  try {
    const borrowed_workbench on;
    const result<const wire::message_view&> read = on->reader.read(message);
    const auto* const came = read ? std::get_if<wire::result_view>(&read->body) : nullptr;
    if (came == nullptr) bad_part_error().raise();
    if (const auto* const failure = std::get_if<wire::error_view>(&came->outcome)) {
      wire::to_error(*failure).raise();
    }
    const auto* const part = std::get_if<spec::parcel_view>(&came->outcome);
    if (part == nullptr) bad_part_error().raise();
    fill(number, *of, *part);
  } catch (...) {
    const error why = describe_current_exception("fetching an array");
    end(number, &why);
    came_late(number, from);  // if it was given up meanwhile
  }
}

// In their order, since all is said over one courier: each was asked for, and comes once.
void far_pulls::fill(std::uint64_t number, pull& of, const spec::parcel_view& part) {
  const std::uint64_t whole = of.block->from().bytes;
  std::uint64_t at = 0;
  const std::uint64_t wanted = std::min(part_bytes, whole - of.came);
  bool is_asked = false;
  {
    const std::lock_guard lock(mutex_);
    is_asked = of.room != nullptr && of.asked >= of.came + wanted;
  }
  const bool is_one = is_asked && part.head.size() == sizeof at && part.segments.size() == 1 &&
                      part.segments.front().bytes.size() == wanted;
  if (!is_one) bad_part_error().raise();
  std::memcpy(&at, part.head.data(), sizeof at);
  if (at != of.came) bad_part_error().raise();
  fill_array(of.room->bytes().subspan(static_cast<std::size_t>(at), wanted),
             part.segments.front().bytes.data());
  fetched_bytes_ += wanted;
  note_came(of.block->from().owner, wanted);
  const std::uint64_t maker = of.block->from().owner;
  std::uint64_t unasked = 0;
  bool is_wanted = false;
  bool is_whole = false;
  {
    const std::lock_guard lock(mutex_);
    is_wanted = pulls_.contains(number) && !of.is_landing && !of.is_in_bulk;
    if (is_wanted) of.came += wanted;
    is_whole = is_wanted && of.came == whole;
    if (is_whole) of.is_landing = true;  // who asks from here on finds it
    if (is_wanted && !is_whole) unasked = ask_more(maker);
  }
  if (!is_wanted) return came_late(number, maker);
  if (!is_whole) return end_unasked(unasked);
  land(number, of);
}

// null: it is here.
void far_pulls::end(std::uint64_t number, const error* why) noexcept {
  pull_ptr last;
  std::vector<waiter_ptr> waiting;
  std::uint64_t unasked = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = pulls_.find(number);
    if (found == pulls_.end() || (why != nullptr && found->second->is_landing)) return;
    last = std::move(found->second);
    if (last->is_in_bulk && why != nullptr) drop_bulk(*last);
    pulls_.erase(found);
    numbers_.erase(last->block);
    if (last->is_taken) taken_bytes_ -= last->block->from().bytes;
    waiting.swap(last->waiting);
    unasked = ask_more(last->block->from().owner);
  }
  end_timing(*last);
  if (last->is_sought) far_copies::global().over(number);
  for (const waiter_ptr& one : waiting) {
    if (why != nullptr) one->why = *why;
    one->nap.signal();
  }
  end_unasked(unasked);
}

void far_pulls::close() noexcept {
  {
    const std::lock_guard lock(mutex_);
    by_ = nullptr;
  }
  for (;;) {
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto found =
          std::ranges::find_if(pulls_, [](const auto& one) { return !one.second->is_landing; });
      if (found == pulls_.end()) break;
      number = found->first;
    }
    const error& ended = exec::ended_error();
    end(number, &ended);
  }
  far_copies::global().close();
}

void far_pulls::let_go(distant_block& of) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(of.is_let_go_, true)) return;
  }
  if (of.from().run != 0) far_handles::global().lost_view(of.from().id, of.from().run);
}

// What it counts as being here, each with a hold, if not what is fetched just now; 0: of all.
std::vector<far_pulls::distant_hold> far_pulls::kept_by(std::uint64_t node,
                                                        bool also_fetched) const {
  std::vector<distant_hold> out;
  const std::lock_guard lock(mutex_);
  out.reserve(views_.size());
  for (const auto& [id, one] : views_) {
    if (one == nullptr || (node != 0 && one->from().owner != node)) continue;
    if (one->is_let_go_ || !one->counts()) continue;
    if (!also_fetched && numbers_.contains(one)) continue;
    if (one->try_hold()) out.emplace_back(one);
  }
  return out;
}

void far_pulls::let_all_go() noexcept {
  try {
    for (const distant_hold& one : kept_by(0, false)) let_go(*one);
  } catch (const std::bad_alloc&) {
    return;  // it is kept until this node has left
  }
}

// ---- those of this node

namespace {

void send_answer(peers& by, std::uint64_t to, const base::id& request, workbench& on) {
  // False is of one that is gone.
  static_cast<void>(by.send_anyway(to, request, on.writer.pieces(), on.writer.size_bytes()));
}

}  // namespace

// What is lent is in memory, so it is answered at once, unless who asks lets its answers lie.
void far_pulls::on_question(peers& by, std::uint64_t from, std::uint64_t number,
                            std::span<const std::byte> message) {
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(message);
  const auto* const asked = read ? std::get_if<wire::ask_view>(&read->body) : nullptr;
  if (asked == nullptr) return;
  if (asked->what == wire::question::take_arrays) {
    const bool leaves = number != static_cast<std::uint64_t>(plea::has_no_room);
    return take_soon(from, leaves ? plea::leaves : plea::has_no_room);
  }
  if (asked->what == wire::question::array_copy) {
    return far_copies::global().on_question(by, from, number,
                                            codec::decode<copy_question>(asked->with));
  }
  if (asked->what == wire::question::transfer_time) {
    return link_times::global().hear(from, codec::decode<transfer_note>(asked->with));
  }
  if (asked->what != wire::question::array_bytes) return;
  const asked_part one{number, codec::decode<pull_question>(asked->with)};
  if (!unanswered_.contains(from) && by.has_room_for_part(from)) return answer_part(by, from, one);
  std::deque<asked_part>& line = unanswered_[from];
  if (line.size() < most_waiting) return line.push_back(one);
  const borrowed_workbench answer;
  const base::id request{peers::pulled, number};
  write_failure(*answer, {1, 1}, request, too_many_parts_error());
  send_answer(by, from, request, *answer);
}

bool far_pulls::answer_waiting(peers& by) noexcept {
  for (auto at = unanswered_.begin(); at != unanswered_.end();) {
    auto& [node, line] = *at;
    while (!line.empty() && by.has_room_for_part(node)) {
      try {
        answer_part(by, node, line.front());
      } catch (const std::bad_alloc&) {
        break;  // at the next turn
      }
      line.pop_front();
    }
    at = line.empty() ? unanswered_.erase(at) : std::next(at);
  }
  return !unanswered_.empty();
}

void far_pulls::answer_part(peers& by, std::uint64_t to, const asked_part& asked) {
  const pull_question& what = asked.what;
  const base::id request{peers::pulled, asked.number};
  const borrowed_workbench answer;
  array_block* const block = far_arrays::global().block_of({what.high, what.low});
  const std::unique_ptr<array_block, void (*)(array_block*)> held(
      block, [](array_block* one) { one->drop(); });
  const std::uint64_t whole = block != nullptr ? block->bytes().size() : 0;
  const bool is_in = what.bytes > 0 && what.bytes <= part_bytes && what.at <= whole &&
                     what.bytes <= whole - what.at;
  if (!is_in) {
    write_failure(*answer, {1, 1}, request, let_go_error());
    return send_answer(by, to, request, *answer);
  }
  std::array<std::byte, sizeof what.at> at{};
  std::memcpy(at.data(), &what.at, at.size());
  const spec::segment_view part{block->bytes().subspan(static_cast<std::size_t>(what.at),
                                                       static_cast<std::size_t>(what.bytes))};
  try {
    write_answer(*answer, request, {.head = at, .segments = {&part, 1}, .references = {}});
    return send_answer(by, to, request, *answer);
  } catch (const std::bad_alloc&) {
    // Who asks waits for an answer, and a short one may have room.
  }
  write_failure(*answer, {1, 1}, request, error::out_of_memory());
  send_answer(by, to, request, *answer);
}

}  // namespace manta::inline v0::node
