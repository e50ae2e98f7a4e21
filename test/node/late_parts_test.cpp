// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <map>
#include <random>
#include <utility>

#include <catch2/catch.hpp>

#include "node/late_parts.hpp"

using manta::node::late_parts;

TEST_CASE("parts of what was given up are under way until they have come", "[node][late_parts]") {
  late_parts all;
  all.add(1, 5, 3);
  all.add(2, 5, 1);
  all.add(3, 6, 2);
  all.add(4, 5, 0);
  CHECK(all.under_way(5) == 4);
  CHECK(all.under_way(6) == 2);
  all.came(1, 5);
  CHECK(all.under_way(5) == 3);
  all.came(1, 6);  // of another node: it was not asked
  all.came(4, 5);
  all.came(9, 5);
  CHECK(all.under_way(5) == 3);
  all.came(2, 5);
  all.came(2, 5);
  CHECK(all.under_way(5) == 2);
  all.lost(5);
  CHECK(all.under_way(5) == 0);
  CHECK(all.under_way(6) == 2);
  all.clear();
  CHECK(all.under_way(6) == 0);
}

TEST_CASE("parts that come late are counted as by a list of each", "[node][late_parts]") {
  const auto seed = GENERATE(1U, 2U, 3U, 4U, 5U);
  std::mt19937 random(seed);
  late_parts all;
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> model;
  std::uint64_t last = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t node = random() % 4;
    switch (random() % 8) {
      case 0:
      case 1: {
        const std::uint64_t parts = random() % 7;
        all.add(++last, node, parts);
        if (parts > 0) model[last] = {node, parts};
        break;
      }
      case 2:
        if (random() % 16 != 0) break;
        all.lost(node);
        std::erase_if(model, [node](const auto& one) { return one.second.first == node; });
        break;
      default: {
        const std::uint64_t which = last == 0 ? 0 : random() % last + 1;
        all.came(which, node);
        const auto found = model.find(which);
        if (found == model.end() || found->second.first != node) break;
        if (--found->second.second == 0) model.erase(found);
      }
    }
    for (std::uint64_t each = 0; each < 4; ++each) {
      std::uint64_t sum = 0;
      for (const auto& [fetch, one] : model) sum += one.first == each ? one.second : 0;
      REQUIRE(all.under_way(each) == sum);
    }
  }
}
