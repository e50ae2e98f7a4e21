// SPDX-License-Identifier: Apache-2.0
// The check-copy mode: that everything does go through bytes, that what was there before is gone,
// and that what can't go says so where it should.
#include <atomic>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/support.hpp"

namespace check_copy_test {

namespace {

using Catch::Matchers::Contains;

manta::config checking(manta::check_mode mode = manta::check_mode::copy) {
  manta::config c = test::workers(2);
  c.check = mode;
  return c;
}

/// Tells how often one was written and read.
struct traveller {
  static inline std::atomic<int> written{0};
  static inline std::atomic<int> read{0};
  int value = 0;
  void save(manta::codec::out_archive& ar) const {
    ++written;
    ar(value);
  }
  void load(manta::codec::in_archive& ar) {
    ++read;
    ar(value);
    if (value == 13) throw std::runtime_error("unlucky");
  }
};

int use(const traveller& t) { return t.value; }
traveller make(int v) { return traveller{v}; }
manta::coroutine<traveller> make_later(int v) { co_return traveller{v}; }
manta::stream<traveller> make_many(int n) {
  for (int i = 0; i < n; ++i) co_yield traveller{i};
}

struct holder {
  traveller mine;
  explicit holder(traveller t) : mine(t) {}
  traveller swap(traveller t) { return std::exchange(mine, t); }
};

/// How often a traveller was written and read since the last question.
std::pair<int, int> trips() {
  return {traveller::written.exchange(0), traveller::read.exchange(0)};
}
using times = std::pair<int, int>;

}  // namespace

TEST_CASE("arguments, results, objects and items go through bytes once each",
          "[check_copy][stays:copy]") {
  for (const auto mode : {manta::check_mode::copy, manta::check_mode::slow}) {
    const manta::runtime rt(checking(mode));
    trips();
    CHECK(manta::remote<use>(traveller{3}).get() == 3);
    CHECK(trips() == times(1, 1));
    CHECK(manta::remote<make>(4).get().value == 4);
    CHECK(trips() == times(1, 1));
    CHECK(manta::remote<make_later>(5).get().value == 5);
    CHECK(trips() == times(1, 1));
    const auto object = manta::put(traveller{6});
    CHECK(trips() == times(1, 1));
    CHECK(manta::remote<use>(object).get() == 6);  // a future goes as a handle
    CHECK(trips() == times(0, 0));
    int sum = 0;
    for (auto& f : manta::remote<make_many>(10)) sum += f.get().value;
    CHECK(sum == 45);
    CHECK(trips() == times(10, 10));
    const auto a = manta::spawn<holder>(traveller{7});
    CHECK(trips() == times(1, 1));
    CHECK(manta::remote<&holder::swap>(a, traveller{8}).get().value == 7);
    CHECK(trips() == times(2, 2));
    CHECK(manta::async([] { return make(1).value; }).get() == 1);
    CHECK(trips() == times(0, 0));
  }
  const manta::runtime rt(checking(manta::check_mode::none));
  CHECK(manta::remote<use>(traveller{3}).get() == 3);
  CHECK(trips() == times(0, 0));
}

TEST_CASE("calls of calls go through bytes, too, whoever runs them", "[check_copy][stays:copy]") {
  const manta::runtime rt(checking());
  trips();
  constexpr auto outer = [](int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i) sum += manta::remote<use>(traveller{i}).get();
    return sum;
  };
  CHECK(manta::remote<outer>(5).get() == 10);
  CHECK(trips() == times(5, 5));
  CHECK(manta::async([] { return manta::remote<use>(traveller{9}).get(); }).get() == 9);
  CHECK(trips() == times(1, 1));
  std::thread foreign([] { CHECK_NOTHROW(manta::remote<use>(traveller{1}).get()); });
  foreign.join();
  CHECK(trips() == times(1, 1));
  CHECK(manta::remote<use>.with({.max_retries = 1, .name = "named"})(traveller{2}).get() == 2);
  CHECK(trips() == times(1, 1));
}

