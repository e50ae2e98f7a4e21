// SPDX-License-Identifier: Apache-2.0
#include "own/units.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "control/ask.hpp"
#include "control/task_table.hpp"
#include "exec/support.hpp"

// A node's recovery units, and the table that their records are written by, against the rule as it
// is said: what is needed, and what is above it. A record that lives too long, or is gone while a
// descendant lives, shows as a difference of the two sets.

namespace units_test {

namespace {

using manta::base::id;
using manta::control::task_row;
using manta::control::task_table;
using manta::own::units;
using manta_test::dice;
using manta_test::repeats;
using manta_test::run_seed;

const manta::control::owner_id owner{"node/1", 3};

id job(std::uint64_t n) { return {n * 0x9e3779b97f4a7c15U, n}; }

std::string recipe_of(const id& of) { return "how to run " + std::to_string(of.low); }

units::recipe recipe_in(const std::string& text) {
  // In two pieces, as messages have them.
  const auto bytes = std::as_bytes(std::span(text));
  const auto half = std::min<std::size_t>(bytes.size(), 4);
  const std::span<const std::byte> pieces[] = {bytes.first(half), bytes.subspan(half)};
  return units::recipe(pieces);
}

units::number leave(units& u, const id& of, const units::ancestor& under = {}) {
  return u.left(of, under, recipe_in(recipe_of(of)));
}

units::number come(units& u, const id& of, const id& under = {}) {
  return u.came(of, under, recipe_in(recipe_of(of)));
}

/// Of a node without a main: all that leaves is told.
units of_node(std::size_t most_bytes = std::size_t{64} << 20U) {
  return units({.life = 1, .most_bytes = most_bytes, .has_main = false});
}

/// Does what a node does with what is told.
struct written {
  task_table table{owner};
  std::map<units::number, task_table::ticket> tickets;
  std::unique_ptr<manta::control::store> in = manta::control::make_memory_store();

