// SPDX-License-Identifier: Apache-2.0
// A head's roll and a member's seat by themselves: what each answers to what it hears. Whole
// clusters in simulated time: test/sim/.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "life/support.hpp"

namespace membership_test {

TEST_CASE("an epoch is on the disk before it is told, and is given once", "[life]") {
  roll r({}, {}, 41, begin);
  CHECK(r.epoch() == 42);
  r.on_heartbeat(asks(1, "a"), begin);
  auto todo = r.take();
  REQUIRE(todo.size() == 1);  // nobody is heard before the head's own epoch is safe
  const auto own = std::get<roll::write>(todo[0]);
  CHECK((!own.has_member && own.last_epoch == 42));
  r.on_written(own.ticket, begin);
  r.on_heartbeat(asks(1, "a"), begin);
  r.on_heartbeat(asks(1, "a"), begin);  // twice is once
  r.on_heartbeat(asks(2, "b"), begin);
  todo = r.take();
  REQUIRE(todo.size() == 2);
  const auto first = std::get<roll::write>(todo[0]);
  const auto second = std::get<roll::write>(todo[1]);
  CHECK((first.member.epoch == 43 && second.member.epoch == 44 && second.last_epoch == 44));
  r.on_written(second.ticket, begin);
  todo = r.take();
  REQUIRE_FALSE(todo.empty());
  for (const auto& one : todo) CHECK(std::get<bulletin>(one).process.low == 2);
  r.on_not_written(first.ticket, "the disk is full", begin + 1s);
  todo = r.take();
  REQUIRE_FALSE(todo.empty());
  const auto refused = std::get<bulletin>(todo[0]);
  CHECK((refused.process.low == 1 && refused.verdict == node_verdict::refused));
  CHECK(refused.reason.find("the disk is full") != std::string::npos);
}

TEST_CASE("who is silent is suspected, then ended, who speaks in between is well", "[life]") {
  head h;
  const std::uint64_t a = h.join(1, "a", begin);
  h.join(2, "b", begin);
  time_point now = begin;
  const auto go_to = [&](manta::duration at) {
    for (; now < begin + at; now += 50ms) {
      h.is.on_heartbeat(h.of(1, "a", a), now);
      h.is.on_time(now);
      h.settle(now);
    }
  };
  const auto state_of_b = [&] {
    for (const node_member& one : h.is.members()) {
      if (one.who.name == "b") return one.is;
    }
    return node_state::ended;
  };
  go_to(900ms);
  CHECK(state_of_b() == node_state::alive);
  go_to(1200ms);
  CHECK(state_of_b() == node_state::suspected);
  h.is.on_heartbeat(h.of(2, "b", 3), now);
  CHECK(state_of_b() == node_state::alive);
  go_to(1200ms + 2900ms);
  CHECK(state_of_b() == node_state::suspected);
  go_to(1200ms + 3200ms);
  CHECK(state_of_b() == node_state::ended);
  // Its end is in the disk's last row, and is all that it ever hears again.
  CHECK((h.rows.back().member.who.name == "b" && h.rows.back().member.is == node_state::ended));
  h.last_to(2);
  h.is.on_heartbeat(h.of(2, "b", 3), now);
  h.is.on_heartbeat(asks(2, "b"), now);
  h.settle(now);
  for (const bulletin& one : h.said) {
    if (one.process.low == 2) CHECK(one.verdict == node_verdict::ended);
  }
  REQUIRE(h.last_to(2));
  CHECK(h.join(3, "b", now) > 3);  // its name is free
}

TEST_CASE("a closed connection ends a member at once, unless it makes another", "[life]") {
  head h;
  const std::uint64_t a = h.join(1, "a", begin);
  h.join(2, "b", begin);
  h.is.on_closed({9, 1}, begin + 10ms);
  h.is.on_closed({9, 2}, begin + 10ms);
  CHECK(h.is.due() <= begin + 20ms);
  h.is.on_heartbeat(h.of(1, "a", a), begin + 15ms);
  h.is.on_time(begin + 21ms);
  h.settle(begin + 21ms);
  REQUIRE(h.is.members().size() == 1);
  CHECK(h.is.members()[0].who.name == "a");
  const auto told = h.last_to(1);
  REQUIRE(told);
  REQUIRE(told->changed.size() == 1);
  CHECK((told->changed[0].is == node_state::ended && told->changed[0].who.name == "b"));
}

TEST_CASE("a head that was stopped blames nobody for it", "[life]") {
  head h;
  h.join(1, "a", begin);
  h.is.on_time(begin + 100ms);
  h.is.on_time(begin + 60s);
  h.settle(begin + 60s);
  REQUIRE(h.is.members().size() == 1);
  CHECK(h.is.members()[0].is == node_state::alive);
}

TEST_CASE("what was said during a head's stop does not count as said later", "[life]") {
  head h;
  const std::uint64_t a = h.join(1, "a", begin);
  h.is.on_time(begin + 100ms);
  // It dies during the stop; what it had said is heard when the head goes on.
  time_point now = begin + 60s;
  h.is.on_heartbeat(h.of(1, "a", a), now);
  h.is.on_time(now);
  for (; h.is.members().size() == 1 && now < begin + 100s; now += 50ms) {
    h.is.on_heartbeat(asks(2, "a"), now);
    h.is.on_time(now);
    h.settle(now);
  }
  CHECK(now - (begin + 60s) < 3300ms);
  const auto answer = h.last_to(2);  // its successor was not refused
  REQUIRE(answer);
  CHECK((answer->verdict == node_verdict::member || answer->verdict == node_verdict::waits));
}

TEST_CASE("a head and its members that all begin anew find each other", "[life]") {
  const membership_settings with;
  node_member old{.who = {.name = "a"}, .process = {9, 1}, .epoch = 7};
  head h({old}, 7);
  seat s(with, {9, 2}, {.name = "a"}, begin);
  for (time_point now = begin; now < begin + 10s && s.at() == seat::stage::joining; now += 10ms) {
    s.on_time(now);
    for (auto& one : s.take()) {
      if (std::holds_alternative<seat::dial>(one)) s.on_connected(now);
      if (auto* const said = std::get_if<heartbeat>(&one)) h.is.on_heartbeat(*said, now);
    }
    h.is.on_time(now);
    h.settle(now);
    while (auto told = h.last_to(2)) s.on_bulletin(*std::move(told), now);
  }
  CHECK(s.at() == seat::stage::member);
}

TEST_CASE("a head whose disk refuses tries again at its pace, and nobody comes back", "[life]") {
  roll r({}, {}, 1, begin);
  int writes = 0;
  for (time_point now = begin; now < begin + 1s; now += 10ms) {
    for (const auto& one : r.take()) {
      r.on_not_written(std::get<roll::write>(one).ticket, "the disk is full", now);
      ++writes;
    }
    r.on_time(now);
  }
  CHECK((writes > 3 && writes < 15));
  head h;
  h.join(1, "a", begin);
  h.is.on_closed({9, 1}, begin + 1ms);
  h.is.on_time(begin + 20ms);
  auto todo = h.is.take();
  REQUIRE(todo.size() == 1);
  h.is.on_not_written(std::get<roll::write>(todo[0]).ticket, "the disk is full", begin + 20ms);
  h.is.on_heartbeat(asks(1, "a"), begin + 30ms);
  CHECK(h.is.take().empty());
  h.is.on_time(begin + 300ms);
  h.settle(begin + 300ms);
  CHECK(h.is.members().empty());
}

TEST_CASE("a process that was stopped with its head finds it again", "[life]") {
  membership_settings with;
  with.head_wait = 5s;
  seat s(with, {9, 1}, {.name = "a"}, begin);
  s.on_time(begin);
  s.on_connected(begin);
  bulletin b{.process = {9, 1}, .head_epoch = 5, .epoch = 6, .revision = 10};
  b.changed.push_back({.who = {.name = "a"}, .process = {9, 1}, .epoch = 6});
  s.on_bulletin(b, begin);
  s.on_time(begin + 250ms);
  s.on_time(begin + 60s);
  CHECK(s.at() == seat::stage::member);
  time_point now = begin + 60s;
  for (; s.at() == seat::stage::member && now < begin + 80s; now += 100ms) s.on_time(now);
  CHECK(s.at() == seat::stage::over);  // nobody is there any more
}

TEST_CASE("the name of a living member is refused, that of a dead one is not", "[life]") {
  head h;
  const std::uint64_t a = h.join(1, "a", begin);
  h.is.on_heartbeat(asks(2, "a"), begin + 10ms);
  h.settle(begin + 10ms);
  CHECK(h.last_to(2)->verdict == node_verdict::waits);  // nobody knows yet
  time_point now = begin + 10ms;
  for (int i = 0; i < 4; ++i) {
    now += 250ms;
    h.is.on_heartbeat(h.of(1, "a", a), now);
    h.is.on_heartbeat(asks(2, "a"), now);
    h.settle(now);
  }
  const auto answer = h.last_to(2);
  REQUIRE(answer);
  CHECK(answer->verdict == node_verdict::refused);
  CHECK(answer->reason.find("the name a is that of a living member") != std::string::npos);
}

TEST_CASE("connections that fail late do not look like a stop of the one who makes them",
          "[life]") {
  membership_settings with;
  with.join_limit = 8s;
  seat s(with, {9, 1}, {.name = "a"}, begin);
  time_point now = begin;
  time_point dialled = begin;
  bool is_connected = false;
  for (; s.at() == seat::stage::joining && now < begin + 60s; now += 10ms) {
    if (is_connected && now - dialled >= 600ms) {
      is_connected = false;
      s.on_closed(now);
    }
    if (now >= s.due()) s.on_time(now);
    for (const auto& one : s.take()) {
      if (!std::holds_alternative<seat::dial>(one)) continue;
      dialled = now;
      is_connected = true;
      s.on_connected(now);
    }
  }
  CHECK(now - begin <= 8100ms);
}

TEST_CASE("a process that is told to leave when it wakes has the time that it is given", "[life]") {
  seat s({}, {9, 1}, {.name = "a"}, begin);
  s.on_time(begin);
  s.on_connected(begin);
  s.on_bulletin({.process = {9, 1}, .head_epoch = 5, .epoch = 6, .revision = 10}, begin);
  s.on_closed(begin + 250ms);  // with a connection its next heartbeat would hide how late it is
  time_point now = begin + 30s;
  s.drain(2s, now);
  for (; s.at() != seat::stage::leaving && now < begin + 60s; now += 50ms) s.on_time(now);
  CHECK(now - (begin + 30s) <= 2100ms);
}

TEST_CASE("a head that is started again finds its members and gives them time", "[life]") {
  node_member a{.who = {.name = "a"}, .process = {9, 1}, .epoch = 7};
  head h({a}, 7);
  CHECK(h.is.epoch() == 8);
  h.is.on_time(begin + 4900ms);
  h.settle(begin + 4900ms);
  CHECK(h.is.members().size() == 1);
  heartbeat back = asks(1, "a");
  back.epoch = 7;
  back.head_epoch = 3;  // it has followed the former one
  back.revision = 99;
  h.is.on_heartbeat(back, begin + 4900ms);
  h.settle(begin + 4900ms);
  const auto told = h.last_to(1);
  REQUIRE(told);
  CHECK((told->verdict == node_verdict::member && told->since == 0 && told->changed.size() == 1));
  CHECK(h.join(2, "b", begin + 5s) == 9);
}

// Who listens is dialled at once: others may be heard before the member that is where the head is.
TEST_CASE("nobody becomes a member before the head's own process", "[life]") {
  membership_settings with;
  with.host = {9, 1};
  head h({}, 0, with);
  const auto says = [&](std::uint64_t process, const std::string& name, std::uint64_t functions) {
    heartbeat out = asks(process, name);
    out.who.functions = functions;
    h.is.on_heartbeat(out, begin);
    h.settle(begin);
  };
  says(2, "other program", 7);
  says(3, "node", 8);
  says(3, "node", 8);
  says(4, "has gone", 8);
  h.is.on_closed({9, 4}, begin);
  CHECK(h.is.members().empty());
  CHECK(h.said.empty());
  says(1, "host", 8);
  REQUIRE(h.is.members().size() == 2);
  CHECK(h.is.members()[0].who.name == "host");
  CHECK(h.is.members()[1].who.name == "node");
  const auto refused = h.last_to(2);
  REQUIRE(refused);
  CHECK(refused->verdict == node_verdict::refused);
  const auto let_in = h.last_to(3);
  REQUIRE(let_in);
  CHECK(let_in->verdict == node_verdict::member);
  CHECK(h.join(5, "later", begin) > 2);
}

TEST_CASE("a seat takes the newest word of the newest head", "[life]") {
  seat s({}, {9, 1}, {.name = "a"}, begin);
  s.on_time(begin);
  s.on_connected(begin);
  s.take();
  bulletin b{.process = {9, 1}, .head_epoch = 5, .epoch = 6, .revision = 10};
  b.changed.push_back({.who = {.name = "a"}, .process = {9, 1}, .epoch = 6});
  b.changed.push_back({.who = {.name = "b"}, .process = {9, 2}, .epoch = 4});
  s.on_bulletin(b, begin);
  CHECK((s.at() == seat::stage::member && s.epoch() == 6 && s.revision() == 10));
  CHECK(s.of({9, 2}, 4) == seat::worth::good);
  CHECK(s.of({9, 2}, 3) == seat::worth::stale);
  CHECK(s.of({9, 3}, 5) == seat::worth::stale);
  CHECK(s.of({9, 3}, 7) == seat::worth::early);
  // With a gap, late, of a former head, for another process: none of these counts.
  bulletin c{.process = {9, 1}, .head_epoch = 5, .epoch = 6, .since = 12, .revision = 13};
  c.changed.push_back(
      {.who = {.name = "b"}, .process = {9, 2}, .epoch = 4, .is = node_state::ended});
  s.on_bulletin(c, begin);
  c.since = 2;
  c.revision = 9;
  s.on_bulletin(c, begin);
  c.revision = 20;
  c.head_epoch = 4;
  s.on_bulletin(c, begin);
  c.head_epoch = 5;
  c.process = {9, 2};
  s.on_bulletin(c, begin);
  CHECK(s.of({9, 2}, 4) == seat::worth::good);
  c.process = {9, 1};
  s.on_bulletin(c, begin);
  CHECK(s.of({9, 2}, 4) == seat::worth::stale);
  s.on_bulletin({.process = {9, 1},
                 .head_epoch = 5,
                 .verdict = node_verdict::ended,
                 .epoch = 6,
                 .reason = "it said nothing"},
                begin);
  CHECK(s.at() == seat::stage::over);
  const auto todo = s.take();
  const auto& over = std::get<seat::over>(todo.back());
  REQUIRE(over.why);
  CHECK(over.why->code() == manta::errc::node_lost);
}

// Where the head was started again all that it tells at first are those that live.
TEST_CASE("a seat hears once of who has ended before it was told of him", "[life]") {
  seat s({}, {9, 1}, {.name = "a"}, begin);
  s.on_time(begin);
  s.on_connected(begin);
  bulletin b{.process = {9, 1}, .head_epoch = 5, .epoch = 6, .revision = 10};
  b.changed.push_back({.who = {.name = "a"}, .process = {9, 1}, .epoch = 6});
  s.on_bulletin(b, begin);
  s.take();
  const auto ends = [&](std::uint64_t epoch, std::uint64_t revision) {
    bulletin c{.process = {9, 1}, .head_epoch = 5, .epoch = 6, .since = 10, .revision = revision};
    c.changed.push_back(
        {.who = {.name = "b"}, .process = {9, epoch}, .epoch = epoch, .is = node_state::ended});
    s.on_bulletin(c, begin);
    std::vector<std::uint64_t> told;
    for (const seat::action& one : s.take()) {
      const auto* const is = std::get_if<seat::changed>(&one);
      if (is != nullptr && is->member.is == node_state::ended) told.push_back(is->member.epoch);
    }
    return told;
  };
  CHECK(ends(8, 11) == std::vector<std::uint64_t>{8});
  CHECK(s.of({9, 8}, 8) == seat::worth::stale);
  CHECK(ends(8, 12).empty());  // again, with the next change
  CHECK(ends(7, 13).empty());  // he joined before that one: nobody waits for him
  CHECK(ends(4, 14).empty());
}

TEST_CASE("a seat without a head says so in time, and looks for it meanwhile", "[life]") {
  membership_settings with;
  with.join_limit = 2s;
  seat s(with, {9, 1}, {.name = "a"}, begin);
  int dials = 0;
  std::optional<manta::error> why;
  for (time_point now = begin; now < begin + 3s && !why; now += 1ms) {
    if (now < s.due()) continue;
    s.on_time(now);
    for (const auto& one : s.take()) {
      if (std::holds_alternative<seat::dial>(one)) ++dials;
      if (const auto* const over = std::get_if<seat::over>(&one)) why = over->why;
    }
  }
  REQUIRE(why);
  CHECK(why->code() == manta::errc::timed_out);
  CHECK((dials > 5 && dials < 20));  // each time later
}

}  // namespace membership_test