TEST_CASE("what a class can't read back fails the call, the task or the item",
          "[check_copy][anywhere][stays:copy]") {
  const manta::runtime rt(checking());
  CHECK_THROWS_AS(manta::remote<use>(traveller{13}), manta::decode_failed);
  CHECK_THROWS_WITH(manta::remote<use>(traveller{13}), Contains("unlucky") && Contains("use"));
  const auto bad = manta::remote<make>(13);
  CHECK_THROWS_AS(bad.get(), manta::decode_failed);
  CHECK_THROWS_AS(manta::remote<make_later>(13).get(), manta::decode_failed);
  CHECK_THROWS_AS(manta::put(traveller{13}), manta::decode_failed);
  CHECK_THROWS_AS(manta::spawn<holder>(traveller{13}), manta::decode_failed);
  const auto a = manta::spawn<holder>(traveller{1});
  CHECK_THROWS_AS(manta::remote<&holder::swap>(a, traveller{13}), manta::decode_failed);
  CHECK(manta::remote<&holder::swap>(a, traveller{2}).get().value == 1);
  int good = 0;
  auto items = manta::remote<make_many>(20);
  try {
    for (auto& f : items) good += f.get().value >= 0 ? 1 : 0;
    FAIL("item 13 was read");
  } catch (const manta::decode_failed&) {
  }
  CHECK(good == 13);
}

TEST_CASE("a value too deep for bytes is refused at the call",
          "[check_copy][anywhere][stays:copy]") {
  struct chain {
    std::unique_ptr<chain> next;
  };
  constexpr auto length = [](const chain& c) {
    int n = 0;
    for (const chain* at = &c; at != nullptr; at = at->next.get()) ++n;
    return n;
  };
  const auto links = [](int n) {
    chain c;
    for (int i = 1; i < n; ++i) {
      c = chain{std::make_unique<chain>(std::move(c))};
    }
    return c;
  };
  const manta::runtime rt(checking());
  CHECK(manta::remote<length>(links(200)).get() == 200);
  CHECK_THROWS_AS(manta::remote<length>(links(300)), manta::encode_failed);
}

TEST_CASE("arguments are other objects than those that were passed",
          "[check_copy][anywhere][stays:copy]") {
  const manta::runtime rt(checking());
  const auto shared = std::make_shared<std::string>("once");
  constexpr auto count = [](const std::shared_ptr<std::string>& p) { return p.use_count(); };
  CHECK(manta::remote<count>(shared).get() == 1);
  CHECK(shared.use_count() == 1);
  constexpr auto both = [](const std::vector<std::shared_ptr<std::string>>& v) {
    return v[0] == v[1];
  };
  CHECK(manta::remote<both>(std::vector{shared, shared}).get());
  const std::vector<double> large(100000, 1.5);
  constexpr auto sum = [](const std::vector<double>& v) {
    double s = 0;
    for (const double x : v) s += x;
    return s;
  };
  CHECK(manta::remote<sum>(large).get() == 150000);
}

TEST_CASE("an exception arrives with its texts, of std's classes itself",
          "[check_copy][anywhere][stays:copy]") {
  const manta::runtime rt(checking());
  constexpr auto standard = []() -> int { throw std::out_of_range("far"); };
  try {
    manta::remote<standard>().get();
    FAIL("nothing was thrown");
  } catch (const manta::task_error& e) {
    CHECK(e.message() == "far");
    CHECK(e.type_name() == "std::out_of_range");
    CHECK_THROWS_AS(std::rethrow_if_nested(e), std::out_of_range);
  }
  struct own : std::runtime_error {
    own() : std::runtime_error("own text") {}
  };
  constexpr auto special = []() -> int { throw own(); };
  try {
    manta::remote<special>().get();
    FAIL("nothing was thrown");
  } catch (const manta::task_error& e) {
    CHECK(e.message() == "own text");
    CHECK(e.as_error().failure()->cause == nullptr);
  }
  // Which exceptions are retried is asked where the task ran.
  static std::atomic<int> runs{0};
  constexpr auto third = []() -> int {
    if (++runs < 3) throw own();
    return runs;
  };
  CHECK(manta::remote<third>.with({.retry_exceptions = manta::exceptions<own>()})().get() == 3);
}

namespace {

// Makes a call while it is constructed, and may fail.
struct caller {
  explicit caller(int x) : got(manta::remote<use>(traveller{x}).get()) {
    if (x < 0) throw std::out_of_range("below zero" + std::string(5000, '!'));
  }
  int value() const { return got; }
  int got;
};

}  // namespace

