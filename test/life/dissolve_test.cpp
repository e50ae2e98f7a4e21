// SPDX-License-Identifier: Apache-2.0
// The end of a cluster whose work is done, who only looks at one, who has another program, and who
// has lost its connection.
#include <optional>
#include <variant>

#include <catch2/catch.hpp>

#include "life/roll.hpp"
#include "life/seat.hpp"

namespace dissolve_test {

namespace {

using namespace manta::life;
using manta::spec::node_verdict;
using manta::spec::node_wish;
namespace base = manta::base;
using namespace std::chrono_literals;

// A head whose disk is fast, at a time that stands still.
class head {
 public:
  head() : roll_({}, {}, 0, now) { settle(); }

  roll& decider() { return roll_; }
  /// What it says to `process` when all rows are written; the last word.
  std::optional<bulletin> last_to(std::uint64_t process) {
    settle();
    std::optional<bulletin> out;
    for (const bulletin& one : said_) {
      if (one.process == base::id{1, process}) out = one;
    }
    said_.clear();
    return out;
  }
  std::optional<bulletin> hears(std::uint64_t process, std::uint64_t epoch = 0) {
    roll_.on_heartbeat(heartbeat_of(process, epoch), now);
    return last_to(process);
  }
  /// Members, when it has looked each millisecond until then.
  std::size_t left_at(base::time_point until) {
    for (; looked_ <= until; looked_ += 1ms) roll_.on_time(looked_);
    settle();
    return roll_.members().size();
  }
  static heartbeat heartbeat_of(std::uint64_t process, std::uint64_t epoch) {
    return {.process = {1, process},
            .epoch = epoch,
            .who = {.name = "n" + std::to_string(process), .host = "h", .pid = 7}};
  }

  static constexpr base::time_point now{1h};
  bool writes = true;

 private:
  void settle() {
    for (auto todo = roll_.take(); !todo.empty(); todo = roll_.take()) {
      for (const roll::action& one : todo) {
        if (const auto* const row = std::get_if<roll::write>(&one)) {
          if (writes) roll_.on_written(row->ticket, now);
        } else {
          said_.push_back(std::get<bulletin>(one));
        }
      }
    }
  }

