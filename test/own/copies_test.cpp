// SPDX-License-Identifier: Apache-2.0
#include "own/copies.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

// Searches whose members answer, are lost, are late or lie, and whose holders fail, at random. Who
// may still say something, and who has been taken, is written down beside the decider.

namespace own_copies_test {

namespace {

using namespace std::chrono_literals;
using manta::base::id;
using manta::base::time_point;
using manta::own::copies;
using manta::own::copy_step;
using manta::own::search_limits;
using manta_test::dice;
using manta_test::repeats;
using manta_test::run_seed;
using manta_test::scaled;
using kind = copy_step::kind;
using members = std::vector<std::uint64_t>;

constexpr time_point start = time_point(1h);
constexpr id thing{7, 8};
constexpr search_limits usual{};

constexpr copy_step waits{};
constexpr copy_step none{kind::none, 0};
constexpr copy_step take(std::uint64_t member) { return {kind::take, member}; }

struct model_search {
  std::set<std::uint64_t> silent = {};  // asked, and they have not answered
  std::set<std::uint64_t> said = {};    // they have it, and were not taken
  std::set<std::uint64_t> tried = {};
  std::uint64_t taken = 0;
  time_point until{};
};

class model {
 public:
  explicit model(std::uint64_t seed) : dice_(seed) {}

  void step() {
    switch (dice_.below(9)) {
      case 0:
        return begin();
      case 1:
        return fail();
      case 2:
        return dice_.one_in(4) ? lose() : answer();
      case 3:
        if (dice_.one_in(4)) end();
        return;
      case 4:
        return pass_time();
      case 5:
        return answer_of_nobody();
      default:
        return answer();
    }
  }
  /// All have their time, and those that are taken fail: nothing is left.
  void finish() {
    now_ += usual.answer_limit;
    look();
    while (!all_.empty()) {
      REQUIRE(all_.begin()->second.taken != 0);
      fail();
    }
    REQUIRE(decider_.size() == 0);
    REQUIRE_FALSE(decider_.due().has_value());
  }
  int found = 0;
  int ended = 0;

 private:
  static constexpr std::uint64_t most_members = 6;

  void begin() {
    if (all_.size() > 4) return;
    std::set<std::uint64_t> among;
    for (std::uint64_t one = 1; one <= most_members; ++one) {
      if (dice_.one_in(2)) among.insert(one);
    }
    const std::uint64_t number = ++last_;
    const members list(among.begin(), among.end());
    // Another thing each time: what is known of one is a case of its own.
    const members asked = decider_.begin(number, {1, number}, list, now_);
    REQUIRE(asked == list);
    if (!among.empty()) all_[number] = {.silent = among, .until = now_ + usual.answer_limit};
  }
  // What is right for that search, now that something has changed.
  void expect(std::uint64_t number, const copy_step& is) {
    model_search& of = all_.at(number);
    if (of.taken != 0) {
      REQUIRE(is == waits);
    } else if (!of.said.empty()) {
      REQUIRE(is.is == kind::take);
      REQUIRE(of.said.erase(is.member) == 1);
      REQUIRE(of.tried.insert(is.member).second);
      of.taken = is.member;
      ++found;
    } else if (!of.silent.empty()) {
      REQUIRE(is == waits);
    } else {
      REQUIRE(is == none);
      all_.erase(number);
      ++ended;
    }
  }
  std::uint64_t some() {
    if (all_.empty()) return 0;
    return std::next(all_.begin(), static_cast<int>(dice_.below(all_.size())))->first;
  }
  void answer() {
    const std::uint64_t number = some();
    if (number == 0) return;
    model_search& of = all_.at(number);
    if (of.silent.empty()) return;
    const std::uint64_t by =
        *std::next(of.silent.begin(), static_cast<int>(dice_.below(of.silent.size())));
    const bool has_it = dice_.one_in(3);
    of.silent.erase(by);
    if (has_it) of.said.insert(by);
    expect(number, decider_.answered(number, by, has_it, now_));
  }
  // Of who was not asked, has answered, or of no search.
  void answer_of_nobody() {
    const std::uint64_t number = some();
    const std::uint64_t by = 1 + dice_.below(most_members + 2);
    const bool is_one = number != 0 && all_.at(number).silent.contains(by);
    if (!is_one) REQUIRE(decider_.answered(number, by, true, now_) == waits);
    REQUIRE(decider_.answered(last_ + 1, by, true, now_) == waits);
  }
  void fail() {
    for (auto& [number, of] : all_) {
      if (of.taken == 0) continue;
      of.taken = 0;
      return expect(number, decider_.failed(number, now_));
    }
  }
  void end() {
    const std::uint64_t number = some();
    decider_.over(number);
    all_.erase(number);
    REQUIRE(decider_.failed(number, now_) == waits);
  }
  void lose() {
    const std::uint64_t whom = 1 + dice_.below(most_members);
    std::set<std::uint64_t> waited;
    for (auto& [number, of] : all_) {
      if (of.silent.erase(whom) > 0) waited.insert(number);
      of.said.erase(whom);
    }
    see(waited, decider_.gone(whom, now_));
  }
  void pass_time() {
    now_ += std::chrono::milliseconds(dice_.below(1500));
    look();
  }
  void look() {
    std::set<std::uint64_t> waited;
    for (auto& [number, of] : all_) {
      if (of.silent.empty() || of.until > now_) continue;
      of.silent.clear();
      waited.insert(number);
    }
    see(waited, decider_.look(now_));
    manta::base::deadline due;
    for (const auto& [number, of] : all_) {
      if (!of.silent.empty()) due = manta::base::earlier(due, of.until);
    }
    REQUIRE(decider_.due() == due);
  }
  // Those of which nothing is said wait on.
  void see(const std::set<std::uint64_t>& waited, const copies::steps& said) {
    std::map<std::uint64_t, copy_step> all;
    for (const auto& [number, is] : said) {
      REQUIRE(is.is != kind::waits);
      REQUIRE(waited.contains(number));
      REQUIRE(all.emplace(number, is).second);
    }
    for (const std::uint64_t number : waited) {
      const auto of = all.find(number);
      expect(number, of == all.end() ? waits : of->second);
    }
    REQUIRE(decider_.size() == all_.size());
  }