TEST_CASE("options of a call go with its message", "[check_copy][anywhere][stays:copy]") {
  auto settings = checking();
  settings.resources = {{"own", 2}};
  const manta::runtime rt(settings);
  constexpr auto named = []() -> std::string { return manta::this_task::name(); };
  const manta::options all{.cpus = 0.5,
                           .memory_bytes = 100,
                           .resources = {{"own", 1}},
                           .retry_exceptions = manta::any_exception(),
                           .losable = true,
                           .timeout = test::patience,
                           .priority = manta::priority::high,
                           .name = "a name of its own",
                           .where = manta::with_labels({{"no", "where"}}, true)};
  CHECK(manta::remote<named>.with(all)().get() == "a name of its own");
  // What the rule does not name may be left over from another one.
  auto spread = manta::on_node("local");
  spread.by = manta::placement::rule::spread;
  spread.labels = {{"left", "over"}};
  spread.group = 7;
  CHECK_FALSE(manta::remote<named>.with({.cpus = 1, .where = spread})().get().empty());
  CHECK_FALSE(manta::remote<named>.with({.where = manta::with_labels({})})().get().empty());
  const std::string longest(1024, 'n');
  CHECK(manta::remote<named>.with({.name = longest})().get() == longest);
  static std::atomic<int> runs{0};
  constexpr auto second = []() -> int {
    if (++runs < 2) throw std::range_error("once");
    return runs;
  };
  CHECK(manta::remote<second>.with(all)().get() == 2);
  // One that nobody else knows says so at the call.
  const manta::options by_hand{
      .retry_exceptions = {[](const std::exception_ptr&) { return true; }}};
  CHECK_THROWS_AS(manta::remote<second>.with(by_hand)(), manta::encode_failed);
  auto never_asked = by_hand;
  never_asked.max_retries = 0;
  CHECK(manta::remote<second>.with(never_asked)().get() == 3);
  const auto a = manta::spawn<caller>(1);
  CHECK(manta::remote<&caller::value>.with({.timeout = test::patience, .name = "asks"})(a).get() ==
        1);
}

TEST_CASE("what a constructor calls and throws goes through a message",
          "[check_copy][stays:copy]") {
  const manta::runtime rt(checking());
  trips();
  const auto good = manta::spawn<caller>(7);
  CHECK(manta::remote<&caller::value>(good).get() == 7);
  CHECK(trips() == times(1, 1));
  const auto bad = manta::spawn<caller>(-1);
  // A message cuts endless texts to 4096 bytes: the constructor's 5010 were when the call's error,
  // which has a few words more, was cut in its turn.
  CHECK_THROWS_WITH(manta::remote<&caller::value>(bad).get(),
                    Contains("below zero!") && Contains("[cut, of 4"));
}

TEST_CASE("a deadline ends queued work in the slow mode, too",
          "[check_copy][anywhere][stays:copy]") {
  // The timer's thread ends it, which is no caller.
  const manta::runtime rt(checking(manta::check_mode::slow));
  test::scoped_gate go;
  std::vector<manta::future<void>> held;
  for (int i = 0; i < 2; ++i) held.push_back(manta::async([&go] { go.wait(); }));
  std::vector<manta::future<int>> late;
  for (int i = 0; i < 100; ++i) {
    late.push_back(
        manta::remote<use>.with({.timeout = std::chrono::milliseconds(5)})(traveller{1}));
  }
  for (const auto& f : late) {
    const auto ended = f.try_get(test::patience);
    CHECK((ended.has_value() || ended.error().code() == manta::errc::timed_out));
  }
}

TEST_CASE("the mode is set by its name, and nothing else", "[check_copy][stays:copy]") {
  const auto with = [](const char* text) {
    return manta::spec::complete({}, {{"check", text, "MANTA_CHECK"}}, {}, {1});
  };
  CHECK(*with("copy")->check == manta::check_mode::copy);
  CHECK(*with("slow")->check == manta::check_mode::slow);
  CHECK(*with("none")->check == manta::check_mode::none);
  CHECK(*with("far")->check == manta::check_mode::far);
  CHECK(*with("far-tasks")->check == manta::check_mode::far_tasks);
  REQUIRE_FALSE(with("copies").has_value());
  CHECK(with("copies").error().message() ==
        "MANTA_CHECK: found \"copies\", allowed are none, copy, slow, far and "
        "far-tasks");
}

}  // namespace check_copy_test
