// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "support.hpp"

// parallel_for, parallel_map, parallel_reduce and map_reduce: their pieces are lambdas that use the
// caller's stack or share its data, so in no mode do they leave its process.

namespace parallel_test {

namespace {

using pairs = std::vector<std::pair<std::string, std::size_t>>;

void split_words(const std::string& text, manta::emitter<std::string, int>& emit) {
  std::string word;
  for (const char c : text + ' ') {
    if (c != ' ') {
      word += c;
    } else if (!word.empty()) {
      emit(std::exchange(word, {}), 1);
    }
  }
}

// An element that can't be default-made nor copied.
struct owned {
  explicit owned(int v) : value(std::make_unique<int>(v)) {}
  std::unique_ptr<int> value;
};

}  // namespace

TEST_CASE("parallel_for calls its function once for each index", "[parallel][stays:async]") {
  const manta::runtime rt(test::workers(3));
  for (const std::size_t grain : std::initializer_list<std::size_t>{0, 1, 2, 7, 1000, 100000}) {
    for (const int n : {0, 1, 2, 63, 64, 65, 5000}) {
      std::vector<std::atomic<int>> calls(static_cast<std::size_t>(n));
      manta::parallel_for(0, n, [&calls](int i) { ++calls[static_cast<std::size_t>(i)]; },
                          {.grain = grain});
      CHECK(std::all_of(calls.begin(), calls.end(), [](const auto& c) { return c == 1; }));
    }
  }
  std::atomic<int> sum{0};
  manta::parallel_for(-50, 51, [&sum](int i) { sum += i * i; });
  CHECK(sum == 85850);
  // The whole range of a small type, and the far end of a large one.
  std::atomic<int> calls{0};
  manta::parallel_for(std::int8_t{-128}, std::int8_t{127}, [&calls](std::int8_t) { ++calls; });
  CHECK(calls == 255);
  std::atomic<std::int64_t> last{0};
  manta::parallel_for(INT64_MAX - 3, INT64_MAX, [&last](std::int64_t i) {
    if (i == INT64_MAX - 1) last = i;
  });
  CHECK(last == INT64_MAX - 1);
}

TEST_CASE("parallel_for walks ranges and changes them in place", "[parallel][stays:async]") {
  const manta::runtime rt(test::two_workers());
  std::vector<int> values(10000, 1);
  manta::parallel_for(values, [](int& v) { v += 1; });
  CHECK(std::accumulate(values.begin(), values.end(), 0) == 20000);
  std::array<std::string, 3> texts{"a", "b", "c"};
  manta::parallel_for(texts, [](std::string& s) { s += s; }, {.grain = 1});
  CHECK(texts[2] == "cc");
  manta::parallel_for(std::vector<int>{}, [](int) { throw std::runtime_error("called"); });
}

TEST_CASE("parallel loops refuse a range that ends before it begins, and need a runtime",
          "[parallel][stays:refused]") {
  CHECK_THROWS_AS(manta::parallel_for(0, 10, [](int) {}), manta::no_runtime);
  const manta::runtime rt(test::two_workers());
  CHECK_THROWS_AS(manta::parallel_for(1, 0, [](int) {}), manta::invalid_argument);
}

TEST_CASE("an exception leaves a parallel loop as it was thrown, when all have stopped",
          "[parallel][stays:async]") {
  const manta::runtime rt(test::workers(3));
  for (const int bad : {0, 1, 499, 999}) {
    std::atomic<int> inside{0};
    std::string said;
    try {
      manta::parallel_for(0, 1000,
                          [&](int i) {
                            ++inside;
                            if (i == bad) {
                              --inside;
                              throw std::out_of_range("item " + std::to_string(i));
                            }
                            --inside;
                          },
                          {.grain = 1});
    } catch (const std::out_of_range& e) {
      said = e.what();
    }
    CHECK(said == "item " + std::to_string(bad));
    CHECK(inside == 0);
  }
}

TEST_CASE("parallel loops nest, and run inside tasks", "[parallel][stays:async]") {
  const manta::runtime rt(test::two_workers());
  std::atomic<int> calls{0};
  const auto done = manta::async([&calls] {
    manta::parallel_for(
        0, 20,
        [&calls](int) { manta::parallel_for(0, 50, [&calls](int) { ++calls; }, {.grain = 1}); },
        {.grain = 1});
  });
  done.get();
  CHECK(calls == 1000);
}

TEST_CASE("work is shared: while one item waits for another, somebody runs that",
          "[parallel][stays:async]") {
  // Both halves have to be under way at once, so this hangs (until the gate's deadline) when the
  // right half is not offered.
  const manta::runtime rt(test::two_workers());
  test::scoped_gate other;
  std::atomic<bool> met{false};
  manta::parallel_for(0, 2,
                      [&](int i) {
                        if (i == 0) {
                          met = other.wait();
                        } else {
                          other.open();
                        }
                      },
                      {.grain = 1});
  CHECK(met);
}

TEST_CASE("parallel_map keeps the order whatever the results are", "[parallel][stays:async]") {
  const manta::runtime rt(test::workers(3));
  std::vector<int> in(3000);
  std::iota(in.begin(), in.end(), 0);
  const std::vector<std::string> texts =
      manta::parallel_map(in, [](int i) { return std::to_string(i); });
  CHECK(texts.size() == 3000);
  CHECK(texts[2999] == "2999");
  const std::vector<bool> even =
      manta::parallel_map(in, [](int i) { return i % 2 == 0; }, {.grain = 1});
  int right = 0;
  for (std::size_t i = 0; i < even.size(); ++i) right += even[i] == (i % 2 == 0) ? 1 : 0;
  CHECK(right == 3000);
  const std::vector<owned> moved = manta::parallel_map(in, [](int i) { return owned(i); });
  CHECK(*moved[1234].value == 1234);
  CHECK(manta::parallel_map(std::vector<int>{}, [](int i) { return i; }).empty());
}

TEST_CASE("parallel_reduce joins all items in their order", "[parallel][stays:async]") {
  const manta::runtime rt(test::workers(3));
  for (const std::size_t n :
       std::initializer_list<std::size_t>{0, 1, 2, 63, 64, 65, 67, 256, 10007}) {
    std::vector<std::uint64_t> in(n);
    std::iota(in.begin(), in.end(), std::uint64_t{1});
    // Associative but not commutative: a product of matrices ((1, x), (0, 1)) would commute, so
    // positions are mixed in: (a, la) + (b, lb) = (a * k^lb + b, la + lb).
    const auto text = manta::parallel_reduce(
        in, std::string("init"), [](std::uint64_t x) { return "," + std::to_string(x); },
        std::plus<>{}, {.grain = 5});
    std::string wanted = "init";
    for (const std::uint64_t x : in) wanted += "," + std::to_string(x);
    CHECK(text == wanted);
    CHECK(manta::parallel_reduce(in, std::uint64_t{7}, std::plus<>{}) == n * (n + 1) / 2 + 7);
    // Arithmetic items take the path with four places; subtraction shows each one's sign and place
    // when the reduction is by the last operand.
    const auto last = manta::parallel_reduce(
        in, std::uint64_t{0}, [](std::uint64_t, std::uint64_t b) { return b; }, {.grain = 1000});
    CHECK(last == n);
  }
}

TEST_CASE("with a grain parallel_reduce gives the same bits in every run",
          "[parallel][stays:async]") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> any(-1e9, 1e9);
  std::vector<double> in(50000);
  for (double& x : in) x = any(random) * any(random);
  std::vector<double> sums;
  for (const int workers : {1, 2, 4}) {
    const manta::runtime rt(test::workers(workers));
    for (int run = 0; run < 20; ++run) {
      sums.push_back(manta::parallel_reduce(in, 0.0, std::plus<>{}, {.grain = 100}));
    }
  }
  CHECK(std::all_of(sums.begin(), sums.end(), [&](double s) { return s == sums[0]; }));
}