  dice dice_;
  copies decider_;
  time_point now_ = start;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, model_search> all_;
};

}  // namespace

TEST_CASE("a search for a copy does what its model says, whatever members do", "[own]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  int found = 0;
  int ended = 0;
  for (int run = 0; run < repeats(60, 2000); ++run) {
    CAPTURE(run);
    model m(seed + static_cast<std::uint64_t>(run));
    for (int i = 0; i < 300; ++i) m.step();
    m.finish();
    found += m.found;
    ended += m.ended;
  }
  CHECK(found > scaled(200));
  CHECK(ended > scaled(200));
}

TEST_CASE("the first that has a copy is taken and the others are kept in mind", "[own]") {
  copies all;
  const members three{1, 2, 3};
  REQUIRE(all.begin(5, thing, three, start) == three);
  CHECK(all.answered(5, 1, false, start) == waits);
  CHECK(all.answered(5, 2, true, start) == take(2));
  CHECK(all.answered(5, 3, true, start) == waits);
  CHECK(all.failed(5, start) == take(3));
  CHECK(all.failed(5, start) == none);
  CHECK(all.size() == 0);
}

TEST_CASE("who has failed is waited for no more than those that have not answered", "[own]") {
  copies all;
  const members two{1, 2};
  REQUIRE(all.begin(5, thing, two, start) == two);
  REQUIRE(all.answered(5, 1, true, start) == take(1));
  CHECK(all.failed(5, start) == waits);
  CHECK(all.due() == start + usual.answer_limit);
  CHECK(all.look(start + usual.answer_limit - 1ms).empty());
  const auto ended = all.look(start + usual.answer_limit);
  REQUIRE(ended.size() == 1);
  CHECK(ended.front() == std::pair<copies::search, copy_step>(5, none));
  CHECK(all.answered(5, 2, true, start + usual.answer_limit) == waits);
}

TEST_CASE("that nobody has a copy is known for a while in which nobody is asked", "[own]") {
  copies all;
  const members one{1};
  REQUIRE(all.begin(5, thing, one, start) == one);
  REQUIRE(all.answered(5, 1, false, start) == none);
  CHECK(all.begin(6, thing, one, start + usual.none_for - 1ms).empty());
  CHECK(all.begin(7, {7, 9}, one, start) == one);  // another thing
  CHECK(all.begin(8, thing, one, start + usual.none_for) == one);
  all.clear();
  CHECK(all.size() == 0);
  REQUIRE(all.begin(9, thing, one, start) == one);
}

TEST_CASE("no more members are asked, and no more things known, than the limits say", "[own]") {
  copies all({.most_asked = 2, .most_known = 1});
  const members three{1, 2, 3};
  CHECK(all.begin(5, thing, three, start) == members{1, 2});
  CHECK(all.answered(5, 3, true, start) == waits);  // it was not asked
  REQUIRE(all.answered(5, 1, false, start) == waits);
  REQUIRE(all.answered(5, 2, false, start) == none);
  REQUIRE(all.begin(6, {7, 9}, members{1}, start) == members{1});
  REQUIRE(all.answered(6, 1, false, start) == none);
  CHECK(all.begin(7, thing, members{1}, start).empty());
  CHECK(all.begin(8, {7, 9}, members{1}, start) == members{1});  // there was no room to know it
  CHECK(all.begin(9, thing, {}, start + 10s).empty());
}

}  // namespace own_copies_test
