// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <list>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "node/copy_cache.hpp"
#include "own/copy_limits.hpp"

using manta::base::time_point;
using manta::node::copy_cache;
using manta::own::copy_limits;
using namespace std::chrono_literals;

namespace {

// Says when nobody holds it any more.
class told_block final : public manta::node::array_block {
 public:
  explicit told_block(bool& ended) noexcept : array_block({}), ended_(ended) {}

 private:
  void end() noexcept override {
    ended_ = true;
    delete this;
  }
  bool& ended_;
};

struct copy {
  bool has_ended = false;
  told_block* block = new told_block(has_ended);
  // What it came for is over: the cache alone may have it from here on.
  void let_go() { std::exchange(block, nullptr)->drop(); }
  ~copy() {
    if (block != nullptr) block->drop();
  }
};

constexpr copy_cache::key ten(std::uint64_t contents, std::uint64_t owner = 1) {
  return {owner, contents, 10};
}
bool finds(copy_cache& in, const copy_cache::key& of, time_point now) {
  manta::node::array_block* const found = in.find(of, now);
  if (found != nullptr) found->drop();
  return found != nullptr;
}

constexpr time_point start = time_point(1h);

}  // namespace

TEST_CASE("a copy is found until it was not used for a while", "[node][copies]") {
  copy one;
  copy_cache cache;
  cache.keep(ten(5), *one.block, start, 100);
  one.let_go();
  CHECK(finds(cache, ten(5), start + 500ms));
  CHECK_FALSE(finds(cache, ten(6), start + 500ms));
  CHECK_FALSE(finds(cache, ten(5, 2), start + 500ms));
  CHECK_FALSE(finds(cache, {1, 5, 11}, start + 500ms));
  const time_point due = start + 500ms + copy_limits::kept_for;
  CHECK(cache.sweep(due - 1ms) == due);
  CHECK_FALSE(one.has_ended);
  CHECK_FALSE(cache.sweep(due).has_value());
  CHECK(one.has_ended);
  CHECK_FALSE(finds(cache, ten(5), due));
}

TEST_CASE("a copy is found by what nodes called it, and used by that", "[node][copies]") {
  constexpr manta::base::id name{3, 4};
  copy one;
  copy other;
  copy_cache cache;
  cache.keep(ten(5), *one.block, start, 100, name);
  cache.keep(ten(6), *other.block, start, 100);
  one.let_go();
  other.let_go();
  manta::node::array_block* const found = cache.find_named(name, start + 500ms);
  REQUIRE(found != nullptr);
  found->drop();
  CHECK(cache.find_named({3, 5}, start) == nullptr);
  CHECK(cache.find_named({}, start) == nullptr);
  cache.sweep(start + copy_limits::kept_for);
  CHECK_FALSE(one.has_ended);
  CHECK(other.has_ended);
  cache.clear();
  CHECK(one.has_ended);
  CHECK(cache.find_named(name, start) == nullptr);
}

TEST_CASE("copies of what a lost node has made stay for who looks for them", "[node][copies]") {
  copy one;
  copy other;
  copy more;
  copy_cache cache;
  cache.keep(ten(5), *one.block, start, 100);
  cache.keep(ten(6, 2), *other.block, start, 100);
  cache.keep(ten(7), *more.block, start, 100);
  for (copy* const each : {&one, &other, &more}) each->let_go();
  cache.touch(1, start + 500ms);
  CHECK(cache.sweep(start + copy_limits::kept_for) == start + 500ms + copy_limits::kept_for);
  CHECK(other.has_ended);
  CHECK_FALSE(one.has_ended);
  CHECK(finds(cache, ten(7), start + 600ms));
  CHECK_FALSE(cache.sweep(start + 600ms + copy_limits::kept_for).has_value());
  CHECK((one.has_ended && more.has_ended));
}

TEST_CASE("copies that were used least lately make room for others", "[node][copies]") {
  std::array<copy, 4> all;
  copy_cache cache;
  for (std::size_t i = 0; i < 3; ++i) cache.keep(ten(i + 1), *all[i].block, start, 30);
  CHECK(finds(cache, ten(1), start + 1ms));
  cache.keep(ten(4), *all[3].block, start + 2ms, 30);
  for (copy& one : all) one.let_go();
  CHECK(all[1].has_ended);
  CHECK(finds(cache, ten(1), start + 3ms));
  CHECK(finds(cache, ten(3), start + 3ms));
  CHECK(finds(cache, ten(4), start + 3ms));
  CHECK_FALSE(all[0].has_ended);
  cache.clear();
  CHECK((all[0].has_ended && all[2].has_ended && all[3].has_ended));
}

TEST_CASE("what has no number, is too large or known already is not kept", "[node][copies]") {
  copy nameless;
  copy large;
  copy one;
  copy same;
  copy_cache cache;
  cache.keep(ten(0), *nameless.block, start, 30);
  cache.keep({1, 7, 31}, *large.block, start, 30);
  cache.keep(ten(3), *one.block, start, 30);
  cache.keep(ten(3), *same.block, start, 30);
  for (copy* const each : {&nameless, &large, &one, &same}) each->let_go();
  CHECK((nameless.has_ended && large.has_ended && same.has_ended));
  CHECK_FALSE(one.has_ended);
  cache.clear();
  CHECK(one.has_ended);
}

// Against a list of what is kept, those used last at its end.
TEST_CASE("copies are kept as a list of them would be", "[node][copies]") {
  constexpr std::uint64_t most = 60;
  std::mt19937_64 random(7);
  copy_cache cache;
  std::list<std::pair<copy_cache::key, time_point>> model;
  std::vector<std::unique_ptr<copy>> all;
  time_point now = start;
  const auto find_model = [&](const copy_cache::key& of) {
    return std::find_if(model.begin(), model.end(),
                        [&](const auto& one) { return one.first == of; });
  };
  for (int i = 0; i < 20'000; ++i) {
    now += std::chrono::milliseconds(random() % 40);
    const copy_cache::key of{1 + random() % 2, 1 + random() % 12, 1 + random() % 20};
    const auto known = find_model(of);
    if (random() % 2 == 0) {
      CHECK(finds(cache, of, now) == (known != model.end()));
      if (known == model.end()) continue;
      known->second = now;
      model.splice(model.end(), model, known);
      continue;
    }
    all.push_back(std::make_unique<copy>());
    cache.keep(of, *all.back()->block, now, most);
    all.back()->let_go();
    if (known == model.end()) {
      const auto bytes = [&] {
        std::uint64_t sum = 0;
        for (const auto& one : model) sum += one.first.bytes;
        return sum;
      };
      while (bytes() + of.bytes > most) model.pop_front();
      model.emplace_back(of, now);
    }
    if (random() % 8 != 0) continue;
    const manta::base::deadline due = cache.sweep(now);
    while (!model.empty() && now - model.front().second >= copy_limits::kept_for) model.pop_front();
    CHECK(due.has_value() == !model.empty());
    const auto living =
        std::count_if(all.begin(), all.end(), [](const auto& one) { return !one->has_ended; });
    CHECK(static_cast<std::size_t>(living) == model.size());
  }
  cache.clear();
}
