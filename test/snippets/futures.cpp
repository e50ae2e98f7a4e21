// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

// Futures: handles to values that are there or will be.

using namespace std::chrono_literals;

namespace {

int square(int x) { return x * x; }
std::string text() { return std::string(1000, 'x'); }
std::unique_ptr<int> owned() { return std::make_unique<int>(5); }
std::tuple<double, int> statistics(const std::vector<double>& numbers) {
  double total = 0;
  for (double each : numbers) total += each;
  return {total / static_cast<double>(numbers.size()), static_cast<int>(numbers.size())};
}
std::pair<int, std::string> named() { return {1, "one"}; }
std::array<int, 2> two() { return {1, 2}; }
std::vector<int> three() { return {1, 2, 3}; }

}  // namespace

TEST_CASE("futures: get gives the value in place, or the value itself") {
  manta::runtime rt;
  manta::future<std::string> f = manta::remote<text>();
  const std::string& in_place = f.get();  // lives as long as a future to it
  CHECK(in_place.size() == 1000);
  std::string mine = std::move(f).get();  // moved out: nobody else holds it
  CHECK(mine.size() == 1000);
  CHECK_FALSE(f.valid());
  CHECK(*manta::remote<owned>().get() == 5);  // move-only values, too
}

TEST_CASE("futures: a limit, a question, an answer without exceptions") {
  manta::runtime rt;
  const manta::future<int> f = manta::remote<square>(3);
  CHECK(f.get(60s) == 9);  // throws manta::timed_out after a minute
  CHECK(f.is_ready());
  manta::result<const int&> answer = f.try_get();
  if (answer) CHECK(answer.value() == 9);
  CHECK(f.try_get(60s).has_value());
  // A future of the moment gives the value itself, which may be move-only.
  std::unique_ptr<int> mine = manta::remote<owned>().get(60s);
  manta::result<std::unique_ptr<int>> or_error = manta::remote<owned>().try_get();
  CHECK(*mine + **or_error == 10);
}

TEST_CASE("futures: many at once") {
  manta::runtime rt;
  std::vector<manta::future<int>> squares;
  for (int i = 1; i <= 3; ++i) squares.push_back(manta::remote<square>(i));
  CHECK(manta::get(squares) == std::vector<int>{1, 4, 9});
  CHECK(manta::get(squares, 60s).size() == 3);               // one limit for all together
  std::vector<int> values = manta::get(std::move(squares));  // moved out
  CHECK(values.back() == 9);
}

TEST_CASE("futures: a handle can be copied, and equals its copies") {
  manta::runtime rt;
  manta::future<int> f = manta::put(1);
  manta::future<int> g = f;
  CHECK(f == g);
  CHECK(&f.get() == &g.get());  // one value
}

TEST_CASE("futures: something to do when one has ended") {
  manta::runtime rt;
  manta::future<int> f = manta::remote<square>(6);
  auto shown = manta::on_ready(f, [](const manta::future<int>& ended) {  // a task of its own
    return "it is " + std::to_string(ended.get());
  });
  CHECK(shown.get() == "it is 36");
}

TEST_CASE("futures: several results are split without waiting") {
  manta::runtime rt;
  auto [mean, count] = manta::split(manta::remote<statistics>(std::vector<double>{1, 2, 6}));
  manta::future<int> squared = manta::remote<square>(count);  // runs when the parts are there
  CHECK(mean.get() == 3);
  CHECK(squared.get() == 9);
  auto [number, word] = manta::split(manta::remote<named>());
  CHECK(word.get() == "one");
  std::array<manta::future<int>, 2> both = manta::split(manta::remote<two>());
  std::vector<manta::future<int>> each = manta::split(manta::remote<three>(), 3);
  CHECK(number.get() + both[1].get() + each[2].get() == 6);
}
