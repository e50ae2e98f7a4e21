// SPDX-License-Identifier: Apache-2.0
// Names and who has them, against a model that keeps every claim that was ever made.
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "control/claimed_names.hpp"
#include "exec/support.hpp"

namespace claimed_names_test {

using manta::control::claimed_name;
using manta::control::claimed_names;
using manta::control::name_holder;

TEST_CASE("a name is its first claim's, until that one is over", "[control][names]") {
  claimed_names names;
  const claimed_name a{"", "a"};
  const claimed_name other{"space", "a"};
  CHECK(names.find(a) == name_holder{});
  CHECK(names.claim(a, {1, 1}) == name_holder{1, 1});
  CHECK(names.claim(a, {2, 1}) == name_holder{1, 1});
  CHECK(names.claim(a, {1, 2}) == name_holder{1, 1});
  CHECK(names.claim(other, {2, 2}) == name_holder{2, 2});
  names.release(a, {2, 1});
  names.release(a, {1, 2});
  CHECK(names.find(a) == name_holder{1, 1});
  names.release(a, {1, 1});
  CHECK(names.find(a) == name_holder{});
  CHECK(names.claim(a, {2, 3}) == name_holder{2, 3});
  names.release(a, {1, 1});  // once more, and late
  CHECK(names.find(a) == name_holder{2, 3});
  names.gone(2);
  CHECK(names.size() == 0);
}

// The model: a name belongs to the oldest claim that was made while it was free and is not over.
TEST_CASE("claims, releases in any order, and deaths agree with a model", "[control][names]") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    manta_test::dice roll(seed);
    claimed_names names;
    std::map<std::string, name_holder> model;
    std::vector<std::pair<std::string, name_holder>> all;  // also those that are over
    std::uint64_t last = 0;
    std::size_t wrong = 0;
    for (int step = 0; step < 2000; ++step) {
      const std::string name(1, static_cast<char>('a' + roll.next() % 5));
      const std::uint64_t node = 1 + roll.next() % 4;
      switch (roll.next() % 8) {
        case 0:
        case 1:
        case 2: {
          const name_holder mine{node, ++last};
          const auto [at, is_new] = model.try_emplace(name, mine);
          wrong += names.claim({"", name}, mine) == at->second ? 0 : 1;
          all.emplace_back(name, mine);
          break;
        }
        case 7:
          if (roll.next() % 20 != 0) break;
          names.gone(node);
          std::erase_if(model, [&](const auto& one) { return one.second.node == node; });
          break;
        default: {
          if (all.empty()) break;
          const auto& [of, by] = all[roll.next() % all.size()];
          names.release({"", of}, by);
          const auto found = model.find(of);
          if (found != model.end() && found->second == by) model.erase(found);
        }
      }
      const auto found = model.find(name);
      wrong +=
          names.find({"", name}) == (found == model.end() ? name_holder{} : found->second) ? 0 : 1;
      wrong += names.size() == model.size() ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

}  // namespace claimed_names_test