  void take(units& from, std::size_t at_once = 1U << 20U) {
    do {
      units::work work = from.take(at_once);
      for (units::record& one : work.made) {
        const auto made = table.add({one.id, one.under, std::move(one.recipe)}, one.unit);
        REQUIRE(made);
        REQUIRE_FALSE(table.contains(tickets[one.unit]));
        tickets[one.unit] = *made;
      }
      for (const units::number one : work.ended) table.remove(tickets.at(one));
    } while (from.has_work());
    while (const auto value = table.sparse()) {
      std::vector<task_row> rows;
      for (const units::number one : value->known_as) {
        units::record is = from.told(one);
        rows.push_back({is.id, is.under, std::move(is.recipe)});
      }
      table.rewrite(*value, std::move(rows));
    }
    for (auto& one : table.write()) REQUIRE(manta::control::commit_now(*in, std::move(one)));
  }
  /// By the low half of the id: that of its parent.
  std::map<std::uint64_t, std::uint64_t> rows() const {
    std::map<std::uint64_t, std::uint64_t> out;
    const auto rows = manta::control::read_tasks(*in, owner);
    REQUIRE(rows);
    std::size_t values = 0;
    for (const task_row& one : *rows) {
      // A value goes when all in it are over: what is over by then is not looked for.
      out[one.id.low] = one.parent.low;
      CHECK(one.recipe == recipe_of(one.id));
      ++values;
    }
    CHECK(values == out.size());
    return out;
  }
};

}  // namespace

TEST_CASE("what comes back before it is taken is never told", "[own]") {
  units u = of_node();
  const auto one = leave(u, job(1));
  const auto two = leave(u, job(2));
  CHECK(u.size() == 2);
  CHECK(u.has_work());
  u.over(two);
  u.over(one);
  CHECK_FALSE(u.has_work());
  CHECK(u.size() == 0);
  CHECK(u.bytes() == 0);
  const auto three = leave(u, job(3));
  u.over(leave(u, job(4)));
  const units::work work = u.take(1000);
  REQUIRE(work.made.size() == 1);
  CHECK(work.made[0].unit == three);
  CHECK(work.made[0].recipe == recipe_of(job(3)));
  CHECK(work.ended.empty());
  CHECK(u.told(three).recipe == recipe_of(job(3)));
  u.over(three);
  CHECK(u.told(three).id == id{});
  // Its number is another one's only after that.
  CHECK(leave(u, job(5)) != three);
  CHECK(u.take(1000).ended == std::vector{three});
  CHECK(leave(u, job(6)) == three);
  CHECK(u.size() == 2);
}

TEST_CASE("what a node's own main sends is told to nobody", "[own]") {
  units u({.life = 1, .has_main = true});
  const auto own = leave(u, job(1));
  CHECK_FALSE(u.has_work());
  CHECK(u.size() == 1);
  CHECK(u.told(own).recipe == recipe_of(job(1)));
  // What came is others', and so is what it makes.
  written w;
  const auto guest = come(u, job(2), job(7));
  const auto child = leave(u, job(3), u.nearest(job(2)));
  const auto other = leave(u, job(4), {0, job(9)});
  w.take(u);
  CHECK(w.rows() == std::map<std::uint64_t, std::uint64_t>{{2, 7}, {3, 2}, {4, 9}});
  for (const auto one : {own, guest, child, other}) u.over(one);
  w.take(u);
  CHECK(w.rows().empty());
  CHECK(u.size() == 0);
  CHECK(u.bytes() == 0);
}

TEST_CASE("who came has its record where it was made until something hangs by it", "[own]") {
  units u = of_node();
  written w;
  const auto guest = come(u, job(1), job(7));
  CHECK_FALSE(u.has_work());
  const auto above = u.nearest(job(1));
  CHECK((above.here == guest && above.id == job(1)));
  const auto child = leave(u, job(2), above);
  w.take(u);
  CHECK(w.rows() == std::map<std::uint64_t, std::uint64_t>{{1, 7}, {2, 1}});
  u.over(guest);
  w.take(u);
  CHECK(w.table.size() == 2);  // its child lives
  CHECK(u.nearest(job(1)).id == id{});
  u.over(child);
  w.take(u);
  CHECK(w.table.size() == 0);
  CHECK(w.rows().empty());
  // What was lent is as a child is.
  const auto lender = come(u, job(3));
  CHECK(u.lent({lender, job(3)}));
  u.over(lender);
  w.take(u);
  CHECK(w.rows().size() == 1);
  CHECK(u.nearest(job(3)).here == lender);
  u.over(lender);
  w.take(u);
  CHECK(w.rows().empty());
  CHECK_FALSE(u.lent({lender, job(3)}));
  CHECK(u.guests() == 0);
  CHECK(u.size() == 0);
}

TEST_CASE("a child of who is over already has no ancestor", "[own]") {
  units u = of_node();
  const auto guest = come(u, job(1));
  const auto above = u.nearest(job(1));
  u.over(guest);
  const auto other = leave(u, job(2), above);
  auto made = u.take(1000).made;
  REQUIRE(made.size() == 1);
  CHECK(made[0].under == id{});
  // Its number is another one's by now.
  CHECK(other == guest);
  CHECK_FALSE(u.lent(above));
  leave(u, job(4), above);
  made = u.take(1000).made;
  REQUIRE(made.size() == 1);
  CHECK((made[0].id == job(4) && made[0].under == id{}));
}

TEST_CASE("units have a cap, and what is too large has no record", "[own]") {
  constexpr std::size_t many = 8;
  constexpr std::size_t one = units::most_recipe + units::bytes_of_a_unit;
  units u = of_node(many * one);
  const std::string large(units::most_recipe + 1, 'x');
  const std::string most(units::most_recipe, 'x');
  CHECK(u.left(job(1), {}, recipe_in(large)) == 0);
  CHECK(u.refused() == 1);
  std::vector<units::number> all;
  for (std::size_t i = 0; i < many; ++i) all.push_back(u.left(job(i + 2), {}, recipe_in(most)));
  CHECK(std::ranges::count(all, 0U) == 0);
  CHECK(u.bytes() == many * one);
  CHECK(u.left(job(1), {}, recipe_in(most)) == 0);
  CHECK(u.refused() == 2);
  // One that came is known all the same: what it makes belongs to what is above it.
  const auto guest = u.came(job(1000), job(999), recipe_in(most));
  CHECK(guest != 0);
  CHECK(u.nearest(job(1000)).here == 0);
  CHECK(u.nearest(job(1000)).id == job(999));
  CHECK(u.lent({guest, job(1000)}));
  u.over(guest);
  u.over(guest);
  for (const auto n : all) u.over(n);
  CHECK_FALSE(u.has_work());
  CHECK(u.size() == 0);
  CHECK(u.bytes() == 0);
  // Who came has half of it at most.
  std::vector<units::number> guests;
  for (std::size_t i = 0; i < many; ++i) guests.push_back(u.came(job(i + 2), {}, recipe_in(most)));
  CHECK(u.nearest(job(many / 2)).here != 0);
  CHECK(u.nearest(job(many + 1)).here == 0);
  CHECK(u.left(job(1), {}, recipe_in(most)) != 0);
  for (const auto n : guests) u.over(n);
  CHECK(u.size() == 1);
}

TEST_CASE("nothing grows while nobody takes", "[own]") {
  units u = of_node();
  const auto first = leave(u, job(1));
  std::vector<units::number> some;
  for (std::uint64_t n = 2; n < 20'000; ++n) {
    some.push_back(leave(u, job(n)));
    if (some.size() == 100) {
      for (const auto one : some) u.over(one);
      some.clear();
    }
  }
  for (const auto one : some) u.over(one);
  CHECK(u.size() == 1);
  const auto work = u.take(1000);
  REQUIRE(work.made.size() == 1);
  CHECK(work.made[0].unit == first);
}

TEST_CASE("what is told at once has a limit", "[own]") {
  units u = of_node();
  for (std::uint64_t n = 1; n <= 100; ++n) leave(u, job(n));
  std::uint64_t next = 1;
  int turns = 0;
  while (u.has_work()) {
    ++turns;
    for (const auto& one : u.take(1000).made) CHECK(one.id == job(next++));
    if (turns == 2) u.over(leave(u, job(1000)));  // and nothing is moved by that
  }
  CHECK(next == 101);
  CHECK(turns > 5);
}

TEST_CASE("numbers of a node's other life mean nothing", "[own]") {
  units before({.life = 1});
  const auto old = leave(before, job(1));
  units u({.life = 2});
  const auto one = leave(u, job(1));
  CHECK(one != old);
  u.over(old);
  CHECK_FALSE(u.lent({old, job(1)}));
  CHECK(u.size() == 1);
  u.over(one);
  u.over(one);
  u.over(0);
  CHECK(u.size() == 0);
}

TEST_CASE("what is made here belongs to the nearest ancestor that came", "[own]") {
  units u = of_node();
  const auto guest = come(u, job(1));
  // 1 <- 2 <- 3 <- 4, and 9 <- 10 which nobody gave.
  u.calls(job(2), job(1));
  u.calls(job(10), job(9));
  u.calls(job(3), job(2));
  u.calls(job(4), job(3));
  u.calls(job(3), job(2));  // it was suspended
  for (const std::uint64_t n : {1U, 2U, 3U, 4U}) CHECK(u.nearest(job(n)).here == guest);
  CHECK(u.nearest(job(10)).here == 0);
  CHECK(u.nearest({}).here == 0);
  // The nearest is meant.
  const auto nearer = come(u, job(3), job(1));
  CHECK(u.nearest(job(3)).here == nearer);
  u.calls(job(5), job(3));
  CHECK(u.nearest(job(5)).here == nearer);
  u.calls(job(3), job(2));
  CHECK(u.nearest(job(3)).here == nearer);
  u.over(guest);
  CHECK(u.nearest(job(4)).here == 0);
  CHECK(u.nearest(job(2)).here == 0);
  CHECK(u.nearest(job(5)).here == nearer);
  u.over(nearer);
  CHECK(u.nearest(job(5)).here == 0);
}

TEST_CASE("who comes once more has the callers that it makes once more", "[own]") {
  units u = of_node();
  const auto first = come(u, job(1));
  u.calls(job(2), job(1));
  const auto again = come(u, job(1));
  u.calls(job(2), job(1));
  CHECK(u.nearest(job(2)).here == again);
  u.over(first);
  CHECK(u.nearest(job(1)).here == again);
  CHECK(u.nearest(job(2)).here == again);
  u.over(again);
  CHECK(u.nearest(job(2)).here == 0);
  CHECK(u.size() == 0);
}

TEST_CASE("of callers the last ones are known", "[own]") {
  units u = of_node();
  const auto guest = come(u, job(1));
  const std::uint64_t last = 2 + units::most_relatives;
  for (std::uint64_t n = 2; n <= last; ++n) u.calls(job(n), job(1));
  CHECK(u.nearest(job(2)).here == 0);
  CHECK(u.nearest(job(3)).here == guest);
  CHECK(u.nearest(job(last)).here == guest);
  u.over(guest);
  for (const std::uint64_t n : {std::uint64_t{1}, std::uint64_t{3}, last}) {
    CHECK(u.nearest(job(n)).here == 0);
  }
}

namespace {

/// What was made by whom, and what is needed.
class family {
 public:
  explicit family(std::uint64_t seed) : random_(seed) {}

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      if (random_.one_in(16)) look();
    }
    while (!needed_.empty()) end(any());
    look();
    CHECK(units_.size() == 0);
    CHECK(units_.guests() == 0);
    CHECK(most_ > 8);
  }

