// SPDX-License-Identifier: Apache-2.0
#include "node/bookings.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <variant>

#include <manta/codec/errors.hpp>
#include <manta/sched/ledger.hpp>

#include "node/desk.hpp"
#include "node/peer_question.hpp"
#include "node/workbench.hpp"

namespace manta::inline v0::node::bookings {

namespace {

constexpr std::int64_t most_amount = std::int64_t{1} << 53U;
constexpr std::size_t most_keys = 256;
constexpr std::int64_t most_gpus = 1024 * 1000;

bool is_amount(std::int64_t of) noexcept { return of >= 0 && of <= most_amount; }

bool is_sound(const booked_bundle& one) noexcept {
  const bool has_gpus =
      one.gpus >= 0 && one.gpus <= most_gpus && (one.gpus < 1000 || one.gpus % 1000 == 0);
  if (!is_amount(one.cpus) || !is_amount(one.memory_bytes) || !has_gpus) return false;
  if (one.resources.size() > most_keys) return false;
  for (std::size_t i = 0; i < one.resources.size(); ++i) {
    const booked_amount& each = one.resources[i];
    if (each.amount < 1 || each.amount > most_amount) return false;
    if (i > 0 && each.key <= one.resources[i - 1].key) return false;
  }
  return one.cpus + one.gpus + one.memory_bytes > 0 || !one.resources.empty();
}

// What can't be said now is said by nobody later: who waits for it hears of it when a node ends.
void say(peers& by, const booking_letter& one) noexcept {
  static std::atomic<std::uint64_t> last{0};
  try {
    ask_peer(by, one.node, {peers::booking, ++last}, wire::question::bookings, one.what);
  } catch (...) {
    return;
  }
}

}  // namespace

bool are_sound(const std::vector<booked_bundle>& all) noexcept {
  if (all.empty() || all.size() > sched::ledger::most_bundles) return false;
  std::int64_t gpus = 0;  // each costs memory
  for (std::size_t i = 0; i < all.size(); ++i) {
    gpus += std::max<std::int64_t>(all[i].gpus, 0);
    if (gpus > most_gpus) return false;
    if (!is_sound(all[i]) || all[i].index >= sched::ledger::most_bundles) return false;
    if (i > 0 && all[i].index <= all[i - 1].index) return false;
  }
  return true;
}

booked_bundle bundle_of(std::uint32_t index, const spec::demand& asked) {
  booked_bundle out{index, asked.cpus, asked.gpus, asked.memory_bytes, {}};
  for (const auto& [key, amount] : asked.custom) out.resources.push_back({key, amount});
  return out;
}

spec::demand demand_of(const booked_bundle& came) {
  spec::demand out;
  out.cpus = came.cpus;
  out.gpus = came.gpus;
  out.memory_bytes = came.memory_bytes;
  for (const booked_amount& one : came.resources) out.custom.emplace_back(one.key, one.amount);
  return out;
}

base::deadline turn(peers& by, base::time_point now) {
  base::deadline due;
  for (const booking_letter& one : desk::global().letters(now, due)) say(by, one);
  return due;
}

void hear(peers& by, std::uint64_t from, std::span<const std::byte> message) {
  const borrowed_workbench on;
  const result<const wire::message_view&> read = on->reader.read(message);
  const auto* const asked = read ? std::get_if<wire::ask_view>(&read->body) : nullptr;
  if (asked == nullptr || asked->what != wire::question::bookings) return;
  const auto what = codec::decode<booking_note>(asked->with);
  switch (static_cast<booking_act>(what.act)) {
    case booking_act::book: {
      bool is = false;
      try {
        is = desk::global().book(from, what);
      } catch (const std::bad_alloc&) {
        is = false;  // it waits for an answer
      }
      const booking_act said = is ? booking_act::yes : booking_act::no;
      const auto act = static_cast<std::uint8_t>(said);
      return say(by, {from, {.act = act, .group = what.group, .number = what.number}});
    }
    case booking_act::drop:
      return desk::global().drop_guest(from, what.number);
    case booking_act::yes:
    case booking_act::no:
      return desk::global().booked(from, what);
    case booking_act::lent:
      return desk::global().hear_lent(from, what);
  }
}

}  // namespace manta::inline v0::node::bookings
