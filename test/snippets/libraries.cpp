// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstddef>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

// On top of tasks and actors: loops over ranges, map and reduce by key, pools of actors.

namespace {

struct parser {
  int parse(const std::string& text) { return std::stoi(text); }
};

}  // namespace

TEST_CASE("loops: over numbers and over ranges") {
  manta::runtime rt;
  std::vector<int> squares(1000);
  manta::parallel_for(std::size_t{0}, squares.size(),
                      [&](std::size_t i) { squares[i] = static_cast<int>(i * i); });
  CHECK(squares[30] == 900);
  const manta::loop_options coarse = {.grain = 100};  // one thread takes 100 items or more
  manta::parallel_for(
      squares, [](int& each) { ++each; }, coarse);
  CHECK(squares[30] == 901);
}

TEST_CASE("loops: results in order, and one result of all") {
  manta::runtime rt;
  std::vector<int> numbers(100);
  std::iota(numbers.begin(), numbers.end(), 1);
  const std::vector<double> halves = manta::parallel_map(numbers, [](int x) { return 0.5 * x; });
  CHECK(halves[99] == 50);
  const double total = manta::parallel_reduce(halves, 0.0, std::plus<>{});
  const int largest = manta::parallel_reduce(
      numbers, 0, [](int x) { return x % 60; }, [](int a, int b) { return a > b ? a : b; });
  CHECK(total == 2525);
  CHECK(largest == 59);
}

TEST_CASE("map_reduce: how often each word occurs") {
  manta::runtime rt;
  std::vector<std::vector<std::string>> lines = {{"a", "b", "a"}, {"b", "a"}};
  const manta::map_reduce_options how = {.partitions = 2, .grain = 1};
  auto parts = manta::map_reduce<std::string, int>(
      lines,
      [](const std::vector<std::string>& line, manta::emitter<std::string, int>& emit) {
        for (const std::string& word : line) emit(word, 1);
      },
      [](const std::string&, std::vector<int>&& ones) { return static_cast<int>(ones.size()); },
      how);
  int words = 0;
  for (auto& part : parts) {  // a future for each partition of the keys
    for (const auto& [word, count] : part.get()) {
      words += count;
      CHECK(count == (word == "a" ? 3 : 2));
    }
  }
  CHECK(words == 5);
}

TEST_CASE("map_reduce: an emitter by hand, for tests of a map function") {
  manta::emitter<std::string, int> emit(1);
  emit("key", 2);
  const manta::emitter<std::string, int>::parts pairs = emit.take();
  CHECK(pairs.at(0).at(0).second == 2);
}

TEST_CASE("actor_pool: each call goes to the next actor that is free") {
  manta::runtime rt;
  manta::actor_pool<parser> pool({manta::spawn<parser>(), manta::spawn<parser>()});
  CHECK(pool.submit<&parser::parse>("17").get() == 17);
  const std::vector<std::string> texts = {"1", "2", "3"};
  CHECK(manta::get(pool.map<&parser::parse>(texts)) == std::vector<int>{1, 2, 3});
  int total = 0;
  for (manta::future<int>& each : pool.map_unordered<&parser::parse>(texts)) total += each.get();
  CHECK(total == 6);
}

TEST_CASE("actor_pool: actors come and go") {
  manta::runtime rt;
  manta::actor_pool<parser> pool;
  pool.push(manta::spawn<parser>());
  CHECK((pool.size() == 1 && pool.idle() == 1));
  const std::optional<manta::actor<parser>> mine = pool.pop();
  CHECK((mine.has_value() && pool.size() == 0));
}
