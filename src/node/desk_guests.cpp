// SPDX-License-Identifier: Apache-2.0
// Bundles of other nodes' placement groups that are set aside here: desk.hpp, bookings.hpp. Each
// try of a maker is a group of this node's, of which its own users know nothing.
#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include <manta/exec/actor_core.hpp>

#include "node/desk.hpp"
#include "node/desk_books.hpp"
#include "node/worker_facts.hpp"

namespace manta::inline v0::node {

using exec::claim_list;
using exec::resource_gate;

namespace {

// Of one maker, in all its groups.
constexpr std::size_t most_guests = 4096;
constexpr std::size_t most_guest_bundles = 65'536;

error guest_removed_error() {
  return {
      errc::group_removed,
      "asked for a part of another node's placement group, which was removed, or has moved that "
      "part; make a new one, and remove it when its users have ended"};
}

// Not on the loop's thread: what waits in their mailboxes is the user's.
void kill_soon(const std::vector<exec::actor_core*>& all) noexcept {
  try {
    for (exec::actor_core* const one : all) {
      // The line may be dropped with all that is in it.
      std::shared_ptr<exec::actor_core> held(one, [](exec::actor_core* of) { of->drop_handle(); });
      facts_line::of_ends().add([held = std::move(held)] { held->kill(); });
    }
  } catch (...) {
    return;  // no memory: they live on
  }
}

}  // namespace

void start_soon(claim_list through) noexcept {
  const claim_list refused = through.take_refused();
  resource_gate::start(through);
  if (refused.first == nullptr) return;
  auto* const kept = new (std::nothrow) claim_list(refused);
  if (kept == nullptr) return resource_gate::start(refused);
  try {
    // The line may be dropped with all that is in it. Who is last starts them: not this thread.
    std::shared_ptr<claim_list> held(kept, [](claim_list* of) {
      resource_gate::start(*of);
      delete of;
    });
    facts_line::of_ends().add([held = std::move(held)] {});
  } catch (...) {
    return;  // no memory, nor thread: they went on here
  }
}

bool desk::has_room_for(std::uint64_t maker, std::size_t bundles) const noexcept {
  const auto found = books_->guest_counts.find(maker);
  if (found == books_->guest_counts.end()) return bundles <= most_guest_bundles;
  const books::guest_count& has = found->second;
  return has.groups < most_guests && has.bundles + bundles <= most_guest_bundles;
}

void desk::forget_guest(std::uint64_t maker, std::uint64_t number) noexcept {
  const auto at = books_->guests.find({maker, number});
  const auto count = books_->guest_counts.find(maker);
  count->second.bundles -= at->second.bundles.size();
  if (--count->second.groups == 0) books_->guest_counts.erase(count);
  books_->guests.erase(at);
}

bool desk::book(std::uint64_t maker, const booking_note& asked) {
  if (asked.number == 0 || !bookings::are_sound(asked.bundles)) return false;
  std::vector<spec::demand> all;
  guest made;
  made.group = asked.group;
  for (const booked_bundle& one : asked.bundles) {
    all.push_back(bookings::demand_of(one));
    made.bundles.push_back(one.index);
  }
  made.lent.resize(all.size());
  made.is_news.resize(all.size());
  bool is = false;
  change_soon([&]() -> claim_list {
    if (books_ == nullptr || is_closed_ || is_leaving_) return {};
    sched::ledger& has = books_->has;
    if (!has_room_for(maker, all.size())) return {};
    if (!std::ranges::all_of(all, [&](const auto& b) { return has.knows(b); })) return {};
    books::guest_count& count = books_->guest_counts[maker];
    const auto [at, is_new] = books_->guests.try_emplace({maker, asked.number}, std::move(made));
    if (!is_new) return {};  // no honest node asks twice
    ++count.groups;
    count.bundles += all.size();
    sched::group* g = nullptr;
    claim_list out;
    try {
      g = &has.make_group(std::move(all), strategy::strict_pack, true);
      at->second.here = g->id;
      sched::request wants;
      wants.forming = g;
      is = books_->waits.ask(wants);
      if (!is) out = claims_of(books_->waits.withdraw(wants));
    } catch (...) {
      if (g != nullptr) has.remove(*g);
      forget_guest(maker, asked.number);
      throw;
    }
    if (is) return out;
    has.remove(*g);
    forget_guest(maker, asked.number);
    return out;
  });
  return is;
}

void desk::drop_guest(std::uint64_t maker, std::uint64_t number) noexcept {
  std::vector<exec::actor_core*> actors;
  try {
    change_soon([&]() -> claim_list {
      if (books_ == nullptr) return {};
      const auto at = books_->guests.find({maker, number});
      if (at == books_->guests.end()) return {};
      sched::group* const g = books_->has.find_group(at->second.here);
      claim_list out;
      if (g != nullptr) out = take_group(*g, actors);
      forget_guest(maker, number);
      return out;
    });
  } catch (const std::bad_alloc&) {
    return;  // it stays until its maker is lost
  }
  kill_soon(actors);
}

void desk::lose_maker(std::uint64_t maker) noexcept {
  for (std::uint64_t last = 0;;) {
    std::uint64_t number = 0;
    resource_gate::global().look([&] {
      if (books_ == nullptr) return;
      // Not again one that there was no memory to drop.
      const auto at = books_->guests.upper_bound({maker, last});
      if (at != books_->guests.end() && at->first.first == maker) number = at->first.second;
    });
    if (number == 0) return;
    drop_guest(maker, number);
    last = number;
  }
}

void desk::close_door() noexcept {
  resource_gate::global().look([this] { is_leaving_ = true; });
}

placement desk::place_of_guest(std::uint64_t maker, std::uint64_t number, int bundle) const {
  return resource_gate::global().look([&] {
    placement out;
    const auto at = books_ == nullptr ? decltype(books_->guests.begin()){}
                                      : books_->guests.find({maker, number});
    if (books_ == nullptr || at == books_->guests.end()) guest_removed_error().raise();
    const std::vector<std::uint32_t>& all = at->second.bundles;
    const auto found = std::ranges::find(all, static_cast<std::uint32_t>(bundle));
    if (found == all.end()) guest_removed_error().raise();
    out.by = placement::rule::group;
    out.group = at->second.here;
    out.bundle = static_cast<int>(found - all.begin());
    return out;
  });
}

// Its maker gives a sleeper's cpus to others in that bundle, as this node's line does.
void desk::note_lent(const claim& c, int sign) noexcept {
  if (c.got.in == nullptr || books_->guests.empty() || c.asked.cpus == 0) return;
  for (auto& [who, one] : books_->guests) {
    if (one.here != c.got.in->id) continue;
    one.lent[c.got.bundle] += sign * c.asked.cpus;
    one.is_news[c.got.bundle] = true;
    return wake();
  }
}

void desk::say_lent(std::vector<booking_letter>& out) const {
  for (const auto& [who, one] : books_->guests) {
    for (std::size_t b = 0; b < one.lent.size(); ++b) {
      if (!one.is_news[b]) continue;
      booking_note note{.act = static_cast<std::uint8_t>(booking_act::lent), .group = one.group};
      note.number = who.second;
      note.bundle = one.bundles[b];
      note.cpus = one.lent[b];
      out.push_back({who.first, std::move(note)});
    }
  }
}

void desk::lent_is_said() noexcept {
  for (auto& [who, one] : books_->guests) std::fill(one.is_news.begin(), one.is_news.end(), false);
}

}  // namespace manta::inline v0::node