TEST_CASE("map_reduce counts words: partitions of sorted keys, values in order",
          "[map_reduce][stays:async]") {
  const manta::runtime rt(test::two_workers());
  const std::vector<std::string> texts{"a rose is a rose", "", "is a", "rose  garden"};
  const std::map<std::string, std::size_t> wanted{{"a", 3}, {"garden", 1}, {"is", 2}, {"rose", 3}};
  for (const std::size_t partitions : std::initializer_list<std::size_t>{1, 2, 7}) {
    for (const std::size_t grain : std::initializer_list<std::size_t>{0, 1, 3}) {
      const auto parts = manta::map_reduce<std::string, int>(
          texts, split_words,
          [](const std::string&, std::vector<int>&& ones) { return ones.size(); },
          {.partitions = partitions, .grain = grain});
      CHECK(parts.size() == partitions);
      std::map<std::string, std::size_t> found;
      for (const auto& part : parts) {
        const pairs& sorted = part.get(test::patience);
        CHECK(std::is_sorted(sorted.begin(), sorted.end()));
        found.insert(sorted.begin(), sorted.end());
      }
      CHECK(found == wanted);
    }
  }
  // Values of a key come in the order of the inputs.
  std::vector<int> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto groups = manta::map_reduce<int, int>(
      numbers, [](int n, auto& emit) { emit(n % 5, n); },
      [](int, std::vector<int>&& values) { return values; }, {.partitions = 3, .grain = 7});
  int right = 0;
  for (const auto& part : groups) {
    for (const auto& [key, values] : part.get()) {
      right += values.size() == 200 && std::is_sorted(values.begin(), values.end()) &&
                       values.front() == key
                   ? 1
                   : 0;
    }
  }
  CHECK(right == 5);
}