 private:
  struct member {
    std::uint64_t caller = 0;  // who made it, recorded or not
    units::number unit = 0;    // 0: made here
    int needs = 0;
    bool is_guest = false;
    bool is_written = false;
    std::uint64_t under = 0;  // with a record
  };

  std::uint64_t any() { return *std::next(needed_.begin(), long(random_.below(needed_.size()))); }

  // The rule: up to the first that came and is still needed.
  std::uint64_t nearest(std::uint64_t caller) const {
    for (std::uint64_t n = caller; n != 0; n = all_.at(n).caller) {
      if (all_.at(n).is_guest && all_.at(n).needs > 0) return n;
    }
    return 0;
  }
  void step() {
    const std::uint64_t n = ++last_;
    std::uint64_t caller = needed_.empty() || random_.one_in(5) ? 0 : any();
    // What has left makes its children elsewhere.
    if (caller != 0 && all_.at(caller).unit != 0 && !all_.at(caller).is_guest) caller = 0;
    switch (random_.below(6)) {
      case 0:  // from another node, which says that some other has a record
        all_[n] = {.caller = 0,
                   .unit = come(units_, job(n), job(n + 1'000'000)),
                   .needs = 1,
                   .is_guest = true,
                   .under = n + 1'000'000};
        return static_cast<void>(needed_.insert(n));
      case 1: {  // to another node
        const std::uint64_t above = nearest(caller);
        const units::ancestor is = units_.nearest(job(caller));
        CHECK(is.id.low == above);
        if (above != 0) all_.at(above).is_written = true;
        all_[n] = {.caller = caller,
                   .unit = leave(units_, job(n), is),
                   .needs = 1,
                   .is_written = true,
                   .under = above};
        return static_cast<void>(needed_.insert(n));
      }
      case 2:  // here; it is about to make calls
        all_[n] = {.caller = caller, .needs = 1};
        units_.calls(job(n), job(caller));
        return static_cast<void>(needed_.insert(n));
      case 3: {  // what that made is lent
        const std::uint64_t above = nearest(caller);
        if (above == 0) return;
        CHECK(units_.lent({all_.at(above).unit, job(above)}));
        ++all_.at(above).needs;
        all_.at(above).is_written = true;
        return;
      }
      default:
        if (!needed_.empty()) end(any());
    }
  }
  void end(std::uint64_t n) {
    member& is = all_.at(n);
    const bool calls =
        std::ranges::any_of(needed_, [&](std::uint64_t one) { return all_.at(one).caller == n; });
    if (is.unit == 0 && calls) return end_children(n);
    units_.over(is.unit);
    if (--is.needs == 0) needed_.erase(n);
  }
  void end_children(std::uint64_t n) {
    const std::set<std::uint64_t> now = needed_;
    for (const std::uint64_t one : now) {
      if (all_.at(one).caller == n && needed_.contains(one)) return end(one);
    }
  }

