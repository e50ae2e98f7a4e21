// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support.hpp"

// as_completed, wait_any and on_ready: being told of futures as they end.

namespace as_completed_test {

using namespace std::chrono_literals;

namespace {

int identity(int x) { return x; }
int fail(int x) { throw std::runtime_error("fail " + std::to_string(x)); }

test::everywhere<test::common_gate> gates[5];
int late_task(int gate, int value) {
  gates[gate]->wait();
  return value;
}
/// Ends with `value` when that gate is open.
manta::future<int> late(int gate, int value) { return manta::remote<late_task>(gate, value); }

/// The gates of one case: shut when it begins, and nobody is at them when it ends.
struct own_gates {
  own_gates() {
    for (auto& one : gates) one->shut();
  }
  own_gates(const own_gates&) = delete;
  own_gates& operator=(const own_gates&) = delete;
  ~own_gates() {
    for (auto& one : gates) one->open();
  }
  static void open(int gate) { gates[gate]->open(); }
};

std::unique_ptr<int> boxed(int x) { return std::make_unique<int>(x); }

// An actor that waits for its own calls in each way that there is here.
struct introvert {
  manta::actor<introvert> me;
  void know(manta::actor<introvert> self) { me = std::move(self); }
  int answer() { return 42; }
  int drain(int calls, int others) {
    std::vector<manta::future<int>> own;
    for (int i = 0; i < calls; ++i) own.push_back(manta::remote<&introvert::answer>(me));
    for (int i = 0; i < others; ++i) own.push_back(manta::remote<identity>(i));
    got = 0;
    for (manta::future<int>& f : manta::as_completed(std::move(own))) {
      static_cast<void>(f.get());
      ++got;
    }
    return got;
  }
  bool times_out() {
    auto range = manta::as_completed(std::vector{manta::remote<&introvert::answer>(me)});
    return !range.next(1ms) && range.remaining() == 1;
  }
  std::size_t any() {
    return manta::wait_any(manta::remote<&introvert::answer>(me),
                           manta::remote<&introvert::answer>(me));
  }
  std::size_t any_other() {
    return manta::wait_any(manta::remote<&introvert::answer>(me), manta::remote<identity>(1));
  }
  int how_many() { return got; }
  void forget() { me = {}; }
  int got = 0;
};

}  // namespace

TEST_CASE("as_completed gives each future once, whatever ends when", "[as_completed][anywhere]") {
  const manta::runtime rt(test::workers(4));
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (const int n : {0, 1, 2, 100, 20000}) {
    std::vector<manta::future<int>> all;
    for (int i = 0; i < n; ++i) {
      all.push_back(random() % 4 == 0 ? manta::put(i) : manta::remote<identity>(i));
    }
    std::vector<int> seen(static_cast<std::size_t>(n));
    for (manta::future<int>& f : manta::as_completed(all)) {
      const bool is_ready = f.is_ready();
      if (is_ready) ++seen[static_cast<std::size_t>(f.get())];
    }
    CHECK(std::all_of(seen.begin(), seen.end(), [](int k) { return k == 1; }));
  }
}

TEST_CASE("as_completed gives who ended first, first", "[as_completed][anywhere]") {
  const manta::runtime rt(test::workers(4));
  const own_gates gate;
  const std::vector<manta::future<int>> all{late(1, 0), late(0, 1), manta::put(2)};
  auto range = manta::as_completed(all);
  CHECK(range.remaining() == 3);
  CHECK(range.next()->get() == 2);
  CHECK_FALSE(range.next(0s));
  CHECK_FALSE(range.next(2ms));
  CHECK(range.remaining() == 2);
  gate.open(0);
  CHECK(range.next(test::patience).value() == all[1]);
  CHECK_FALSE(range.next(1ms));
  gate.open(1);
  CHECK(range.next()->get() == 0);
  CHECK(range.remaining() == 0);
  CHECK_FALSE(range.next());
  CHECK_FALSE(range.next(test::patience));
}

TEST_CASE("as_completed gives those that ended while nobody looked in their order",
          "[as_completed][anywhere]") {
  const manta::runtime rt(test::workers(5));
  const own_gates gate;
  std::vector<manta::future<int>> all;
  for (int i = 0; i < 5; ++i) all.push_back(late(i, i));
  auto range = manta::as_completed(all);
  auto told =
      manta::as_completed(all);  // after the first: a future that is ready tells them in turn
  const std::vector<int> order{3, 0, 4, 1, 2};
  for (const int i : order) {
    gate.open(i);
    CHECK(told.next(test::patience).value() == all[static_cast<std::size_t>(i)]);
  }
  std::vector<int> got;
  for (manta::future<int>& f : range) got.push_back(f.get());
  CHECK(got == order);
}

TEST_CASE("as_completed gives failed futures, too", "[as_completed][anywhere]") {
  const manta::runtime rt(test::two_workers());
  int failed = 0;
  for (manta::future<int>& f :
       manta::as_completed(std::vector{manta::remote<fail>(1), manta::remote<identity>(2)})) {
    if (!f.try_get()) ++failed;
  }
  CHECK(failed == 1);
}

TEST_CASE("as_completed refuses empty futures and duplicates and keeps the list",
          "[as_completed][stays:refused]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::put(1);
  std::vector<manta::future<int>> twice{a, manta::put(2), a};
  CHECK_THROWS_AS(manta::as_completed(std::move(twice)), manta::invalid_argument);
  CHECK(twice.size() == 3);
  CHECK(twice[2].get() == 1);
  const auto said = test::message_of<manta::invalid_argument>([] {
    static_cast<void>(manta::as_completed(std::vector{manta::put(1), manta::future<int>{}}));
  });
  CHECK(said.find("future 1 of 2 is empty") != std::string::npos);
  // Far apart in a list that does not fit the small table of the check.
  std::vector<manta::future<int>> many;
  for (int i = 0; i < 200000; ++i) many.push_back(manta::put(i));
  CHECK(manta::as_completed(many).remaining() == 200000);
  many.push_back(many[70000]);
  CHECK_THROWS_AS(manta::as_completed(many), manta::invalid_argument);
  many.back() = many[199999];
  CHECK_THROWS_AS(manta::as_completed(many), manta::invalid_argument);
}

TEST_CASE("as_completed moves the futures: who takes them may move the values out",
          "[as_completed][anywhere]") {
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<std::unique_ptr<int>>> all;
  for (int i = 0; i < 100; ++i) {
    all.push_back(manta::remote<boxed>(i));
  }
  int sum = 0;
  for (auto& f : manta::as_completed(std::move(all))) sum += *std::move(f).get();
  CHECK(sum == 4950);
}

TEST_CASE("as_completed may be left half way, while the rest is ending",
          "[as_completed][anywhere]") {
  // A node that is still listed, or being pushed, when its memory goes would be a use after free.
  const manta::runtime rt(test::workers(4));
  for (int round = 0; round < 200; ++round) {
    std::vector<manta::future<int>> all;
    for (int i = 0; i < 100; ++i) all.push_back(manta::remote<identity>(i));
    auto range = manta::as_completed(std::move(all));
    for (int i = 0; i < round % 7; ++i) static_cast<void>(range.next());
    auto moved = std::move(range);
    static_cast<void>(moved.next());
  }
  const own_gates gate;
  const auto last = late(0, 1);
  {
    auto range = manta::as_completed(std::vector{last, manta::put(2)});
    CHECK(range.next()->get() == 2);
  }
  gate.open(0);
  CHECK(last.get() == 1);  // it has left the gate
}

TEST_CASE("as_completed in a task lends its core", "[as_completed][anywhere]") {
  const manta::runtime rt(test::workers(1));
  const auto sum = manta::async([] {
    std::vector<manta::future<int>> all;
    for (int i = 0; i < 1000; ++i) all.push_back(manta::remote<identity>(i));
    int total = 0;
    for (manta::future<int>& f : manta::as_completed(std::move(all))) total += f.get();
    return total;
  });
  CHECK(sum.get(test::patience) == 499500);
}

TEST_CASE("several threads walk ranges over the same futures", "[as_completed][anywhere]") {
  std::atomic<int> right{0};
  const manta::runtime rt(test::two_workers());
  const own_gates gate;
  std::vector<manta::future<int>> all{late(0, 0)};
  for (int i = 1; i < 2000; ++i) all.push_back(manta::remote<identity>(i));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&all, &right] {
      long sum = 0;
      for (manta::future<int>& f : manta::as_completed(all)) sum += f.get();
      if (sum == 1999L * 1000) ++right;
    });
  }
  gate.open(0);
  for (std::thread& t : threads) t.join();
  CHECK(right == 4);
}

