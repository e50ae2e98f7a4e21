// SPDX-License-Identifier: Apache-2.0
// How much of a store the records of all nodes take: against a model.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "control/record_room.hpp"
#include "exec/support.hpp"

namespace {

using manta::control::record_room;
using manta_test::dice;
using wishes = std::vector<record_room::wish>;

const std::string one = "task/one/";
const std::string two = "task/two/";
const std::string three = "task/three/";

// As who has the store does it.
bool put(record_room& room, const std::string& by, const wishes& all) {
  const auto is = room.ask(by, all);
  for (const std::string& gone : is.go) room.forget(gone);
  if (is.has_room) room.wrote(by, all);
  return is.has_room;
}

}  // namespace

TEST_CASE("records of living nodes make no room for others'", "[control]") {
  record_room room(1000);
  CHECK(put(room, one, {{1, 600}, {2, 300}}));
  CHECK_FALSE(put(room, two, {{1, 101}}));
  CHECK(room.bytes() == 900);
  CHECK(put(room, two, {{1, 100}}));
  // What is written again, or goes in the same batch, makes room.
  CHECK(put(room, one, {{1, 590}, {3, 10}}));
  CHECK(put(room, one, {{2, 0}, {4, 300}}));
  CHECK(room.bytes() == 1000);
  CHECK_FALSE(put(room, one, {{4, 301}}));
  CHECK(put(room, one, {{9, 0}}));  // it has no such value
  // What was not written is not counted.
  CHECK(put(room, two, {{1, 0}}));
  CHECK(room.ask(two, {{1, 100}}).has_room);
  CHECK(room.bytes() == 900);
  room.forget(one);
  CHECK(room.bytes() == 0);
  CHECK(put(room, two, {{1, 1000}}));
  CHECK_FALSE(put(room, three, {{1, 1001}}));
}

TEST_CASE("records of lost nodes go for others', the first that was lost first", "[control]") {
  record_room room(1000);
  CHECK(put(room, one, {{1, 300}}));
  CHECK(put(room, two, {{1, 300}}));
  CHECK(put(room, three, {{1, 300}}));
  room.lost(two);
  room.lost(one);
  room.lost("task/nobody/");
  const auto is = room.ask(three, {{2, 400}});
  CHECK(is.has_room);
  CHECK(is.go == std::vector{two});
  CHECK(put(room, three, {{2, 400}}));
  // It was not lost: it writes again.
  CHECK(put(room, one, {{1, 300}}));
  CHECK_FALSE(put(room, three, {{3, 300}}));
  room.lost(one);
  const auto both = room.ask(three, {{3, 300}});
  CHECK((both.has_room && both.go == std::vector{one}));
  CHECK(put(room, three, {{3, 300}}));
  CHECK(room.bytes() == 1000);
}

TEST_CASE("of random writes as much is counted as is there", "[control]") {
  dice d(manta_test::run_seed());
  constexpr std::size_t most = 5000;
  record_room room(most);
  std::map<std::string, std::map<std::uint64_t, std::size_t>> there;
  std::vector<std::string> lost;  // in order
  const auto sum = [&] {
    std::size_t out = 0;
    for (const auto& [node, values] : there) {
      for (const auto& [number, bytes] : values) out += bytes;
    }
    return out;
  };
  int refused = 0;
  int dropped = 0;
  for (int i = 0; i < manta_test::scaled(20000); ++i) {
    const std::string node = "task/" + std::to_string(d.below(6)) + "/";
    if (d.one_in(40)) {
      room.lost(node);
      std::erase(lost, node);
      if (there.contains(node) && there.at(node).empty()) there.erase(node);
      if (there.contains(node)) lost.push_back(node);
      continue;
    }
    wishes all;
    for (std::size_t k = 0; k < 1 + d.below(4); ++k) {
      all.push_back({10 * k + d.below(10), d.one_in(3) ? 0 : 1 + d.below(400)});
    }
    std::erase(lost, node);
    auto after = there;
    for (const auto& [number, bytes] : all) {
      after[node].erase(number);
      if (bytes > 0) after[node][number] = bytes;
    }
    const auto is = room.ask(node, all);
    dropped += static_cast<int>(is.go.size());
    for (const std::string& gone : is.go) {
      REQUIRE((!lost.empty() && lost.front() == gone));
      lost.erase(lost.begin());
      there.erase(gone);
      after.erase(gone);
      room.forget(gone);
    }
    if (is.has_room) room.wrote(node, all);
    if (is.has_room) {
      there = std::move(after);
    } else {
      ++refused;
      there.try_emplace(node);
    }
    REQUIRE(room.bytes() == sum());
    REQUIRE(room.bytes() <= most);
  }
  CHECK(refused > 10);
  CHECK(dropped > 10);
}
