// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "support.hpp"

// split: the parts of one future as futures.

namespace split_test {

using namespace std::chrono_literals;

namespace {

using several = std::tuple<int, std::string, std::unique_ptr<int>>;

several make_several() { return {1, "two", std::make_unique<int>(3)}; }
std::tuple<int, std::string> fail_tuple() { throw std::runtime_error("no parts"); }
std::pair<int, std::string> make_pair() { return {4, "five"}; }
std::array<int, 3> make_array() { return {6, 7, 8}; }
std::vector<std::string> make_vector(int n) {
  return std::vector<std::string>(static_cast<std::size_t>(n), "element");
}
std::vector<bool> make_flags(int n) {
  std::vector<bool> out(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < out.size(); i += 3) out[i] = true;
  return out;
}
int add(int a, int b) { return a + b; }

test::everywhere<test::common_gate> go_on;
std::pair<int, int> late_numbers() {
  go_on->wait();
  return {20, 22};
}

// Copying it throws; its values are told apart by a move.
struct fragile {
  int value = 0;
  explicit fragile(int v) : value(v) {}
  fragile(fragile&& other) noexcept : value(other.value) {}
  fragile(const fragile&) { throw std::runtime_error("copied"); }
};

}  // namespace

TEST_CASE("the parts of a tuple, pair and array arrive as futures", "[split][anywhere]") {
  const manta::runtime rt(test::two_workers());
  auto [number, text, owned] = manta::split(manta::remote<make_several>());
  CHECK(number.get() == 1);
  CHECK(text.get() == "two");
  CHECK(*std::move(owned).get() == 3);
  const auto [first, second] = manta::split(manta::remote<make_pair>());
  CHECK(second.get() == "five");
  CHECK(first.get(test::patience) == 4);
  const auto [a, b, c] = manta::split(manta::remote<make_array>());
  CHECK(manta::remote<add>(a, manta::remote<add>(b, c)).get() == 21);
}

TEST_CASE("split does not block, and its parts are arguments at once", "[split][anywhere]") {
  const manta::runtime rt(test::two_workers());
  go_on->shut();
  const test::opens_at_end leaves(*go_on);
  auto source = manta::remote<late_numbers>();
  const auto [a, b] = manta::split(source);
  CHECK_FALSE(a.is_ready());
  const auto sum = manta::remote<add>(a, b);
  CHECK_THROWS_AS(a.get(0s), manta::timed_out);
  go_on->open();
  CHECK(sum.get(test::patience) == 42);
  // The source is there still, since a handle to it was kept.
  CHECK(source.get() == std::pair(20, 22));
}

TEST_CASE("a vector of 3,000 splits, one of another size fails typed", "[split][anywhere]") {
  const manta::runtime rt(test::two_workers());
  auto parts = manta::split(manta::remote<make_vector>(3000), 3000);
  REQUIRE(parts.size() == 3000);
  int right = 0;
  for (auto& p : parts) right += std::move(p).get() == "element" ? 1 : 0;
  CHECK(right == 3000);
  for (const auto& wrong : manta::split(manta::remote<make_vector>(3), 4)) {
    const auto said =
        test::message_of<manta::invalid_argument>([&wrong] { static_cast<void>(wrong.get()); });
    CHECK(said.find("4 parts, the vector has 3") != std::string::npos);
  }
  CHECK(manta::split(manta::remote<make_vector>(0), 0).empty());
  const auto flags = manta::split(manta::remote<make_flags>(7), 7);
  CHECK(flags[3].get());
  CHECK_FALSE(flags[4].get());
}

TEST_CASE("a source that failed fails all parts with its cause", "[split][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto bad = manta::remote<fail_tuple>();
  const auto check = [](const auto& part) {
    const auto said =
        test::message_of<manta::task_error>([&part] { static_cast<void>(part.get()); });
    return said.find("no parts") != std::string::npos;
  };
  const auto [a, b] = manta::split(bad);
  CHECK(check(a));
  CHECK(check(b));
  static_cast<void>(bad.try_get());
  const auto [c, d] = manta::split(bad);  // the source is ready: no task is needed
  CHECK(check(c));
  CHECK(check(d));
  CHECK_THROWS_AS(manta::split(manta::future<std::pair<int, int>>{}), manta::invalid_argument);
}

TEST_CASE("parts are moved out of a source that nobody else holds, else copied",
          "[split][stays:local]") {
  const manta::runtime rt(test::two_workers());
  const auto make = [] {
    std::vector<test::tracked> out;
    out.emplace_back(1);
    out.emplace_back(2);
    return out;
  };
  const int alive = test::tracked::alive;
  {
    auto source = manta::async(make);
    static_cast<void>(manta::wait_any(source));
    test::tracked::reset();
    const auto parts = manta::split(std::move(source), 2);
    CHECK(parts[1].get().value == 2);
    CHECK(test::tracked::copies == 0);
  }
  {
    const auto source = manta::async(make);
    static_cast<void>(manta::wait_any(source));
    test::tracked::reset();
    const auto parts = manta::split(source, 2);
    CHECK(parts[1].get().value == 2);
    CHECK(source.get()[1].value == 2);
    CHECK(test::tracked::copies == 2);
  }
  CHECK(test::tracked::alive == alive);
}

TEST_CASE("a part that can't be made fails alone", "[split][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto source = manta::remote<make_several>();
  auto [number, text, owned] = manta::split(source);
  CHECK(number.get() == 1);
  CHECK_THROWS_AS(std::move(owned).get(), manta::not_unique);
  CHECK(text.get() == "two");

  const auto pair = manta::async([] { return std::pair<int, fragile>(1, fragile(2)); });
  const auto [whole, broken] = manta::split(pair);
  CHECK(whole.get() == 1);
  const auto said =
      test::message_of<manta::task_error>([&broken = broken] { static_cast<void>(broken.get()); });
  CHECK(said.find("copied") != std::string::npos);
}

TEST_CASE("parts end when the runtime does", "[split][nodes]") {
  manta::future<int> part;
  {
    const manta::runtime rt(test::workers(1));
    go_on->shut();
    const auto blocker = manta::remote<late_numbers>();
    const auto source = manta::remote<make_pair>();
    part = manta::split(source).first;
    go_on->open();
  }
  REQUIRE(part.is_ready());
  const auto result = part.try_get();
  CHECK((result.has_value() || result.error().code() == manta::errc::cancelled));
}

TEST_CASE("split of a delegated future follows it", "[split][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto [a, b] = manta::split(manta::async([] { return manta::remote<make_pair>(); }));
  CHECK(a.get() == 4);
  CHECK(b.get() == "five");
}

namespace {

std::pair<int, int> late_pair() {
  go_on->wait();
  return {1, 2};
}

}  // namespace

TEST_CASE("a part is nobody's work: it is not cancelled, and has no deadline",
          "[split][cancel][anywhere]") {
  const manta::runtime rt(test::two_workers());
  go_on->shut();
  const test::opens_at_end leaves(*go_on);
  auto [a, b] = manta::split(manta::remote<late_pair>());
  CHECK_FALSE(manta::cancel(a));
  go_on->open();
  CHECK(a.get(test::patience) == 1);
  CHECK(b.get(test::patience) == 2);

  go_on->shut();
  const auto source = manta::remote<late_pair>();
  const manta::deadline_scope within(std::chrono::milliseconds(5));
  auto [c, d] = manta::split(source);
  // One that does have the deadline tells when it has passed.
  const auto due = manta::remote<late_pair>();
  CHECK_THROWS_AS(due.get(test::patience), manta::timed_out);
  go_on->open();
  CHECK(c.get(test::patience) == 1);
  CHECK(d.get(test::patience) == 2);
}

}  // namespace split_test
