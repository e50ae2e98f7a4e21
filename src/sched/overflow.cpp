// SPDX-License-Identifier: Apache-2.0
#include "sched/overflow.hpp"

#include <algorithm>
#include <cmath>

namespace manta::inline v0::sched {

namespace {

using namespace std::chrono_literals;

// Shorter looks say more about chance than about tasks.
constexpr duration least_look = 500us;
// Before that nothing is concluded from it that no task has ended.
constexpr duration least_wait = 3ms;
// What is refused is back by then.
constexpr duration window_time = 1ms;
// So many that have ended say more than those before them.
constexpr duration::rep enough = 8;

// In tasks of here, by which all is measured: what waits there, for each of its workers.
double height_of(const overflow_queue& here, const overflow_peer& of) {
  const auto own = static_cast<double>(here.task_time.count());
  const auto foreign = static_cast<double>(of.waiting > of.sent ? of.waiting - of.sent : 0);
  const auto its = static_cast<double>(std::max<duration::rep>(of.task_time.count(), 1));
  const double work = static_cast<double>(of.sent) + foreign * its / own;
  return work / of.workers;
}

// Up to where all queues are filled when what is above it goes to those below.
double level_of(const overflow_queue& here, std::span<const overflow_peer> others,
                std::span<const double> heights) {
  double level = static_cast<double>(here.queued) / here.workers;
  // Each round leaves out who is above the level of the one before; it only sinks.
  for (std::size_t round = 0; round <= others.size(); ++round) {
    auto work = static_cast<double>(here.queued);
    double workers = here.workers;
    for (std::size_t i = 0; i < others.size(); ++i) {
      if (heights[i] >= level) continue;
      work += heights[i] * others[i].workers;
      workers += others[i].workers;
    }
    const double next = work / workers;
    if (next >= level) return level;
    level = next;
  }
  return level;
}

// For each worker.
std::uint64_t window_of(const overflow_settings& with, const overflow_queue& here) {
  const auto ahead = static_cast<std::uint64_t>(with.ahead / here.task_time) + 1;
  return std::clamp<std::uint64_t>(ahead, with.least_ahead, with.most_ahead);
}

// For each worker, of what may go at once.
std::uint64_t share_of(std::uint64_t most, std::span<const overflow_peer> others) {
  std::uint64_t workers = 0;
  for (const overflow_peer& one : others) workers += one.workers;
  return std::max<std::uint64_t>(1, most / std::max<std::uint64_t>(workers, 1));
}

}  // namespace

bool service_pace::look(base::time_point now, std::uint64_t ran, std::uint64_t queued,
                        std::uint32_t workers) noexcept {
  const duration took = now - since_;
  if (was_busy_ && took < least_look) return false;
  if (was_busy_) {
    const auto ended = static_cast<duration::rep>(ran - ran_);
    const duration all = took * workers;
    if (ended == 0) {
      // None has ended: they take that long at least, and the look goes on. But workers may have
      // been asleep when the first came.
      if (took >= least_wait) task_time_ = std::max(task_time_, all);
      if (queued > 0) return took >= least_wait;
    } else {
      const duration each = all / ended;
      const bool is_sure = ended >= enough || task_time_ == duration::zero();
      task_time_ = is_sure ? each : (task_time_ + each) / 2;
    }
  }
  const bool is_news = was_busy_ && ran != ran_;
  since_ = now;
  ran_ = ran;
  was_busy_ = queued > 0;
  return is_news;
}

std::vector<overflow_share> spread_overflow(const overflow_settings& with,
                                            const overflow_queue& here,
                                            std::span<const overflow_peer> others) {
  std::vector<overflow_share> out;
  const bool is_known = here.task_time > duration::zero() && here.workers > 0;
  if (!is_known || here.task_time < with.least_task) return out;
  const double wait =
      static_cast<double>(here.task_time.count()) * static_cast<double>(here.queued) / here.workers;
  if (wait < static_cast<double>(with.threshold.count())) return out;
  std::vector<double> heights;
  heights.reserve(others.size());
  for (const overflow_peer& one : others) heights.push_back(height_of(here, one));
  const double level = level_of(here, others, heights);
  const std::uint64_t each = window_of(with, here);
  const std::uint64_t share = share_of(with.most, others);
  std::uint64_t left = std::min(here.queued, with.most);
  for (std::size_t i = 0; i < others.size() && left > 0; ++i) {
    if (heights[i] >= level) continue;
    const std::uint64_t window = each * others[i].workers;
    if (others[i].sent >= window) continue;
    // A part of a task is one where the queue would wait for longer than it takes.
    const double room = (level - heights[i]) * others[i].workers;
    const auto wanted = static_cast<std::uint64_t>(std::ceil(room - 1e-9));
    const std::uint64_t now = share > each ? window : share * others[i].workers;
    const std::uint64_t tasks = std::min({wanted, window - others[i].sent, now, left});
    if (tasks == 0) continue;
    left -= tasks;
    out.push_back({others[i].node, tasks});
  }
  return out;
}

duration wait_of(const overflow_queue& here) noexcept {
  if (here.workers == 0) return duration::zero();
  const double wait =
      static_cast<double>(here.task_time.count()) * static_cast<double>(here.queued) / here.workers;
  constexpr double longest = 1e15;
  return duration(static_cast<duration::rep>(std::min(wait, longest)));
}

bool refuses(const overflow_settings& with, const overflow_queue& here) noexcept {
  // Of long tasks so many may be here as two others give.
  if (here.queued <= std::uint64_t{2} * with.least_ahead * here.workers) return false;
  return wait_of(here) > with.patience;
}

bool are_enough(std::uint32_t reading, std::uint32_t workers) noexcept {
  constexpr std::uint64_t for_each_worker = 4;
  return reading >= for_each_worker * workers;
}

duration rest_after(duration wait) noexcept { return std::clamp<duration>(wait / 2, 1ms, 250ms); }

void overflow_window::look(base::time_point now, std::uint64_t given,
                           std::uint64_t refused) noexcept {
  if (now - since_ < window_time) return;
  const std::uint64_t went = given - given_;
  went_lately_ = went_lately_ / 2 + went;
  back_lately_ = back_lately_ / 2 + (refused - refused_);
  since_ = now;
  given_ = given;
  refused_ = refused;
  if (2 * back_lately_ > went_lately_) {
    size_ = std::max(least_, std::min(size_, went_lately_) / 2);
  } else if (4 * back_lately_ <= went_lately_ && 2 * went >= size_) {
    size_ = std::max(size_, 2 * went);
  } else if (4 * went < size_ && size_ > usual_) {
    size_ = std::max(usual_, size_ / 2);  // what was true of others then need not be so now
  }
}

std::size_t worth_looking_at(std::uint64_t tasks) noexcept {
  constexpr std::uint64_t least = 8;
  constexpr std::uint64_t most = 64;
  return static_cast<std::size_t>(std::clamp(tasks, least, most));
}

duration worth_moving(duration task_time) noexcept {
  constexpr duration always{std::int64_t{64} << 10U};  // that many bytes on one machine
  return std::max(always, task_time);
}

}  // namespace manta::inline v0::sched