TEST_CASE("map_reduce spreads keys over its partitions", "[map_reduce][stays:async]") {
  const manta::runtime rt(test::two_workers());
  std::vector<int> numbers(4000);
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto parts = manta::map_reduce<int, int>(
      numbers, [](int n, auto& emit) { emit(n * 64, 1); },
      [](int, std::vector<int>&& values) { return values.size(); }, {.partitions = 4});
  for (const auto& part : parts) {
    CHECK(part.get().size() > 700);
    CHECK(part.get().size() < 1300);
  }
}

TEST_CASE("a loop's piece that is late is waited for, since it uses the caller's stack",
          "[parallel][deadline][stays:async]") {
  const manta::runtime rt(test::workers(3));
  test::gate entered;
  test::gate passed;
  manta::future<void> witness;
  std::atomic<int> ended{0};
  std::atomic<int> with_deadline{0};
  const manta::deadline_scope within(std::chrono::milliseconds(20));
  const auto item = [&](int i) {
    with_deadline += manta::this_task::deadline().has_value() ? 1 : 0;
    if (i == 0) {
      entered.wait();
      // Began after the other piece did, so it is late after that one.
      witness = manta::async([] {
        while (!manta::this_task::is_cancelled()) std::this_thread::yield();
      });
      passed.open();
    } else {
      entered.open();
      passed.wait();
      static_cast<void>(witness.try_get());
    }
    ++ended;
  };
  CHECK_NOTHROW(manta::parallel_for(0, 2, item, {.grain = 1}));
  CHECK(ended == 2);
  CHECK(with_deadline == 2);
  CHECK_THROWS_AS(witness.get(), manta::timed_out);
}

TEST_CASE("parallel_for takes ends of different types whole", "[parallel][stays:async]") {
  const manta::runtime rt(test::two_workers());
  const std::uint64_t far = (std::uint64_t{1} << 32U) + 5;
  std::atomic<std::uint64_t> sum{0};
  const auto add = [&sum](auto i) { sum += static_cast<std::uint64_t>(i); };
  manta::parallel_for(0xffffffffU, far, add, {.grain = 1});
  CHECK(sum == 0xffffffffU + 5 * (std::uint64_t{1} << 32U) + 10);
  manta::parallel_for(-2, std::int64_t{3},
                      [](auto i) { static_assert(std::is_same_v<decltype(i), std::int64_t>); });
  CHECK_THROWS_AS(manta::parallel_for(-1, std::size_t{5}, add), manta::invalid_argument);
  CHECK_THROWS_AS(manta::parallel_for(std::size_t{5}, -1, add), manta::invalid_argument);
}

TEST_CASE("map_reduce of nothing, and its errors", "[map_reduce][stays:async]") {
  const manta::runtime rt(test::two_workers());
  const auto count = [](const std::string&, std::vector<int>&& ones) { return ones.size(); };
  const auto none = manta::map_reduce<std::string, int>(std::vector<std::string>{}, split_words,
                                                        count, {.partitions = 2});
  REQUIRE(none.size() == 2);
  CHECK(none[1].get().empty());
  CHECK_THROWS_AS((manta::map_reduce<std::string, int>(std::vector<std::string>{"a"}, split_words,
                                                       count, {.partitions = 0})),
                  manta::invalid_argument);
  const auto too_many = test::message_of<manta::invalid_argument>([&count] {
    static_cast<void>(manta::map_reduce<std::string, int>(
        std::vector<std::string>{"a"}, split_words, count, {.partitions = SIZE_MAX}));
  });
  CHECK(too_many.find("asked for " + std::to_string(SIZE_MAX)) != std::string::npos);
  CHECK_THROWS_AS(
      (manta::map_reduce<std::string, int>(std::vector<std::string>{"a"}, split_words, count,
                                           {.partitions = std::size_t{1} << 40})),
      manta::invalid_argument);
  const auto bad_map = manta::map_reduce<int, int>(
      std::vector<int>{1, 2}, [](int, auto&) { throw std::runtime_error("map failed"); },
      [](int, std::vector<int>&&) { return 0; }, {.partitions = 2});
  for (const auto& part : bad_map) {
    const auto said =
        test::message_of<manta::task_error>([&part] { static_cast<void>(part.get()); });
    CHECK(said.find("map failed") != std::string::npos);
    CHECK(said.find("map_reduce: map") != std::string::npos);
    CHECK(said.size() < 200);
  }
  const auto bad_reduce = manta::map_reduce<int, int>(
      std::vector<int>{1}, [](int n, auto& emit) { emit(n, n); },
      [](int, std::vector<int>&&) -> int { throw std::runtime_error("reduce failed"); });
  const auto said = test::message_of<manta::task_error>(
      [&bad_reduce] { static_cast<void>(bad_reduce[0].get()); });
  CHECK(said.find("map_reduce: reduce") != std::string::npos);
  CHECK(said.size() < 200);
}

}  // namespace parallel_test
