// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "life/roll.hpp"
#include "life/seat.hpp"

namespace membership_test {

using namespace std::chrono_literals;
using manta::base::id;
using manta::base::time_point;
using manta::life::bulletin;
using manta::life::heartbeat;
using manta::life::membership_settings;
using manta::life::roll;
using manta::life::seat;
using manta::spec::node_member;
using manta::spec::node_state;
using manta::spec::node_verdict;
using manta::spec::node_wish;

inline const time_point begin{1000s};

inline heartbeat asks(std::uint64_t process, const std::string& name) {
  heartbeat out;
  out.process = {9, process};
  out.who.name = name;
  out.who.host = "h" + std::to_string(process);
  out.who.pid = static_cast<std::uint32_t>(40 + process);
  return out;
}

// A roll with a disk that writes when it is told to.
struct head {
  explicit head(std::vector<node_member> known = {}, std::uint64_t last_epoch = 0,
                const membership_settings& with = {})
      : is(with, std::move(known), last_epoch, begin) {
    settle(begin);
  }
  /// Takes what is to be done; the rows are on the disk.
  void settle(time_point now) {
    for (std::vector<roll::action> todo = is.take(); !todo.empty(); todo = is.take()) {
      for (roll::action& one : todo) {
        if (auto* const row = std::get_if<roll::write>(&one)) {
          rows.push_back(*row);
          is.on_written(row->ticket, now);
        } else {
          said.push_back(std::get<bulletin>(std::move(one)));
        }
      }
    }
  }
  /// The newest that was said to a process, which is taken out.
  std::optional<bulletin> last_to(std::uint64_t process) {
    for (std::size_t i = said.size(); i-- > 0;) {
      if (said[i].process.low != process) continue;
      bulletin out = said[i];
      std::erase_if(said, [&](const bulletin& b) { return b.process.low == process; });
      return out;
    }
    return std::nullopt;
  }
  std::uint64_t join(std::uint64_t process, const std::string& name, time_point now) {
    is.on_heartbeat(asks(process, name), now);
    settle(now);
    const auto answer = last_to(process);
    REQUIRE(answer);
    REQUIRE(answer->verdict == node_verdict::member);
    return answer->epoch;
  }
  heartbeat of(std::uint64_t process, const std::string& name, std::uint64_t epoch) const {
    heartbeat out = asks(process, name);
    out.epoch = epoch;
    out.head_epoch = is.epoch();
    out.revision = is.revision();
    return out;
  }

  roll is;
  std::vector<roll::write> rows;
  std::vector<bulletin> said;
};

}  // namespace membership_test
