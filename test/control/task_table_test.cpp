// SPDX-License-Identifier: Apache-2.0
// Task records and their lineage: against a model, and what lies in a store meanwhile.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
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

/// Moves what is worth it.
void tidy(task_table& t, control::store& in) {
  while (const auto value = t.sparse()) {
    const auto found = control::read_one(in, value->key);
    REQUIRE((found && *found));
    REQUIRE(t.move(*value, (*found)->value));
  }
}

/// What is to be kept, by the rule as it is said: what is needed, and its ancestors.
class lineage {
 public:
  void add(std::uint64_t n, std::uint64_t parent) {
    parents_[n] = here_.contains(parent) ? parent : 0;
    needed_.insert(n);
    here_ = kept();
  }
  void release(std::uint64_t n) {
    needed_.erase(n);
    here_ = kept();
  }
  const std::set<std::uint64_t>& here() const { return here_; }
  const std::set<std::uint64_t>& needed() const { return needed_; }

 private:
  std::set<std::uint64_t> kept() const {
    std::set<std::uint64_t> out;
    for (std::uint64_t n : needed_) {
      for (; n != 0 && out.insert(n).second; n = parents_.at(n)) {
      }
    }
    return out;
  }

  std::map<std::uint64_t, std::uint64_t> parents_;
  std::set<std::uint64_t> needed_;
  std::set<std::uint64_t> here_;
};

std::uint64_t any_of(const std::set<std::uint64_t>& of, dice& d) {
  return *std::next(of.begin(), static_cast<std::ptrdiff_t>(d.below(of.size())));
}

}  // namespace

TEST_CASE("a task's record lives while a descendant lives", "[control]") {
  task_table t(owner);
  const auto one = *t.add({task(1), {}, "one"});
  const auto two = *t.add({task(2), task(1), "two"}, one);
  const auto three = *t.add({task(3), task(2), "three"}, two);
  t.release(one);
  t.release(two);
  CHECK(t.size() == 3);
  t.need(two);
  t.release(three);
  CHECK(t.size() == 2);
  CHECK((t.contains(one) && t.contains(two) && !t.contains(three)));
  t.release(three);  // it has gone
  CHECK(t.size() == 2);
  t.release(two);
  CHECK(t.size() == 0);
  CHECK(t.bytes() == 0);
  CHECK(t.write().empty());  // it came and went
  t.release({});             // nobody
  // The same places, other records.
  const auto four = *t.add({task(4), {}, "four"});
  CHECK_FALSE((t.contains(one) || t.contains(two) || t.contains(three)));
  t.release(one);
  t.release(two);
  t.release(three);
  t.need(three);
  CHECK(t.contains(four));
  CHECK(t.size() == 1);
}