  void look() {
    written_.take(units_, 1 + random_.below(2000));
    // All that is needed and was written, with what is above it here.
    std::set<std::uint64_t> expected;
    for (const std::uint64_t of : needed_) {
      if (!all_.at(of).is_written) continue;
      for (std::uint64_t n = of; n != 0 && all_.contains(n) && expected.insert(n).second;) {
        n = all_.at(n).under;
      }
    }
    std::set<std::uint64_t> there;
    for (const auto& [n, under] : written_.rows()) {
      CHECK(under == all_.at(n).under);
      there.insert(n);
    }
    CHECK(written_.table.size() == expected.size());
    // The store may have some that are over, in a value with others.
    CHECK(std::ranges::includes(there, expected));
    most_ = std::max(most_, expected.size());
  }

  dice random_;
  units units_ = of_node();
  written written_;
  std::map<std::uint64_t, member> all_;
  std::set<std::uint64_t> needed_;
  std::uint64_t last_ = 0;
  std::size_t most_ = 0;
};

}  // namespace

TEST_CASE("of random trees those records are there that something may need", "[own]") {
  const std::uint64_t seed = run_seed();
  for (int i = 0; i < repeats(40, 2000); ++i) {
    CAPTURE(seed, i);
    family(seed + static_cast<std::uint64_t>(i)).run(400);
  }
}

}  // namespace units_test
