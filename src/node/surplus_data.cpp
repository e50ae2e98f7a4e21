// SPDX-License-Identifier: Apache-2.0
#include "node/surplus_data.hpp"

#include <algorithm>
#include <new>
#include <vector>

#include <manta/node/carrier.hpp>
#include <manta/node/rest.hpp>

#include "node/array_home.hpp"
#include "node/far_handles.hpp"
#include "node/link_times.hpp"

namespace manta::inline v0::node {

surplus_data& surplus_data::global() {
  static auto* const made = new surplus_data;
  return *made;
}

bool surplus_data::wakes(exec::job* j) {
  const auto wake = carrier_of(j)->wake_arguments;
  return wake == nullptr || wake(j, false, any_cell);
}

void surplus_data::rest(exec::job* j) noexcept {
  const auto rests = carrier_of(j)->rest_arguments;
  if (rests != nullptr) rests(j);
}

namespace {

// The arrays that a message names, and that its reader has to fetch. What their maker calls their
// bytes is said where the reader may wait.
std::vector<sched::shared_data::data> fetched_by(const workbench& on) {
  std::vector<sched::shared_data::data> out;
  for (const spec::reference& one : on.references) {
    const bool is_mapped = one.place.segment != 0;
    const std::uint64_t owner = one.owner.high;
    if (one.kind != spec::reference_kind::array || is_mapped || owner == on.goes_to) continue;
    const sched::shared_data::data is{owner, one.place.at, one.place.bytes};
    const bool is_known = is.contents != 0 && std::ranges::find(out, is) != out.end();
    if (!is_known) out.push_back(is);
  }
  return out;
}

duration time_of_message(const workbench& on) noexcept {
  const std::size_t bytes = on.writer.size_bytes();
  if (sched::is_short_message(bytes)) return sched::time_to_move(bytes);
  return sched::time_to_move(bytes, link_times::global().of(0, on.goes_to));
}

sched::byte_pace pace_of(const sched::shared_data::data& one, std::uint64_t to) {
  const link_times& all = link_times::global();
  if (!all.has_any()) return {};
  return all.of(one.owner == far_handles::global().self() ? 0 : one.owner, to);
}

}  // namespace

void surplus_data::begin() noexcept {
  const std::uint64_t most = own::copy_limits::most_bytes(array_home::global().limit_bytes());
  const std::lock_guard lock(mutex_);
  shared_.begin(most);
}

sched::moved_data surplus_data::weigh(const workbench& on, const exec::job& j,
                                      std::uint64_t waiting) {
  sched::moved_data what{.along = time_of_message(on)};
  if (on.references.empty()) return what;
  const base::time_point now = base::now();
  const sched::shared_data::reader by{exec::id_of(j).low, waiting};
  const std::vector<sched::shared_data::data> all = fetched_by(on);
  const std::lock_guard lock(mutex_);
  for (const sched::shared_data::data& one : all) {
    what.add(one.bytes, pace_of(one, on.goes_to), shared_.look(one, on.goes_to, by, now));
  }
  return what;
}

bool surplus_data::is_worth_giving(const workbench& on, const exec::job& j,
                                   const sched::overflow_queue& line) {
  return sched::is_worth_giving(weigh(on, j, line.queued), line);
}

// Nobody counts those that wait for amounts.
bool surplus_data::is_worth_sending(const workbench& on, const exec::job& j, duration task_time) {
  return sched::is_worth_sending(weigh(on, j, UINT64_MAX), task_time);
}

void surplus_data::gave(const workbench& on, const exec::job& j) noexcept {
  if (on.references.empty()) return;
  try {
    const base::time_point now = base::now();
    const std::vector<sched::shared_data::data> all = fetched_by(on);
    const std::lock_guard lock(mutex_);
    for (const sched::shared_data::data& one : all) {
      shared_.gave(one, on.goes_to, exec::id_of(j).low, now, pace_of(one, on.goes_to));
    }
  } catch (const std::bad_alloc&) {
    return;  // the next one counts as the first, once more
  }
}

void surplus_data::came_back(std::uint64_t node, const exec::job& j) noexcept {
  const std::lock_guard lock(mutex_);
  shared_.came_back(node, exec::id_of(j).low);
}

void surplus_data::lost(std::uint64_t node) noexcept {
  const std::lock_guard lock(mutex_);
  shared_.lost(node);
}

void surplus_data::sweep(base::time_point now) noexcept {
  const std::lock_guard lock(mutex_);
  shared_.sweep(now);
}

}  // namespace manta::inline v0::node
