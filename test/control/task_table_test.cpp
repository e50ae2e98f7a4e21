// SPDX-License-Identifier: Apache-2.0
// Task records: against a model, and what lies in a store meanwhile.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "control/ask.hpp"
#include "control/task_table.hpp"
#include "exec/support.hpp"

namespace {

namespace control = manta::control;
using control::task_row;
using control::task_table;
using manta::errc;
using manta::base::id;
using manta_test::dice;

const control::owner_id owner{"node/1", 3};

id task(std::uint64_t n) { return {n * 0x9e3779b97f4a7c15U, n}; }

void store_all(control::store& to, std::vector<control::batch> batches) {
  for (control::batch& one : batches) REQUIRE(control::commit_now(to, std::move(one)));
}

std::map<std::uint64_t, task_row> stored(control::store& in) {
  const auto rows = control::read_tasks(in, owner);
  if (!rows) FAIL(rows.error().message());
  std::map<std::uint64_t, task_row> out;
  for (const task_row& one : *rows) {
    if (!out.emplace(one.id.low, one).second) FAIL("a record is there twice");
  }
  return out;
}

/// Recipes by the low half of the id, as their maker keeps them.
using recipes = std::map<std::uint64_t, std::string>;

/// Writes again what is worth it.
void tidy(task_table& t, const recipes& kept) {
  while (const auto value = t.sparse()) {
    std::vector<task_row> rows;
    for (const std::uint32_t n : value->known_as) {
      const auto of = kept.find(n);
      rows.push_back(of == kept.end() ? task_row{} : task_row{task(n), {}, of->second});
    }
    t.rewrite(*value, std::move(rows));
  }
}

task_table::ticket put(task_table& t, std::uint64_t n, const std::string& recipe = "r") {
  const auto added = t.add({task(n), {}, recipe}, static_cast<std::uint32_t>(n));
  REQUIRE(added);
  return *added;
}

std::size_t bytes_in(control::store& in) {
  const auto all = control::scan_all(in, control::tasks_of(owner));
  REQUIRE(all);
  std::size_t sum = 0;
  for (const control::record& one : *all) sum += one.value.size();
  return sum;
}

}  // namespace

TEST_CASE("a task's record is there until it is removed", "[control]") {
  task_table t(owner);
  const auto one = put(t, 1);
  const auto two = put(t, 2);
  t.remove(one);
  CHECK((!t.contains(one) && t.contains(two)));
  t.remove(one);  // it has gone
  CHECK(t.size() == 1);
  t.remove(two);
  CHECK(t.size() == 0);
  CHECK(t.bytes() == 0);
  CHECK(t.write().empty());  // it came and went
  t.remove({});              // nobody
  // The same places, other records.
  const auto three = put(t, 3);
  CHECK_FALSE((t.contains(one) || t.contains(two)));
  t.remove(one);
  t.remove(two);
  CHECK(t.contains(three));
  CHECK(t.size() == 1);
}

TEST_CASE("task records have a cap, and no record that lives makes room", "[control]") {
  constexpr std::size_t room = 10 * (task_table::bytes_of_a_row + 100);
  task_table t(owner, room);
  const std::string recipe(100, 'r');
  std::vector<task_table::ticket> all;
  for (std::uint64_t n = 1; n <= 10; ++n) all.push_back(*t.add({task(n), {}, recipe}));
  const auto full = t.add({task(11), {}, recipe});
  REQUIRE_FALSE(full);
  CHECK(full.error().code() == errc::store_full);
  CHECK_THAT(full.error().message(), Catch::Matchers::Contains("2000 of 2000 are in use"));
  CHECK(t.refused() == 1);
  for (const auto one : all) CHECK(t.contains(one));
  t.remove(all[4]);
  CHECK(t.add({task(11), {}, recipe}));
  CHECK(t.add({{}, {}, "no id"}).error().code() == errc::invalid_argument);
}

TEST_CASE("a task record that no value could hold is refused", "[control]") {
  constexpr std::size_t most = control::limits::value_bytes / 2;
  task_table t(owner);
  const auto large = t.add({task(1), {}, std::string(most + 1, 'r')});
  REQUIRE_FALSE(large);
  CHECK(large.error().code() == errc::store_full);
  CHECK_THAT(large.error().message(),
             Catch::Matchers::Contains(fmt::format("of {} bytes, at most {};", most + 1, most)));
  CHECK(t.refused() == 1);
  CHECK(t.size() == 0);
  CHECK(t.add({task(1), {}, std::string(most, 'r')}));
}

