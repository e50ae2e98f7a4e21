// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <chrono>

#include <fmt/format.h>

#include "sim/cluster.hpp"

namespace sim {

using namespace std::chrono_literals;

std::string show(const fault& of) {
  constexpr std::array<const char*, fault::kinds> names = {
      "crash of",         "start of",
      "stop of",          "cut from the head:",
      "cut between",      "reset of",
      "drain of",         "crash of the head",
      "stop of the head", "failures of the disk, not of",
      "a slow disk, not"};
  return fmt::format("{} ms: {} n{} (n{}), {} ms", of.at / 1ms,
                     names[static_cast<std::size_t>(of.is)], of.whom, of.other, of.lasts / 1ms);
}

manta::life::membership_settings patience_of(const run_settings& with) {
  manta::life::membership_settings out;
  if (with.broken == plant::no_limits) {
    out.join_limit = 1h;
    out.head_wait = 1h;
  } else if (with.seed % 4 == 1) {
    out.join_limit = 9s;
    out.head_wait = 4s;
  }
  return out;
}

std::vector<fault> faults_of(const run_settings& with) {
  dice random(with.seed);
  std::vector<fault> out;
  for (std::size_t i = 0; i < with.faults; ++i) {
    fault one;
    one.at = 1s + duration(random.below(static_cast<std::size_t>((with.storm - 1s).count())));
    one.is = static_cast<fault::what>(random.below(fault::kinds));
    one.whom = random.below(with.nodes);
    one.other =
        (one.whom + 1 + random.below(std::max<std::size_t>(with.nodes - 1, 1))) % with.nodes;
    one.lasts = std::chrono::milliseconds(50 + random.below(random.one_in(2) ? 1800 : 7000));
    out.push_back(one);
  }
  std::ranges::sort(out, {}, &fault::at);
  return out;
}

}  // namespace sim
