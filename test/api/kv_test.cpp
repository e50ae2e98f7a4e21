// SPDX-License-Identifier: Apache-2.0
// manta::kv: what is written is found, in memory and in a folder, by this run and a later one.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

#include "api/everywhere.hpp"
#include "folder.hpp"

namespace kv_test {

namespace {

using Catch::Matchers::Contains;
using namespace std::chrono_literals;
namespace kv = manta::kv;

struct settings {
  std::string name;
  std::map<std::string, double> numbers;
  std::vector<double> large;
  bool operator==(const settings&) const = default;
};

manta::config in_folder(const manta_test::folder& where) {
  manta::config with;
  with.workers = 2;
  with.control = where.store();
  return with;
}

// What tasks do: in the mode `nodes` another node asks the store for it.
int count_up(std::string key) {
  for (int tries = 1;; ++tries) {
    const auto now = kv::get<int>(key).get();
    if (kv::cas(key, now ? now->at : 0, now ? now->value + 1 : 1).get()) return tries;
  }
}
kv::revision write_settings(settings s) { return kv::put("settings", s, {.durable = true}).get(); }
bool has_settings(settings s) {
  const auto found = kv::get<settings>("settings").get();
  return found && found->value == s;
}
kv::revision write(std::string key, int value) { return kv::put(key, value).get(); }
kv::revision write_for(std::string key, int value, long ms) {
  return kv::put(key, value, {.ttl = std::chrono::milliseconds(ms)}).get();
}
kv::revision write_text(std::string key, std::size_t size) {
  return kv::put(key, std::string(size, 't')).get();
}
void write_list(int n) {
  for (int i = 0; i < n; ++i) kv::put("list/" + std::to_string(100 + i), i).get();
}
// Without waiting for any but the last.
void write_in_a_row(std::string key, int n) {
  for (int i = 0; i + 1 < n; ++i) static_cast<void>(kv::put(key, i));
  kv::put(key, n - 1).get();
}
kv::revision erase(std::string key) { return kv::erase(key).get(); }
void publish(std::string topic, std::string text) { kv::publish(topic, text).get(); }
test::everywhere<std::atomic<bool>> asks;
kv::revision waits_for_change(std::string key) {
  auto w = kv::watch<int>(key);
  auto next = w.next();
  *asks = true;
  return next.get().at;
}

}  // namespace

TEST_CASE("kv: a value is found as it was written, and gone when it is erased", "[kv][anywhere]") {
  const manta_test::folder where;
  manta::config with = in_folder(where);
  if (GENERATE(true, false)) with.control = "memory";
  const manta::runtime rt(with);
  CHECK_FALSE(kv::get<int>("none").get());
  const settings s{"best", {{"rate", 0.1}, {"decay", 0.99}}, std::vector<double>(100000, 1.5)};
  const kv::revision first = manta::remote<write_settings>(s).get();
  const auto found = kv::get<settings>("settings").get();
  REQUIRE(found);
  CHECK(found->key == "settings");
  CHECK(found->value == s);
  CHECK(found->at == first);
  CHECK(manta::remote<has_settings>(s).get());
  CHECK(kv::put("text", "as it is").get() > first);
  CHECK(kv::get<std::string>("text").get()->value == "as it is");
  CHECK(manta::remote<erase>("settings").get() > first);
  CHECK_FALSE(kv::get<settings>("settings").get());
  CHECK_FALSE(manta::remote<has_settings>(s).get());
  CHECK_THROWS_WITH(kv::get<int>("text").get(),
                    Contains("the value of \"text\" is of another type than int"));
}

TEST_CASE("kv: keys in order, page by page", "[kv][anywhere]") {
  const manta::runtime rt;
  manta::remote<write_list>(100).get();
  kv::put("lisu", 7).get();
  const auto first = kv::list<int>("list/", {}, 60).get();
  REQUIRE(first.size() == 60);
  const auto rest = kv::list<int>("list/", first.back().key).get();
  REQUIRE(rest.size() == 40);
  CHECK(first[0].value == 0);
  CHECK(rest[0].value == 60);
  CHECK(rest.back().key == "list/199");
  CHECK(kv::list<int>("nothing/").get().empty());
}

TEST_CASE("kv: compare and swap lets one win", "[kv][anywhere]") {
  const manta::runtime rt;
  CHECK(kv::cas("once", 0, 1).get());
  CHECK_FALSE(kv::cas("once", 0, 2).get());
  std::vector<manta::future<int>> all;
  for (int i = 0; i < 200; ++i) all.push_back(manta::remote<count_up>("sum"));
  for (auto& one : all) CHECK(one.get() >= 1);
  CHECK(kv::get<int>("sum").get()->value == 200);
}

TEST_CASE("kv: what is wrong is said before anything is written", "[kv][stays:refused]") {
  CHECK_THROWS_AS(kv::put("k", 1), manta::no_runtime);
  CHECK_THROWS_AS(kv::watch<int>(""), manta::no_runtime);
  const manta::runtime rt;
  CHECK_THROWS_WITH(kv::put("", 1),
                    Contains("kv::put: asked a key of 0 bytes, allowed are 1 to 1000"));
  CHECK_THROWS_AS(kv::get<int>(std::string(1001, 'k')), manta::invalid_argument);
  CHECK_THROWS_AS(kv::cas("", 0, 1), manta::invalid_argument);
  CHECK_THROWS_AS(kv::erase(""), manta::invalid_argument);
  CHECK_THROWS_AS(kv::publish("", 1), manta::invalid_argument);
  CHECK_THROWS_AS(kv::subscribe<int>(""), manta::invalid_argument);
  CHECK_THROWS_WITH(kv::put("f", manta::put(1)), Contains("has handles in it"));
  CHECK_THROWS_WITH(kv::put("large", std::string(std::size_t{17} << 20U, 'x')).get(),
                    Contains("16777216"));
  CHECK_THROWS_AS(kv::list<int>("", {}, 0).get(), manta::invalid_argument);
  CHECK_THROWS_WITH(kv::put("k", 1, {.ttl = 0ms}),
                    Contains("kv::put: asked a ttl of 0 ms, allowed are 1 ms to 10 years"));
  CHECK_THROWS_AS(kv::cas("k", 0, 1, {.ttl = -1ms}), manta::invalid_argument);
  CHECK(kv::put("decade", 1, {.ttl = std::chrono::years(10)}).get() > 0);
  CHECK_THROWS_AS(kv::publish("k", 1, {.ttl = std::chrono::years(11)}), manta::invalid_argument);
}

TEST_CASE("kv: what has a ttl is erased at its time, for everybody", "[kv][anywhere]") {
  const manta_test::folder where;
  manta::config with = in_folder(where);
  if (GENERATE(true, false)) with.control = "memory";
  const manta::runtime rt(with);
  auto w = kv::watch<int>("t/");
  // Far enough apart for a machine that is busy with other things between two of these lines.
  manta::remote<write_for>("t/later", 1, 4000).get();
  kv::put("t/kept", 2, {.ttl = 1s}).get();
  kv::put("t/kept", 3).get();
  CHECK(kv::cas("t/lock", 0, 4, {.ttl = 2s}).get());  // sooner than the first
  for (const int value : {1, 2, 3, 4}) CHECK(w.next().get().value == value);
  for (const std::string key : {"t/lock", "t/later"}) {
    const auto end = w.next().get();
    CHECK(end.kind == kv::change_kind::erased);
    CHECK(end.key == key);
    CHECK_FALSE(kv::get<int>(key).get());
  }
  CHECK(kv::cas("t/lock", 0, 5).get());  // free again
  CHECK(kv::get<int>("t/kept").get()->value == 3);
  CHECK(kv::list<int>("").get().size() == 2);
  // Who takes keys away sleeps by now, each time, and is to be woken.
  for (int round = 0; round < 20; ++round) {
    kv::put("t/soon", round, {.ttl = 1ms}).get();
    while (w.next().get().kind != kv::change_kind::erased) {
    }
  }
}

TEST_CASE("kv: what ended between two runs is not there in the second", "[kv][anywhere]") {
  const manta_test::folder where;
  std::chrono::system_clock::time_point begin;
  {
    const manta::runtime rt(in_folder(where));
    // As long as it takes until the run has ended: longer than a slow machine needs.
    manta::remote<write_for>("ends", 1, 3000).get();
    begin = std::chrono::system_clock::now();
    kv::put("stays", std::string(1000, 's'), {.ttl = 24h}).get();
    CHECK(kv::get<int>("ends").get());
  }
  std::this_thread::sleep_until(begin + 4s);  // it has to end while nobody looks
  const manta::runtime rt(in_folder(where));
  CHECK_FALSE(kv::get<int>("ends").get());
  CHECK(kv::get<std::string>("stays").get());
}

TEST_CASE("kv: a watch tells each change once, in order", "[kv][anywhere]") {
  const manta::runtime rt;
  kv::put("w/before", 1).get();
  auto w = kv::watch<int>("w/");
  auto early = w.next();
  CHECK_FALSE(early.is_ready());
  kv::put("other", 5).get();
  manta::remote<write>("w/a", 10).get();
  manta::remote<erase>("w/a").get();
  const auto written = manta::remote<write_in_a_row>("w/n", 1000);
  const kv::change<int> first = early.get();
  CHECK((first.kind == kv::change_kind::put && first.key == "w/a" && first.value == 10));
  const kv::change<int> second = w.next().get();
  CHECK((second.kind == kv::change_kind::erased && second.key == "w/a" && !second.value));
  CHECK(second.at > first.at);
  for (int i = 0; i < 1000; ++i) REQUIRE(w.next().get().value == i);
  // From a revision on, as after a restart.
  auto again = kv::watch<int>("w/a", first.at - 1);
  CHECK(again.next().get().value == 10);
  CHECK(again.next().get().kind == kv::change_kind::erased);
}

TEST_CASE("kv: who is too slow is told that changes are missing", "[kv][anywhere]") {
  const manta::runtime rt;
  auto w = kv::watch<std::string>("slow");
  for (int i = 0; i < 200; ++i) manta::remote<write_text>("slow", std::size_t{100000}).get();
  bool missed = false;
  for (int i = 0; i < 200 && !missed; ++i) {
    missed = w.next().get().kind == kv::change_kind::missed;
  }
  CHECK(missed);
  kv::put("slow", "now").get();
  CHECK(w.next().get().value == "now");
}

TEST_CASE("kv: topics reach all subscribers, and no key", "[kv][anywhere]") {
  const manta::runtime rt;
  auto one = kv::subscribe<std::string>("news");
  auto two = kv::subscribe<std::string>("news");
  auto other = kv::subscribe<std::string>("newspaper");
  manta::remote<publish>("news", "first").get();
  kv::publish("news", "second").get();
  for (auto* each : {&one, &two}) {
    CHECK(each->next().get().value == "first");
    const auto second = each->next().get();
    CHECK(second.value == "second");
    CHECK(second.key == "news");
  }
  CHECK_FALSE(other.next().is_ready());
  CHECK(kv::list<std::string>("").get().empty());
}

TEST_CASE("kv: who waits for a change is not left waiting", "[kv][anywhere]") {
  manta::future<kv::change<int>> gone;
  {
    *asks = false;
    manta::runtime rt;
    {
      auto w = kv::watch<int>("never");
      gone = w.next();
    }
    CHECK_THROWS_AS(gone.get(), manta::cancelled);
    auto w = kv::watch<int>("never");
    gone = w.next();
    const auto task = manta::remote<waits_for_change>("never");
    REQUIRE(test::comes_true([] { return asks->load(); }));
  }
  CHECK_THROWS_AS(gone.get(), manta::cancelled);
}

TEST_CASE("kv: a later run finds what an earlier one wrote to a folder", "[kv][anywhere]") {
  const manta_test::folder where;
  kv::revision last = 0;
  {
    const manta::runtime rt(in_folder(where));
    for (int i = 0; i < 50; ++i) last = manta::remote<write>("n", i).get();
  }
  {
    const manta::runtime rt(in_folder(where));
    const auto found = kv::get<int>("n").get();
    REQUIRE(found);
    CHECK(found->value == 49);
    CHECK(found->at == last);
    CHECK(kv::cas("n", last, 50).get());
    // One runtime at a time.
    CHECK_THROWS_WITH(manta::runtime(in_folder(where)), Contains("runs in this process already"));
  }
  const manta::runtime in_memory;
  CHECK_FALSE(kv::get<int>("n").get());
}

TEST_CASE("kv: a folder that can't be used ends in one line", "[kv][stays:refused]") {
  manta::config with;
  with.control = "/proc/manta";
  CHECK_THROWS_WITH(manta::runtime(with),
                    Contains("control: the store in /proc/manta: can't make"));
  with.control = "";
  CHECK_THROWS_WITH(manta::runtime(with),
                    Contains("config control: found \"\", allowed are memory and the path"));
  const manta::runtime rt;  // and the next one starts
  CHECK(kv::put("k", 1).get() > 0);
}

}  // namespace kv_test