TEST_CASE("task records do what a map would do", "[control]") {
  dice d(manta_test::run_seed());
  const auto store = control::make_memory_store();
  task_table t(owner);
  recipes expected;
  std::map<std::uint64_t, task_table::ticket> tickets;
  std::uint64_t next = 1;
  const int steps = manta_test::scaled(4000);
  for (int step = 0; step < steps; ++step) {
    const std::size_t most = step * 2 < steps ? 300 : 30;  // grows, then shrinks
    if (expected.empty() || d.below(most) > expected.size() / 2) {
      const std::size_t size = d.one_in(50) ? d.below(300000) : d.below(2000);
      expected[next] = std::string(size, static_cast<char>('a' + next % 26));
      tickets[next] = put(t, next, expected[next]);
      ++next;
    } else {
      const auto gone = std::next(expected.begin(), std::ptrdiff_t(d.below(expected.size())));
      t.remove(tickets[gone->first]);
      expected.erase(gone);
    }
    REQUIRE(t.size() == expected.size());
    if (d.one_in(20)) tidy(t, expected);
    if (!d.one_in(10)) continue;
    store_all(*store, t.write());
    const auto there = stored(*store);
    for (const auto& [n, recipe] : expected) {
      REQUIRE(t.contains(tickets[n]));
      REQUIRE((there.contains(n) && there.at(n).recipe == recipe));
    }
  }
  for (const auto& [n, recipe] : expected) t.remove(tickets[n]);
  store_all(*store, t.write());
  CHECK(bytes_in(*store) == 0);
  CHECK(t.stored_bytes() == 0);
}

TEST_CASE("what lies in a store is at most twice what lives", "[control]") {
  dice d(manta_test::run_seed());
  const auto store = control::make_memory_store();
  task_table t(owner);
  recipes kept;
  std::vector<std::pair<std::uint64_t, task_table::ticket>> live;
  for (std::uint64_t n = 1; n <= 40000; ++n) {
    kept[n] = std::string(100, 'r');
    live.emplace_back(n, put(t, n, kept[n]));
    // One of a hundred lives for ever: the worst for values of many.
    if (live.size() > 500) {
      const std::size_t at = d.below(live.size());
      if (live[at].first % 100 != 0) {
        t.remove(live[at].second);
        kept.erase(live[at].first);
      }
      live[at] = live.back();
      live.pop_back();
    }
    if (n % 200 == 0) {
      store_all(*store, t.write());
      tidy(t, kept);
      store_all(*store, t.write());
      REQUIRE(t.stored_bytes() / 2 <= t.bytes());
    }
  }
  CHECK(t.size() > 400);
  CHECK(t.size() < 1000);
  const auto there = stored(*store);
  CHECK(there.size() <= 2 * t.size() + 4);
  for (const auto& [n, ticket] : live) CHECK(there.contains(n));
  // With keys, lists and words of a message: what is counted for each row is more than that.
  CHECK(bytes_in(*store) <= t.stored_bytes());
}

TEST_CASE("records that go in the order in which they came are not written again", "[control]") {
  task_table t(owner);
  std::vector<task_table::ticket> live(1000);  // so that values are over in part, most of the time
  for (std::uint64_t n = 1; n <= 20000; ++n) {
    task_table::ticket& oldest = live[n % live.size()];
    t.remove(oldest);
    oldest = put(t, n);
    if (n % 100 == 0) t.write();
    REQUIRE_FALSE(t.sparse());
  }
}

TEST_CASE("what is over when its value is written again goes all the same", "[control]") {
  const auto store = control::make_memory_store();
  task_table t(owner);
  std::vector<task_table::ticket> all;
  for (std::uint64_t n = 1; n <= 8; ++n) all.push_back(put(t, n));
  store_all(*store, t.write());
  for (std::size_t i = 0; i < 6; ++i) t.remove(all[i]);
  const auto value = t.sparse();
  REQUIRE(value);
  CHECK(value->known_as == std::vector<std::uint32_t>{7, 8});
  CHECK_FALSE(t.sparse());
  // The maker has let go of 7, and is about to say so.
  t.rewrite(*value, {{}, {task(8), {}, "r"}});
  store_all(*store, t.write());
  CHECK(stored(*store).size() == 1);
  t.remove(all[6]);
  CHECK(t.size() == 1);
  // One that is removed between the two.
  CHECK(t.contains(all[7]));
  t.remove(all[7]);
  t.rewrite(*value, {{}, {task(8), {}, "r"}});
  store_all(*store, t.write());
  CHECK(stored(*store).empty());
  CHECK(t.stored_bytes() == 0);
}

TEST_CASE("batches of task records are small enough to go again", "[control]") {
  task_table t(owner);
  for (std::uint64_t n = 1; n <= 40; ++n) put(t, n, std::string(300000, 'r'));
  std::size_t most = 0;
  std::size_t all = 0;
  for (const control::batch& one : t.write()) {
    std::size_t bytes = 0;
    for (const control::change& what : one.changes) bytes += what.key.size() + what.value.size();
    most = std::max(most, bytes);
    all += one.changes.size();
  }
  CHECK(most <= task_table::bytes_of_a_batch);
  CHECK(all == 40);
}