TEST_CASE("a short timeout again and again never loses a future", "[as_completed][anywhere]") {
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<int>> all;
  for (int i = 0; i < 5000; ++i) all.push_back(manta::remote<identity>(i));
  auto range = manta::as_completed(std::move(all));
  long sum = 0;
  const auto limit = std::chrono::steady_clock::now() + test::patience;
  while (range.remaining() > 0 && std::chrono::steady_clock::now() < limit) {
    if (const auto f = range.next(1us)) sum += f->get();
  }
  CHECK(sum == 4999L * 2500);
}

TEST_CASE("an actor that waits for its own calls is told so", "[as_completed][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<introvert>();
  manta::remote<&introvert::know>(a, a).get();
  CHECK_THROWS_AS(manta::remote<&introvert::drain>(a, 3, 0).get(test::patience), manta::self_wait);
  // What others do comes first; only when nothing else is left the wait is hopeless.
  CHECK_THROWS_AS(manta::remote<&introvert::drain>(a, 2, 50).get(test::patience), manta::self_wait);
  CHECK(manta::remote<&introvert::how_many>(a).get() == 50);
  CHECK(manta::remote<&introvert::drain>(a, 0, 50).get(test::patience) == 50);
  CHECK(manta::remote<&introvert::times_out>(a).get(test::patience));
  CHECK_THROWS_AS(manta::remote<&introvert::any>(a).get(test::patience), manta::self_wait);
  CHECK(manta::remote<&introvert::any_other>(a).get(test::patience) == 1);
  manta::remote<&introvert::forget>(a).get();
}