TEST_CASE("a long line of tasks goes without depth", "[control]") {
  task_table t(owner);
  constexpr std::uint64_t length = 200000;
  task_table::ticket last;
  for (std::uint64_t n = 1; n <= length; ++n) {
    const auto next = *t.add({task(n), task(n - 1), "r"}, last);
    t.release(last);
    last = next;
  }
  CHECK(t.size() == length);
  t.release(last);
  CHECK(t.size() == 0);
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
  t.release(all[4]);
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

TEST_CASE("task records do what a map with parents would do", "[control]") {
  dice d(manta_test::run_seed());
  const auto store = control::make_memory_store();
  task_table t(owner);
  lineage expected;
  std::map<std::uint64_t, std::string> recipes;
  std::map<std::uint64_t, task_table::ticket> tickets{{0, {}}};
  std::uint64_t next = 1;
  const int steps = manta_test::scaled(4000);
  for (int step = 0; step < steps; ++step) {
    const std::size_t most = step * 2 < steps ? 300 : 30;  // grows, then shrinks
    if (expected.needed().empty() || d.below(most) > expected.needed().size() / 2) {
      const std::uint64_t parent =
          expected.here().empty() || d.one_in(4) ? 0 : any_of(expected.here(), d);
      const std::size_t size = d.one_in(50) ? d.below(300000) : d.below(2000);
      recipes[next] = std::string(size, static_cast<char>('a' + next % 26));
      const auto added =
          t.add({task(next), parent == 0 ? id{} : task(parent), recipes[next]}, tickets[parent]);
      REQUIRE(added);
      tickets[next] = *added;
      expected.add(next++, parent);
    } else {
      const std::uint64_t gone = any_of(expected.needed(), d);
      t.release(tickets[gone]);
      expected.release(gone);
    }
    REQUIRE(t.size() == expected.here().size());
    if (d.one_in(20)) tidy(t, *store);
    if (!d.one_in(10)) continue;
    store_all(*store, t.write());
    const auto there = stored(*store);
    for (const std::uint64_t n : expected.here()) {
      REQUIRE(t.contains(tickets[n]));
      REQUIRE((there.contains(n) && there.at(n).recipe == recipes[n]));
    }
  }
}

TEST_CASE("what lies in a store is bounded by what lives", "[control]") {
  dice d(manta_test::run_seed());
  const auto store = control::make_memory_store();
  task_table t(owner);
  std::vector<std::pair<std::uint64_t, task_table::ticket>> live;
  for (std::uint64_t n = 1; n <= 40000; ++n) {
    live.emplace_back(n, *t.add({task(n), {}, std::string(100, 'r')}));
    // One of a hundred lives for ever: the worst for values of many.
    if (live.size() > 500) {
      const std::size_t at = d.below(live.size());
      if (live[at].first % 100 != 0) t.release(live[at].second);
      live[at] = live.back();
      live.pop_back();
    }
    if (n % 200 == 0) {
      tidy(t, *store);
      store_all(*store, t.write());
    }
  }
  tidy(t, *store);
  store_all(*store, t.write());
  CHECK(t.size() > 400);
  CHECK(t.size() < 1000);
  CHECK(stored(*store).size() <= 4 * t.size() + 4);
}

TEST_CASE("records that go in the order in which they came are not moved", "[control]") {
  task_table t(owner);
  std::vector<task_table::ticket> live(1000);  // so that values are over in part, most of the time
  for (std::uint64_t n = 1; n <= 20000; ++n) {
    task_table::ticket& oldest = live[n % live.size()];
    t.release(oldest);
    oldest = *t.add({task(n), {}, "r"});
    if (n % 100 == 0) t.write();
    REQUIRE_FALSE(t.sparse());
  }
}

TEST_CASE("a value that is not what was written is not moved", "[control]") {
  const auto store = control::make_memory_store();
  task_table t(owner);
  std::vector<task_table::ticket> all;
  for (std::uint64_t n = 1; n <= 8; ++n) all.push_back(*t.add({task(n), {}, "r"}));
  store_all(*store, t.write());
  for (std::size_t i = 0; i < 7; ++i) t.release(all[i]);
  const auto value = t.sparse();
  REQUIRE(value);
  CHECK_FALSE(t.sparse());
  CHECK(t.move(*value, "nonsense").error().code() == errc::decode_failed);
  task_table other({"other", 1});
  REQUIRE(other.add({task(1), {}, "r"}));
  const std::string fewer = other.write().at(0).changes.at(0).value;
  CHECK(t.move(*value, fewer).error().code() == errc::decode_failed);
  task_table strange({"strange", 1});
  for (std::uint64_t n = 11; n <= 18; ++n) REQUIRE(strange.add({task(n), {}, "r"}));
  const std::string others = strange.write().at(0).changes.at(0).value;
  CHECK(t.move(*value, others).error().code() == errc::decode_failed);
  CHECK(t.write().empty());
  CHECK(stored(*store).size() == 8);
  t.release(all[7]);
  CHECK(t.move(*value, "nothing is left of it"));
  store_all(*store, t.write());
  CHECK(stored(*store).empty());
}
