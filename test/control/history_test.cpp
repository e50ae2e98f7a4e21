// SPDX-License-Identifier: Apache-2.0
// The list of last changes by itself: drafts, limits, and watchers that come meanwhile.
#include "control/history.hpp"

#include <memory>
#include <string>
#include <vector>

#include "control/backends.hpp"

namespace {

using manta::control::change;
using manta::control::history;
using manta::control::taken;
using test_control::put;

void apply(history& h, std::uint64_t at, const std::vector<change>& changes) {
  history::draft d(h);
  d.add(at, changes);
  history::ring(d.publish());
}

}  // namespace

TEST_CASE("what is drafted and not published was never there", "[control]") {
  history h;
  int rings = 0;
  const auto w = h.watch("", 0, [&rings] { ++rings; });
  CHECK(w->take(1).events.empty());
  {
    history::draft d(h);
    d.add(1, {put("a", "1"), put("b", "1")});
    d.add(2, {put("c", "1")});
  }
  CHECK(w->take(1).events.empty());
  CHECK(rings == 0);
  apply(h, 1, {put("c", "1")});
  CHECK(rings == 1);
  const taken got = w->take(10);
  REQUIRE(got.events.size() == 1);
  CHECK(got.events[0].what.key == "c");
}

TEST_CASE("a watcher that comes between draft and publication hears of it", "[control]") {
  history h;
  int rings = 0;
  history::draft d(h);
  d.add(1, {put("a", "1")});
  std::vector<std::unique_ptr<manta::control::watcher>> many;
  for (int i = 0; i < 20; ++i) many.push_back(h.watch("a", 0, [&rings] { ++rings; }));
  for (const auto& w : many) CHECK(w->take(1).events.empty());
  history::ring(d.publish());
  CHECK(rings == 20);
  for (const auto& w : many) CHECK(w->take(1).events.size() == 1);
}

TEST_CASE("changes are dropped at either limit, whole batches for who comes new", "[control]") {
  history few(0, 3);
  const auto from_begin = few.watch("", 0, [] {});
  apply(few, 1, {put("a", "1"), put("b", "1")});
  apply(few, 2, {put("c", "2")});
  CHECK(few.watch("", 0, [] {})->take(10).events.size() == 3);
  apply(few, 3, {put("d", "3")});
  CHECK(few.watch("", 0, [] {})->take(10).has_gap);  // half of the first batch is gone
  CHECK(few.watch("", 1, [] {})->take(10).events.size() == 2);
  CHECK(from_begin->take(10).has_gap);

  history small(0, 100, 1000);
  apply(small, 1, {put("a", std::string(2000, 'x'))});  // larger than all that may be kept
  CHECK(small.watch("", 0, [] {})->take(1).has_gap);
  apply(small, 2, {put("b", "2")});
  CHECK(small.watch("", 1, [] {})->take(1).events.size() == 1);

  // One that begins later knows nothing of before.
  history later(41);
  CHECK(later.watch("", 40, [] {})->take(1).has_gap);
  CHECK_FALSE(later.watch("", 41, [] {})->take(1).has_gap);
}

TEST_CASE("a take may end anywhere in a batch, and the next goes on there", "[control]") {
  history h(0, 40);
  std::string wanted;
  std::vector<std::unique_ptr<manta::control::watcher>> many;
  for (std::size_t most = 1; most < 8; ++most) many.push_back(h.watch("", 0, [] {}));
  std::vector<std::string> got(many.size());
  int n = 0;
  for (std::uint64_t at = 1; at <= 50; ++at) {
    std::vector<change> batch;
    for (std::uint64_t i = 0; i <= at % 5; ++i) {
      batch.push_back(put("a" + std::to_string(++n), ""));
      wanted += batch.back().key + "@" + std::to_string(at) + " ";
    }
    apply(h, at, batch);
    if (at % 7 != 0 && at != 50) continue;
    for (std::size_t i = 0; i < many.size(); ++i) {
      for (bool has_more = true; has_more;) {
        const taken some = many[i]->take(i + 1);
        REQUIRE_FALSE(some.has_gap);
        REQUIRE(some.events.size() <= i + 1);
        for (const auto& one : some.events) {
          got[i] += one.what.key + "@" + std::to_string(one.at) + " ";
        }
        has_more = some.has_more;
      }
    }
  }
  for (const std::string& one : got) CHECK(one == wanted);
}

TEST_CASE("a rare prefix does not hold the list for long", "[control]") {
  history h;
  std::vector<change> common(60000, put("common", ""));
  common.push_back(put("rare", ""));
  const auto w = h.watch("rare", 0, [] {});
  apply(h, 1, common);
  int takes = 0;
  for (;;) {
    const taken got = w->take(10);
    ++takes;
    if (got.events.size() == 1) break;
    REQUIRE(got.has_more);
  }
  CHECK(takes > 5);
  CHECK_FALSE(w->take(10).has_more);
}

TEST_CASE("what others change makes no gap for a watcher that has seen all of its own",
          "[control]") {
  history few(0, 3);
  const auto w = few.watch("mine", 0, [] {});
  apply(few, 1, {put("mine", "1")});
  CHECK(w->take(10).events.size() == 1);
  for (std::uint64_t at = 2; at < 20; ++at) apply(few, at, {put("other", ""), put("another", "")});
  apply(few, 20, {put("mine", "2")});
  const taken got = w->take(10);
  CHECK_FALSE(got.has_gap);
  REQUIRE(got.events.size() == 1);
  CHECK(got.events[0].at == 20);
  // One that has not looked yet has a gap all the same.
  apply(few, 21, {put("mine", "3")});
  for (std::uint64_t at = 22; at < 30; ++at) apply(few, at, {put("other", ""), put("another", "")});
  CHECK(w->take(10).has_gap);
}

TEST_CASE("batches that nobody watches leave no trace in the history", "[control]") {
  history few(0, 3);
  int rings = 0;
  const auto w = few.watch("", 0, [&rings] { ++rings; });
  CHECK(w->take(1).events.empty());
  apply(few, 1, {put("a", "1")});
  for (std::uint64_t at = 2; at < 40; at += 4) {
    // Alone, and among others of one write.
    history::draft d(few);
    d.add(at, {put("t", "1"), put("u", "1"), put("v", "1"), put("w", "1")}, false);
    d.add(at + 1, {put("t", "2")}, false);
    history::ring(d.publish());
  }
  CHECK(rings == 1);
  {
    history::draft d(few);
    d.add(40, {put("t", "3")}, false);
    d.add(41, {put("b", "1")});
    d.add(42, {put("t", "4")}, false);
    d.add(43, {put("c", "1")});
    history::ring(d.publish());
  }
  const taken got = w->take(10);
  CHECK_FALSE(got.has_gap);
  REQUIRE(got.events.size() == 3);
  CHECK((got.events[0].at == 1 && got.events[1].at == 41 && got.events[2].at == 43));
  CHECK(got.events[2].what.key == "c");
  CHECK_FALSE(got.has_more);
  CHECK(few.watch("", 1, [] {})->take(10).events.size() == 2);
  CHECK(few.watch("", 42, [] {})->take(10).events.size() == 1);
}
