// SPDX-License-Identifier: Apache-2.0
#include "bulk/readers.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

// Readers that come, end, fail, let go of what they have, blame others and lose their connections
// at random. Who waits for whom in truth is written down beside the decider, which knows less.

namespace bulk_readers_test {

namespace {

using namespace std::chrono_literals;
using manta::base::id;
using manta::base::time_point;
using manta::bulk::readers;
using manta_test::dice;
using manta_test::repeats;
using manta_test::run_seed;
using manta_test::scaled;

constexpr std::uint64_t most_readers = 12;
constexpr std::uint64_t objects = 2;
constexpr std::size_t fan_out = 2;
constexpr auto told_for = 5s;
constexpr time_point start = time_point(1h);

/// One reader and an object.
struct model_reader {
  // In truth.
  bool reads = false;
  bool has = false;
  std::uint64_t from = 0;  // while it reads; 0: the maker
  // As the decider knows it.
  std::uint64_t place = 0;  // 0: it does not
  std::uint64_t above = 0;  // the place
  std::uint64_t line = 0;
  bool known_to_read = false;
  time_point until{};
};

class model {
 public:
  explicit model(std::uint64_t seed) : dice_(seed) {
    for (std::uint64_t one = 1; one <= most_readers; ++one) lines_[one] = ++last_line_;
  }
  void step() {
    object_ = 1 + dice_.below(objects);
    const std::uint64_t who = 1 + dice_.below(most_readers);
    model_reader& of = at(who);
    switch (dice_.below(10)) {
      case 0:
        return end(who, of.reads);
      case 1:
        if (dice_.one_in(3)) end(who, false);
        return;
      case 2:
        of.has = false;  // nobody hears of it
        return;
      case 3:
        return blame(who);
      case 4:
        if (dice_.one_in(2)) close(who);
        return;
      case 5:
        now_ += std::chrono::milliseconds(dice_.below(2000));
        return;
      default:
        if (!of.has) ask(who);
    }
    std::size_t known = 0;
    for (const auto& [key, one] : all_) known += one.place != 0 ? 1 : 0;
    REQUIRE(decider_.size() == known);
  }
  int told = 0;
  int given = 0;
  int told_again = 0;

 private:
  model_reader& at(std::uint64_t who) { return all_[{object_, who}]; }
  std::uint64_t who_is(std::uint64_t place) {
    for (std::uint64_t one = 1; one <= most_readers; ++one) {
      if (place != 0 && at(one).place == place) return one;
    }
    return 0;
  }
  std::size_t below(std::uint64_t place) {
    std::size_t out = 0;
    for (std::uint64_t one = 1; one <= most_readers; ++one) {
      out += at(one).place != 0 && at(one).known_to_read && at(one).above == place ? 1 : 0;
    }
    return out;
  }
  std::size_t below_maker(std::uint64_t but) {
    std::size_t out = 0;
    for (std::uint64_t one = 1; one <= most_readers; ++one) {
      out += one != but && at(one).place != 0 && at(one).above == 0 ? 1 : 0;
    }
    return out;
  }
  // As far as anybody has heard.
  bool may_be_named(std::uint64_t whom, std::uint64_t to) {
    if (whom == to || at(whom).place == 0 || below(at(whom).place) >= fan_out) return false;
    std::uint64_t one = whom;
    for (std::uint64_t i = 0; i <= most_readers; ++i) {
      if (one == to) return false;
      if (!at(one).known_to_read || at(one).above == 0) return true;
      one = who_is(at(one).above);
      if (one == 0) return false;
    }
    return false;
  }
  // In truth: whether who waits for `whom` waits for `to`.
  bool waits_for(std::uint64_t whom, std::uint64_t to) {
    for (std::uint64_t i = 0; i <= most_readers; ++i) {
      if (whom == to) return true;
      if (!at(whom).reads || at(whom).from == 0) return false;
      whom = at(whom).from;
    }
    return true;
  }
  void forget_old() {
    for (auto& [key, one] : all_) {
      if (one.place != 0 && !one.known_to_read && one.until <= now_) one.place = 0;
    }
  }
  void ask(std::uint64_t who) {
    model_reader& of = at(who);
    if (of.reads && of.place == 0) return;
    forget_old();
    const std::uint64_t line = lines_[who];
    if (of.reads) {  // once more: the same, or one that is gone by now
      const std::uint64_t named = who_is(of.above);
      REQUIRE(decider_.ask(object(), who, line, now_) == named);
      ++told_again;
      return;
    }
    bool has_one = false;
    for (std::uint64_t one = 1; one <= most_readers; ++one) {
      has_one = has_one || may_be_named(one, who);
    }
    const bool is_full = below_maker(who) >= fan_out;
    const std::uint64_t whom = decider_.ask(object(), who, line, now_);
    REQUIRE((whom != 0) == (is_full && has_one));
    if (whom != 0) {
      REQUIRE(may_be_named(whom, who));
      REQUIRE_FALSE(waits_for(whom, who));
    }
    ++(whom != 0 ? told : given);
    if (of.place == 0) of.place = ++last_place_;
    of.above = whom != 0 ? at(whom).place : 0;
    of.line = line;
    of.known_to_read = of.reads = true;
    of.from = whom;
  }
  void end(std::uint64_t who, bool has_it) {
    model_reader& of = at(who);
    if (!of.reads) return;
    of.reads = false;
    of.has = has_it;
    if (of.line != lines_[who] || of.place == 0) return;  // it has nobody to tell
    decider_.ended(object(), who, has_it, now_);
    of.known_to_read = false;
    of.until = now_ + told_for;
    if (!has_it) of.place = 0;
  }
  // Who waits for another one says that this has nothing, and asks the maker from then on.
  void blame(std::uint64_t who) {
    model_reader& of = at(who);
    if (!of.reads || of.from == 0) return;
    decider_.ended(object(), of.from, false, now_);
    at(of.from).place = 0;
    of.from = 0;
  }
  // It goes on with what it does.
  void close(std::uint64_t who) {
    decider_.closed(lines_[who]);
    for (auto& [key, one] : all_) {
      if (one.place != 0 && one.line == lines_[who]) one.place = 0;
    }
    lines_[who] = ++last_line_;
  }
  id object() const { return {7, object_}; }

