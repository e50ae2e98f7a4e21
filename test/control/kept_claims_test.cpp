// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "control/ask.hpp"
#include "control/kept_claims.hpp"
#include "control/rows.hpp"

namespace control = manta::control;
using control::claimed_name;
using control::name_holder;

TEST_CASE("a name that is kept is one claim's until that is dropped", "[control][claims]") {
  const auto in = control::make_memory_store();
  const claimed_name of{"space", "name"};
  const name_holder first{3, 1};
  const name_holder second{4, 9};
  CHECK(*control::kept_claim(*in, of) == name_holder{});
  CHECK(*control::keep_claim(*in, of, first) == first);
  CHECK(*control::keep_claim(*in, of, second) == first);
  CHECK(*control::keep_claim(*in, of, first) == first);
  CHECK(control::drop_claim(*in, of, second).has_value());
  CHECK(*control::kept_claim(*in, of) == first);
  CHECK(*control::kept_claim(*in, {"", "spacename"}) == name_holder{});
  CHECK(*control::kept_claim(*in, {"spac", "ename"}) == name_holder{});
  CHECK(control::drop_claim(*in, of, first).has_value());
  CHECK(control::drop_claim(*in, of, first).has_value());
  CHECK(*control::keep_claim(*in, of, second) == second);
}

TEST_CASE("kept claims are as those in memory", "[control][claims]") {
  const auto in = control::make_memory_store();
  control::claimed_names model;
  std::mt19937_64 random(11);
  for (int i = 0; i < 5'000; ++i) {
    const claimed_name of{random() % 2 == 0 ? "" : "s", "n" + std::to_string(random() % 6)};
    const name_holder by{1 + random() % 3, 1 + random() % 3};
    switch (random() % 3) {
      case 0:
        CHECK(*control::keep_claim(*in, of, by) == model.claim(of, by));
        break;
      case 1:
        CHECK(*control::kept_claim(*in, of) == model.find(of));
        break;
      default:
        CHECK(control::drop_claim(*in, of, by).has_value());
        model.release(of, by);
    }
  }
}

TEST_CASE("claims of nodes that have ended are dropped, and no others", "[control][claims]") {
  const auto in = control::make_memory_store();
  const auto name = [](std::uint64_t i) {
    return claimed_name{"s", std::to_string(i) + std::string(i % 7 == 0 ? 1020 : 0, 'x')};
  };
  for (std::uint64_t i = 0; i < 2'500; ++i) {  // more than a page
    REQUIRE(control::keep_claim(*in, name(i), {1 + i % 5, i + 1}).has_value());
  }
  const std::vector<std::uint64_t> gone{2, 5, 9};
  CHECK(*control::drop_claims_of(*in, gone) == 1'000);
  CHECK(*control::drop_claims_of(*in, gone) == 0);
  int wrong = 0;
  for (std::uint64_t i = 0; i < 2'500; ++i) {
    const bool is_gone = i % 5 == 1 || i % 5 == 4;
    const name_holder by = is_gone ? name_holder{} : name_holder{1 + i % 5, i + 1};
    if (*control::kept_claim(*in, name(i)) != by) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("names that are longer than a key are claimed as others", "[control][claims]") {
  const auto in = control::make_memory_store();
  std::vector<claimed_name> all;
  for (const std::size_t size : {900U, 901U, 902U, 903U, 1023U, 1024U}) {
    for (const char last : {'a', 'b'}) {
      const std::string text = std::string(size - 1, 'n') + last;
      all.push_back({std::string(100, 's'), text});
      all.push_back({std::string(1024, 's') + last, text});
      all.push_back({std::string(1024, 's'), last + text});
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const name_holder by{1, i + 1};
    CHECK(*control::kept_claim(*in, all[i]) == name_holder{});
    CHECK(*control::keep_claim(*in, all[i], by) == by);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(*control::kept_claim(*in, all[i]) == name_holder{1, i + 1});
    CHECK(control::drop_claim(*in, all[i], {1, i + 1}).has_value());
    CHECK(*control::kept_claim(*in, all[i]) == name_holder{});
  }
}

TEST_CASE("a record of a claim that is none is told, and claims nothing", "[control][claims]") {
  const auto in = control::make_memory_store();
  control::batch what;
  what.changes.push_back({control::change::kind::put,
                          std::string(control::keys::claims) + control::digits(1) + "sn", "short"});
  REQUIRE(control::commit_now(*in, what).has_value());
  const auto got = control::keep_claim(*in, {"s", "n"}, {1, 1});
  REQUIRE_FALSE(got.has_value());
  CHECK(got.error().code() == manta::errc::decode_failed);
}
