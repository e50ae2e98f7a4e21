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

units::number leave(units& u, const id& of, const units::ancestor& under = {}) {
  // In two pieces, as messages have them.
  const std::string text = recipe_of(of);
  const auto bytes = std::as_bytes(std::span(text));
  const std::span<const std::byte> pieces[] = {bytes.first(4), bytes.subspan(4)};
  return u.left(of, under, pieces);
}

units::number come(units& u, const id& of, const id& under = {}) {
  const std::string text = recipe_of(of);
  return u.came(of, under, std::as_bytes(std::span(text)));
}

/// Does what a node does with what is told.
struct written {
  task_table table{owner};
  std::map<units::number, task_table::ticket> tickets;
  std::unique_ptr<manta::control::store> in = manta::control::make_memory_store();

  void take(units& from) {
    const units::work work = from.take();
    for (const units::record& one : work.made) {
      const auto above = tickets.find(one.parent);
      const auto made = table.add({one.id, one.under, work.bytes.substr(one.at, one.size)},
                                  above == tickets.end() ? task_table::ticket{} : above->second);
      REQUIRE(made);
      tickets[one.unit] = *made;
    }
    for (const units::number one : work.ended) table.release(tickets.at(one));
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
  units u(1);
  const auto one = leave(u, job(1));
  const auto two = leave(u, job(2));
  CHECK(u.size() == 2);
  CHECK(u.has_work());
  u.over(two);
  u.over(one);
  CHECK_FALSE(u.has_work());
  CHECK(u.size() == 0);
  const auto three = leave(u, job(3));
  u.over(leave(u, job(4)));
  const units::work work = u.take();
  REQUIRE(work.made.size() == 1);
  CHECK(work.made[0].unit == three);
  CHECK(work.bytes.substr(work.made[0].at, work.made[0].size) == recipe_of(job(3)));
  CHECK(work.ended.empty());
  u.over(three);
  CHECK(u.take().ended == std::vector{three});
  CHECK(u.size() == 0);
}

TEST_CASE("who came has its record where it was made until something hangs by it", "[own]") {
  units u(1);
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
  CHECK(u.lent(lender));
  u.over(lender);
  w.take(u);
  CHECK(w.rows().size() == 1);
  CHECK(u.nearest(job(3)).here == lender);
  u.over(lender);
  w.take(u);
  CHECK(w.rows().empty());
  CHECK_FALSE(u.lent(lender));
  CHECK(u.guests() == 0);
  CHECK(u.size() == 0);
}

TEST_CASE("a child of who is over already has no ancestor", "[own]") {
  units u(1);
  const auto guest = come(u, job(1));
  const auto above = u.nearest(job(1));
  u.over(guest);
  leave(u, job(2), above);
  const auto made = u.take().made;
  REQUIRE(made.size() == 1);
  CHECK((made[0].parent == 0 && made[0].under == id{}));
}

TEST_CASE("units have a cap, and what is too large has no record", "[own]") {
  units u(1);
  const std::string large(units::most_recipe + 1, 'x');
  const std::string most(units::most_recipe, 'x');
  const auto bytes = [](const std::string& of) { return std::as_bytes(std::span(of)); };
  const auto leave_with = [&](const id& of, const std::string& with) {
    const std::span<const std::byte> pieces[] = {bytes(with)};
    return u.left(of, {}, pieces);
  };
  CHECK(leave_with(job(1), large) == 0);
  CHECK(u.refused() == 1);
  const std::size_t many = units::most_waiting / units::most_recipe;
  std::vector<units::number> all;
  for (std::size_t i = 0; i < many; ++i) all.push_back(leave_with(job(i + 2), most));
  CHECK(std::ranges::count(all, 0U) == 0);
  CHECK(u.has_much());
  CHECK(leave_with(job(1), most) == 0);
  CHECK(u.refused() == 2);
  // One that came is known all the same: what it makes belongs to what is above it.
  const auto guest = u.came(job(1000), job(999), bytes(most));
  CHECK(guest != 0);
  CHECK(u.nearest(job(1000)).here == 0);
  CHECK(u.nearest(job(1000)).id == job(999));
  CHECK(u.lent(guest));
  u.over(guest);
  u.over(guest);
  for (const auto one : all) u.over(one);
  CHECK_FALSE(u.has_work());
  CHECK(u.size() == 0);
  CHECK(leave_with(job(1), most) != 0);
}

TEST_CASE("numbers of a node's other life mean nothing", "[own]") {
  units before(1);
  const auto old = leave(before, job(1));
  units u(2);
  const auto one = leave(u, job(1));
  CHECK(one != old);
  u.over(old);
  CHECK_FALSE(u.lent(old));
  CHECK(u.size() == 1);
  u.over(one);
  u.over(one);
  u.over(0);
  CHECK(u.size() == 0);
}

TEST_CASE("what is made here belongs to the nearest ancestor that came", "[own]") {
  units u(1);
  const auto guest = come(u, job(1));
  // 1 <- 2 <- 3 <- 4, and 9 <- 10 which nobody gave.
  const std::vector<units::shown> all{{4, 3}, {10, 9}, {2, 1}, {3, 2}};
  CHECK(u.nearest(job(4)).here == 0);
  CHECK(u.nearest(job(4), all).here == guest);
  // It is known by now, whatever they show.
  CHECK(u.nearest(job(4)).here == guest);
  CHECK(u.nearest(job(3)).here == guest);
  CHECK_FALSE(u.leads_nowhere(job(10)));
  CHECK(u.nearest(job(10), all).here == 0);
  CHECK(u.leads_nowhere(job(10)));
  CHECK(u.leads_nowhere({}));
  // The nearest is meant.
  const auto nearer = come(u, job(3), job(1));
  CHECK(u.nearest(job(3)).here == nearer);
  u.over(guest);
  u.over(nearer);
  CHECK(u.nearest(job(4)).here == 0);
  CHECK(u.nearest(job(2)).here == 0);
  // A ring of them ends.
  const std::vector<units::shown> ring{{20, 21}, {21, 20}};
  CHECK(u.nearest(job(20), ring).here == 0);
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
  units::ancestor found(std::uint64_t caller) {
    units::ancestor out = units_.nearest(job(caller));
    if (out.here != 0 || units_.leads_nowhere(job(caller))) return out;
    std::vector<units::shown> shown;
    for (const std::uint64_t n : needed_) shown.push_back({n, all_.at(n).caller});
    return units_.nearest(job(caller), shown);
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
        const units::ancestor is = found(caller);
        CHECK(is.id.low == above);
        if (above != 0) all_.at(above).is_written = true;
        all_[n] = {.caller = caller,
                   .unit = leave(units_, job(n), is),
                   .needs = 1,
                   .is_written = true,
                   .under = above};
        return static_cast<void>(needed_.insert(n));
      }
      case 2:  // here
        all_[n] = {.caller = caller, .needs = 1};
        return static_cast<void>(needed_.insert(n));
      case 3: {  // what that made is lent
        const std::uint64_t above = nearest(caller);
        if (above == 0) return;
        CHECK(units_.lent(all_.at(above).unit));
        ++all_.at(above).needs;
        all_.at(above).is_written = true;
        return;
      }
      default:
        if (!needed_.empty()) end(any());
    }
  }
  // A caller outlives what it has called here, as far as this family goes.
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
    written_.take(units_);
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
  units units_{1};
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