TEST_CASE("wait_any gives the position of the first future that is ready", "[wait_any][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const own_gates gate;
  const auto number = late(0, 1);
  const auto text = manta::put("text");
  const auto nothing = manta::async([] {});
  CHECK(manta::wait_any(number, text) == 1);
  CHECK(manta::wait_any(text) == 0);
  CHECK(manta::wait_any(number, nothing) == 1);
  CHECK(manta::wait_any(test::patience, number, text, nothing).value() == 1);
  CHECK_FALSE(manta::wait_any(0s, number));
  CHECK_FALSE(manta::wait_any(1ms, number));
  CHECK(manta::wait_any(number, manta::remote<fail>(1)) == 1);
  gate.open(0);
  CHECK(manta::wait_any(number) == 0);
  CHECK(manta::wait_any(number, text) == 0);
}

TEST_CASE("wait_any refuses empty and repeated futures", "[wait_any][stays:refused]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::put(1);
  CHECK_THROWS_AS(manta::wait_any(a, manta::future<std::string>{}), manta::invalid_argument);
  CHECK_THROWS_AS(manta::wait_any(a, a), manta::invalid_argument);
}

TEST_CASE("on_ready runs its function as a task when the future has ended",
          "[on_ready][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const own_gates gate;
  const auto f = late(0, 20);
  const auto twice = manta::on_ready(f, [](const manta::future<int>& ended) {
    return std::pair(ended.get(0s) * 2, std::this_thread::get_id());
  });
  CHECK_FALSE(twice.is_ready());
  gate.open(0);
  CHECK(twice.get(test::patience).first == 40);
  // A future that is ready already: not inside the call either.
  test::scoped_gate held;
  const auto later = manta::on_ready(manta::put(1), [&held](const manta::future<int>& ended) {
    return held.wait() ? ended.get() : -1;
  });
  held.open();
  CHECK(later.get(test::patience) == 1);
}

TEST_CASE("on_ready is told of failures and passes on its own", "[on_ready][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto bad = manta::remote<fail>(3);
  const auto code =
      manta::on_ready(bad, [](const manta::future<int>& f) { return f.try_get().error().code(); });
  CHECK(code.get() == manta::errc::task_error);
  const auto passed = manta::on_ready(bad, [](const manta::future<int>& f) { return f.get(); });
  const auto said =
      test::message_of<manta::task_error>([&passed] { static_cast<void>(passed.get()); });
  CHECK(said.find("fail 3") != std::string::npos);
  const auto flat =
      manta::on_ready(bad, [](const manta::future<int>&) { return manta::remote<identity>(8); });
  CHECK(flat.get() == 8);
  CHECK_THROWS_AS(manta::on_ready(manta::future<int>{}, [](const manta::future<int>&) {}),
                  manta::invalid_argument);
}

TEST_CASE("on_ready takes a callable that can only be moved, and drops it",
          "[on_ready][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const int before = test::tracked::alive;
  {
    auto out = manta::on_ready(manta::remote<identity>(1),
                               [held = std::make_unique<test::tracked>(5)](
                                   const manta::future<int>& f) { return held->value + f.get(); });
    CHECK(out.get() == 6);
  }
  CHECK(test::tracked::alive == before);
}

TEST_CASE("what on_ready waits for ends with the runtime, and so does it", "[on_ready][nodes]") {
  manta::future<int> out;
  {
    const manta::runtime rt(test::workers(1));
    const own_gates gate;
    const auto blocker = late(0, 1);
    const auto queued = manta::remote<identity>(1);
    out = manta::on_ready(queued, [](const manta::future<int>&) { return 1; });
    gate.open(0);
  }
  REQUIRE(out.is_ready());
  const auto result = out.try_get();
  CHECK((result.has_value() || result.error().code() == manta::errc::cancelled));
}

}  // namespace as_completed_test