  roll roll_;
  std::vector<bulletin> said_;
  base::time_point looked_ = now;
};

}  // namespace

TEST_CASE("when the work is done all members are told, as soon as that is written", "[life]") {
  head of;
  const auto joined = of.hears(2);
  REQUIRE(joined.has_value());
  REQUIRE(joined->verdict == node_verdict::member);
  of.writes = false;
  of.decider().dissolve("done");
  CHECK_FALSE(of.last_to(2).has_value());
  CHECK(of.decider().members().size() == 1);

  head other;
  const auto first = other.hears(2);
  const auto second = other.hears(3);
  REQUIRE(first.has_value());
  REQUIRE(second.has_value());
  other.decider().dissolve("done");
  const auto end = other.last_to(3);
  REQUIRE(end.has_value());
  CHECK(end->verdict == node_verdict::dissolved);
  CHECK(end->reason == "done");
  CHECK(other.decider().members().empty());
  // Who has missed it, and who comes now.
  CHECK(other.hears(2, first->epoch)->verdict == node_verdict::dissolved);
  CHECK(other.hears(4)->verdict == node_verdict::dissolved);
}

// Else nobody could tell it, and it would wait for a head that is gone.
TEST_CASE("who has just lost its connection hears of the end when it is back", "[life]") {
  head h;
  REQUIRE(h.hears(2));
  REQUIRE(h.hears(3));
  REQUIRE(h.hears(4));
  h.decider().on_closed({1, 2}, head::now, {.made_in = 5ms});
  h.decider().on_closed({1, 3}, head::now, {.made_in = 5ms});
  h.decider().dissolve("the work is done");
  const auto told = h.last_to(4);
  REQUIRE(told);
  CHECK(told->verdict == node_verdict::dissolved);
  CHECK(h.decider().members().size() == 2);
  const auto back = h.hears(2, 2);
  REQUIRE(back);
  CHECK(back->verdict == node_verdict::dissolved);
  CHECK(h.decider().members().size() == 1);
  for (auto after = 0ms; after < 30ms; after += 1ms) {
    h.decider().on_time(head::now + after);
    h.last_to(3);
    CHECK(h.decider().members().size() == 1);
  }
  h.decider().on_time(head::now + 30ms);  // it is late
  h.last_to(3);
  CHECK(h.decider().members().empty());
}

TEST_CASE("a member of a cluster that is dissolved has come to a good end", "[life]") {
  seat one({}, {1, 2}, {.name = "n"}, head::now);
  one.take();
  one.on_bulletin({.process = {1, 2}, .head_epoch = 3, .epoch = 4, .revision = 1}, head::now);
  one.take();
  one.on_bulletin({.process = {1, 2}, .head_epoch = 3, .verdict = node_verdict::dissolved},
                  head::now);
  const auto todo = one.take();
  REQUIRE(todo.size() == 1);
  const auto* const over = std::get_if<seat::over>(&todo.front());
  REQUIRE(over != nullptr);
  CHECK_FALSE(over->why.has_value());
}

TEST_CASE("a member waits for a head that was in its driver as long as that deserves", "[life]") {
  for (const bool ends : {false, true}) {
    membership_settings with;
    with.head_wait = 60s;
    with.driver_wait = 6s;
    seat one(with, {1, 2}, {.name = "n"}, head::now);
    one.on_bulletin(
        {.process = {1, 2}, .head_epoch = 3, .epoch = 4, .revision = 1, .ends_with_driver = ends},
        head::now);
    base::time_point now = head::now;
    while (one.at() == seat::stage::member && now < head::now + 100s) {
      now += 100ms;
      one.on_time(now);
    }
    CHECK(one.at() == seat::stage::over);
    CHECK(now - head::now == (ends ? 6s : 60s));
  }
  membership_settings of_driver;
  of_driver.ends_with_driver = true;
  roll its(of_driver, {}, 0, head::now);
  its.on_written(1, head::now);
  its.take();
  its.on_look(head::heartbeat_of(9, 0));
  CHECK(std::get<bulletin>(its.take().front()).ends_with_driver);
}

TEST_CASE("a program with other functions is refused with both numbers", "[life]") {
  head of;
  const auto join = [&](std::uint64_t process, std::uint64_t functions) {
    heartbeat said = head::heartbeat_of(process, 0);
    said.who.functions = functions;
    of.decider().on_heartbeat(said, head::now);
    return of.last_to(process);
  };
  CHECK(join(2, 0)->verdict == node_verdict::member);  // it does not say
  CHECK(join(3, 0xabc)->verdict == node_verdict::member);
  CHECK(join(4, 0xabc)->verdict == node_verdict::member);
  const auto other = join(5, 0xdef);
  CHECK(other->verdict == node_verdict::refused);
  CHECK(other->reason.find("0000000000000def, not 0000000000000abc") != std::string::npos);
  CHECK(join(6, 0)->verdict == node_verdict::member);
}

TEST_CASE("who only looks is told who the members are, and is none", "[life]") {
  head of;
  const auto member = of.hears(2);
  REQUIRE(member.has_value());
  of.decider().on_look(head::heartbeat_of(9, 0));
  const auto seen = of.last_to(9);
  REQUIRE(seen.has_value());
  CHECK(seen->verdict == node_verdict::member);
  CHECK(seen->epoch != 0);
  REQUIRE(seen->changed.size() == 1);
  CHECK(seen->changed.front().who.name == "n2");
  CHECK(of.decider().members().size() == 1);
  // Again: only what is new.
  heartbeat again = head::heartbeat_of(9, seen->epoch);
  again.head_epoch = seen->head_epoch;
  again.revision = seen->revision;
  of.decider().on_look(again);
  CHECK(of.last_to(9)->changed.empty());
  again.wish = node_wish::leave;
  of.decider().on_look(again);
  CHECK(of.last_to(9)->verdict == node_verdict::ended);
}

// A connection that is reset on a long way is no death: the next one takes as long to be made.
TEST_CASE("who was long on its way may be long on its way back", "[life]") {
  head h;
  for (std::uint64_t process = 2; process < 5; ++process) REQUIRE(h.hears(process));
  roll& is = h.decider();
  is.on_closed({1, 2}, head::now, {.made_in = 20ms});
  is.on_closed({1, 3}, head::now, {.made_in = 20ms});
  is.on_closed({1, 4}, head::now, {.made_in = 250us});
  CHECK(h.left_at(head::now + 10ms) == 3);
  CHECK(h.left_at(head::now + 11ms) == 2);  // the near one
  CHECK(h.left_at(head::now + 84ms) == 2);
  is.on_heartbeat(head::heartbeat_of(2, 2), head::now + 85ms);
  CHECK(h.left_at(head::now + 89ms) == 2);
  CHECK(h.left_at(head::now + 90ms) == 1);
  CHECK(is.members().front().who.name == "n2");
  // But not longer than who is silent.
  is.on_closed({1, 2}, head::now + 91ms, {.made_in = 60s});
  CHECK(h.left_at(head::now + 3000ms) == 1);
  CHECK(h.left_at(head::now + 3091ms) == 0);
}

// A process that dies ends its connection; a reset is a path's doing more often.
TEST_CASE("who was reset has longer to come back than who has ended", "[life]") {
  head h;
  for (std::uint64_t process = 2; process < 5; ++process) REQUIRE(h.hears(process));
  roll& is = h.decider();
  is.on_closed({1, 2}, head::now, {.was_reset = true});
  is.on_closed({1, 3}, head::now, {.was_reset = true});
  is.on_closed({1, 4}, head::now, {});
  CHECK(h.left_at(head::now + 11ms) == 2);
  CHECK(h.left_at(head::now + 400ms) == 2);
  is.on_heartbeat(head::heartbeat_of(3, 3), head::now + 400ms);
  CHECK(h.left_at(head::now + 499ms) == 2);
  CHECK(h.left_at(head::now + 501ms) == 1);
  CHECK(is.members().front().who.name == "n3");
}

}  // namespace dissolve_test