  dice dice_;
  readers decider_{{.fan_out = fan_out, .told_for = told_for}};
  time_point now_ = start;
  std::uint64_t object_ = 0;
  std::uint64_t last_line_ = 0;
  std::uint64_t last_place_ = 0;
  std::map<std::uint64_t, std::uint64_t> lines_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, model_reader> all_;
};

constexpr id one_object{1, 2};

}  // namespace

TEST_CASE("readers are told of others as their model says, whatever becomes of them", "[bulk]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  int told = 0;
  int given = 0;
  int told_again = 0;
  for (int run = 0; run < repeats(60, 2000); ++run) {
    CAPTURE(run);
    model m(seed + static_cast<std::uint64_t>(run));
    for (int i = 0; i < 500; ++i) m.step();
    told += m.told;
    given += m.given;
    told_again += m.told_again;
  }
  CHECK(told > scaled(1000));
  CHECK(given > scaled(500));
  CHECK(told_again > scaled(1000));
}

TEST_CASE("readers that come at once are a tree, row by row", "[bulk]") {
  readers all;
  const std::array<std::uint64_t, 9> right{0, 0, 1, 1, 2, 2, 3, 3, 4};
  for (std::uint64_t one = 1; one <= right.size(); ++one) {
    CHECK(all.ask(one_object, one, one, start) == right[one - 1]);
  }
  CHECK(all.ask({1, 3}, 9, 9, start) == 0);  // another object's first
}

TEST_CASE("one that has all is told of for a while and has room below it again", "[bulk]") {
  readers all({.fan_out = 1, .told_for = 5s});
  CHECK(all.ask(one_object, 1, 1, start) == 0);
  all.ended(one_object, 1, true, start);
  CHECK(all.ask(one_object, 2, 2, start + 1s) == 1);
  CHECK(all.ask(one_object, 3, 3, start + 1s) == 2);
  all.ended(one_object, 2, true, start + 2s);
  CHECK(all.ask(one_object, 4, 4, start + 3s) == 1);
  CHECK(all.ask(one_object, 5, 5, start + 6s) == 0);  // the first is forgotten
  CHECK(all.size() == 4);
}

TEST_CASE("one that is gone is not told of, and who reads once more is not sent below itself",
          "[bulk]") {
  readers all({.fan_out = 1});
  CHECK(all.ask(one_object, 1, 1, start) == 0);
  CHECK(all.ask(one_object, 2, 2, start) == 1);
  all.ended(one_object, 1, true, start);
  CHECK(all.ask(one_object, 1, 1, start) == 0);  // its copy is gone, and the second waits for it
  all.closed(1);
  CHECK(all.ask(one_object, 3, 3, start) == 0);
  CHECK(all.ask(one_object, 1, 4, start) == 3);  // not the second one
  all.ended(one_object, 3, false, start);
  CHECK(all.ask(one_object, 5, 5, start) == 0);
  for (const std::uint64_t line : {2U, 3U, 4U, 5U}) all.closed(line);
  CHECK(all.size() == 0);
}

TEST_CASE("more readers than may be known are given the object by who has it", "[bulk]") {
  readers all({.fan_out = 1, .most = 2});
  CHECK(all.ask(one_object, 1, 1, start) == 0);
  CHECK(all.ask(one_object, 2, 2, start) == 1);
  CHECK(all.ask(one_object, 3, 3, start) == 0);
  CHECK(all.ask({1, 3}, 3, 3, start) == 0);
  CHECK(all.size() == 2);
}

}  // namespace bulk_readers_test
