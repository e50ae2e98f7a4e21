// SPDX-License-Identifier: Apache-2.0
#include <manta/base/id.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <manta/base/type_name.hpp>

#include <catch2/catch.hpp>

namespace {

using manta::base::derive;
using manta::base::hash_name;
using manta::base::id;

std::size_t collisions(std::vector<id> ids) {
  const auto key = [](const id& i) { return std::pair(i.high, i.low); };
  std::sort(ids.begin(), ids.end(), [&](const id& a, const id& b) { return key(a) < key(b); });
  std::size_t count = 0;
  for (std::size_t i = 1; i < ids.size(); ++i) count += ids[i] == ids[i - 1] ? 1 : 0;
  return count;
}

void one() {}
void other() {}

}  // namespace

TEST_CASE("an id is a function of parent, index and function alone", "[id]") {
  constexpr id parent{7, 9};
  STATIC_REQUIRE(derive(parent, 3, 11) == derive(parent, 3, 11));
  STATIC_REQUIRE(!(derive(parent, 3, 11) == derive(parent, 4, 11)));
  STATIC_REQUIRE(!(derive(parent, 3, 11) == derive(parent, 3, 12)));
  STATIC_REQUIRE(!(derive(parent, 3, 11) == derive({9, 7}, 3, 11)));
  STATIC_REQUIRE(!(derive(parent, 3, 11) == derive(parent, 11, 3)));
}

TEST_CASE("a million children of one parent have a million ids", "[id]") {
  std::vector<id> ids;
  for (std::uint64_t i = 0; i < 1'000'000; ++i) ids.push_back(derive({1, 2}, i, 3));
  CHECK(collisions(std::move(ids)) == 0);
}

TEST_CASE("a tree of a million calls has a million ids", "[id]") {
  std::vector<id> ids{id{}};
  for (std::size_t parent = 0; ids.size() < 1'000'000; ++parent) {
    for (std::uint64_t index = 0; index < 5; ++index) {
      for (const std::uint64_t function : {hash_name("f"), hash_name("g")}) {
        ids.push_back(derive(ids[parent], index, function));
      }
    }
  }
  CHECK(collisions(std::move(ids)) == 0);
}

TEST_CASE("a deep chain of first calls never meets itself", "[id]") {
  std::vector<id> ids{id{}};
  while (ids.size() < 1'000'000) ids.push_back(derive(ids.back(), 0, hash_name("f")));
  CHECK(collisions(std::move(ids)) == 0);
}

TEST_CASE("every half of the ids spreads: small inputs reach all high bits", "[id]") {
  std::uint64_t high_or = 0;
  std::uint64_t high_and = ~std::uint64_t{0};
  std::uint64_t low_or = 0;
  std::uint64_t low_and = ~std::uint64_t{0};
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const id child = derive({}, i, 0);
    high_or |= child.high;
    high_and &= child.high;
    low_or |= child.low;
    low_and &= child.low;
  }
  CHECK(high_or == ~std::uint64_t{0});
  CHECK(high_and == 0);
  CHECK(low_or == ~std::uint64_t{0});
  CHECK(low_and == 0);
}

TEST_CASE("the spelling of a function tells functions and types apart", "[id]") {
  using manta::base::spelled_function;
  using manta::base::spelled_type;
  CHECK(hash_name(spelled_function<&one>()) != hash_name(spelled_function<&other>()));
  CHECK(hash_name(spelled_type<int>()) != hash_name(spelled_type<unsigned>()));
  STATIC_REQUIRE(hash_name("") == 0xcbf29ce484222325U);
  // FNV-1a of "a", from its definition.
  STATIC_REQUIRE(hash_name("a") == (0xcbf29ce484222325U ^ 0x61U) * 0x100000001b3U);
}
