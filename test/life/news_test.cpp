// SPDX-License-Identifier: Apache-2.0
// What a head and its members tell each other beside who is one: who waits and why, what is under
// way or lost, how often, loads; and what a stop or a bad disk of the head must not lead to.
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

TEST_CASE("who waits for its name is told who has it, and says so when the limit comes", "[life]") {
  head h;
  h.join(1, "a", begin);
  membership_settings with;
  with.join_limit = 1s;  // before the former one is declared dead
  seat s(with, {9, 2}, {.name = "a"}, begin);
  std::optional<manta::error> why;
  for (time_point now = begin; now < begin + 2s && !why; now += 10ms) {
    s.on_time(now);
    for (auto& one : s.take()) {
      if (std::holds_alternative<seat::dial>(one)) s.on_connected(now);
      if (auto* const said = std::get_if<heartbeat>(&one)) h.is.on_heartbeat(*said, now);
      if (const auto* const over = std::get_if<seat::over>(&one)) why = over->why;
    }
    h.is.on_time(now);
    h.settle(now);
    while (auto told = h.last_to(2)) s.on_bulletin(*std::move(told), now);
  }
  REQUIRE(why);
  CHECK(why->code() == manta::errc::timed_out);
  CHECK(
      why->message().find("its name a is held by pid 41 at h1, which has not been declared dead") !=
      std::string::npos);
  // While its end is being written, too.
  h.is.on_closed({9, 1}, begin + 1s);
  h.is.on_time(begin + 1015ms);
  h.is.on_heartbeat(asks(2, "a"), begin + 1020ms);
  for (const auto& one : h.is.take()) {
    const auto* const said = std::get_if<bulletin>(&one);
    if (said == nullptr) continue;
    CHECK(said->verdict == node_verdict::waits);
    CHECK(said->reason.find("has ended, which the head has yet to write") != std::string::npos);
    CHECK(said->reason.find("end that one") == std::string::npos);  // there is nobody to end
  }
}

TEST_CASE("a head refuses names that can't be one, and says why", "[life]") {
  head h;
  const auto refusal_of = [&](const std::string& name) {
    h.is.on_heartbeat(asks(5, name), begin);
    h.settle(begin);
    const auto answer = h.last_to(5);
    REQUIRE(answer);
    CHECK(answer->verdict == node_verdict::refused);
    return answer->reason;
  };
  CHECK(refusal_of("").find("its name is empty (0 bytes)") != std::string::npos);
  CHECK(refusal_of(std::string(65, 'n')).find("is too long (65 bytes); give it one of 1 to 64") !=
        std::string::npos);
  for (const std::string& odd :
       {std::string("a\0b", 3), std::string("a\nb"), std::string("\x7f")}) {
    CHECK(refusal_of(odd).find("has a control character") != std::string::npos);
  }
  CHECK(refusal_of("local").find("its name is local, by which each node means itself") !=
        std::string::npos);
  CHECK(h.rows.size() == 1);  // its own
  CHECK(h.join(6, std::string(64, 'n'), begin) == 2);
}

TEST_CASE("who lost its connection while the head was stopped has its chance", "[life]") {
  head h;
  const std::uint64_t a = h.join(1, "a", begin);
  h.join(2, "b", begin);
  h.join(3, "c", begin);
  h.is.on_time(begin + 100ms);
  h.is.on_closed({9, 3}, begin + 105ms);  // just before the stop
  // The stop's first sign is that connections have ended, whenever they did.
  const time_point now = begin + 20s;
  h.is.on_closed({9, 1}, now);
  const auto go_to = [&](manta::duration from, manta::duration to) {
    for (; from <= to; from += 10ms) h.is.on_time(now + from);
    h.settle(now + to);
  };
  go_to(0ms, 50ms);
  h.is.on_closed({9, 2}, now + 55ms);  // or they show soon after that
  go_to(60ms, 900ms);
  CHECK(h.is.members().size() == 3);
  h.is.on_heartbeat(h.of(1, "a", a), now + 900ms);
  go_to(910ms, 1140ms);
  REQUIRE(h.is.members().size() == 1);
  CHECK(h.is.members()[0].who.name == "a");
  // After that closed is closed.
  h.is.on_closed({9, 1}, now + 1150ms);
  go_to(1150ms, 1170ms);
  CHECK(h.is.members().empty());
}

TEST_CASE("a head whose disk was slow to open gives its members their time from then on",
          "[life]") {
  node_member a{.who = {.name = "a"}, .process = {9, 1}, .epoch = 7};
  roll r({}, {a}, 7, begin);
  const auto todo = r.take();
  r.on_time(begin + 9s);
  r.on_written(std::get<roll::write>(todo.front()).ticket, begin + 10s);
  r.on_time(begin + 10s + 100ms);
  for (time_point now = begin + 10200ms; now < begin + 14900ms; now += 100ms) r.on_time(now);
  for (const auto& one : r.take()) CHECK_FALSE(std::holds_alternative<roll::write>(one));
  for (time_point now = begin + 14900ms; now < begin + 15300ms; now += 100ms) r.on_time(now);
  CHECK(r.take().size() == 1);  // and no longer than that
}

TEST_CASE("of two rows with one name the newer one is a member's", "[life]") {
  // The older one was refused, as the disk failed; but it had been written.
  node_member older{.who = {.name = "a"}, .process = {9, 1}, .epoch = 7};
  node_member newer{.who = {.name = "a"}, .process = {9, 2}, .epoch = 8};
  head h({newer, older}, 8);
  REQUIRE(h.is.members().size() == 1);
  CHECK(h.is.members()[0].process.low == 2);
  CHECK((h.rows.back().member.epoch == 7 && h.rows.back().member.is == node_state::ended));
  h.is.on_heartbeat(asks(3, "a"), begin);
  h.settle(begin);
  CHECK(h.last_to(3)->verdict == node_verdict::waits);
}

TEST_CASE("what is under way is not sent again, what is lost is", "[life]") {
  head h;
  const std::uint64_t a = h.join(1, "a", begin);
  heartbeat said = h.of(1, "a", a);
  h.is.on_heartbeat(said, begin + 100ms);
  h.settle(begin + 100ms);
  h.last_to(1);
  h.join(2, "b", begin + 200ms);
  h.settle(begin + 200ms);
  REQUIRE(h.last_to(1));  // news of b
  const auto answer_at = [&](manta::duration at) {
    h.is.on_heartbeat(said, begin + at);
    h.settle(begin + at);
    return h.last_to(1)->changed.size();
  };
  CHECK(answer_at(350ms) == 0);  // not seen yet, as far as is known
  CHECK(answer_at(351ms) == 0);  // the same once more
  CHECK(answer_at(600ms) == 1);  // it was not seen
  CHECK(answer_at(601ms) == 0);
  h.is.on_connected({9, 1});
  CHECK(answer_at(602ms) == 1);  // over the new connection nothing has come
  said.revision = h.is.revision();
  CHECK(answer_at(850ms) == 0);
  said.revision = 0;  // late, from before
  CHECK(answer_at(1100ms) == 0);
}

TEST_CASE("the news of many members is told the less often, of few at once", "[life]") {
  const auto gap_of = [](std::size_t members) {
    head h;
    for (std::size_t i = 1; i <= members; ++i) h.join(i, "n" + std::to_string(i), begin);
    const time_point now = begin + 300ms;
    h.is.on_time(now);  // tells of the last one
    h.is.on_heartbeat(asks(7000, "x"), now);
    h.settle(now);
    return h.is.due() - now;
  };
  CHECK(gap_of(4) == 5ms);
  CHECK(gap_of(15) == 5ms);
  CHECK(gap_of(160) == 55ms);
}

TEST_CASE("loads come with the answers to heartbeats, and are nobody's news", "[life]") {
  head h;
  const std::uint64_t a = h.join(1, "a", begin);
  const std::uint64_t b = h.join(2, "b", begin);
  heartbeat busy = h.of(2, "b", b);
  busy.load = {3, 2, 5ms};
  const std::uint64_t before = h.is.revision();
  h.is.on_heartbeat(busy, begin + 300ms);
  h.settle(begin + 300ms);
  CHECK(h.is.revision() == before);
  h.last_to(2);
  CHECK_FALSE(h.last_to(1).value_or(bulletin{}).loads_revision > 0);  // it has not asked
  seat s({}, {9, 1}, {.name = "a"}, begin);
  bulletin all{.process = {9, 1}, .head_epoch = h.is.epoch(), .epoch = a};
  all.revision = h.is.revision();
  all.changed = {{.who = {.name = "b"}, .process = {9, 2}, .epoch = b}};
  s.on_bulletin(all, begin);
  s.take();
  heartbeat quiet = h.of(1, "a", a);
  h.is.on_heartbeat(quiet, begin + 310ms);
  h.settle(begin + 310ms);
  const auto told = h.last_to(1);
  REQUIRE(told);
  CHECK(told->changed.empty());
  REQUIRE(told->loads == std::vector<manta::spec::node_share>{{b, {3, 2, 5ms}}});
  s.on_bulletin(*told, begin + 310ms);
  CHECK(s.others().at({9, 2}).load == busy.load);
  const auto todo = s.take();
  REQUIRE(todo.size() == 1);
  CHECK(std::get<seat::loaded>(todo[0]).member.load == busy.load);
  s.on_bulletin(*told, begin + 311ms);  // twice is once
  CHECK(s.take().empty());
  quiet.loads = told->loads_revision;
  h.is.on_heartbeat(quiet, begin + 560ms);
  h.settle(begin + 560ms);
  CHECK(h.last_to(1)->loads.empty());
}

TEST_CASE("a row that comes late does not bring an old load for good", "[life]") {
  seat s({}, {9, 1}, {.name = "a"}, begin);
  node_member b{.who = {.name = "b"}, .process = {9, 2}, .epoch = 7};
  bulletin first{.process = {9, 1}, .head_epoch = 5, .epoch = 6, .revision = 10, .changed = {b}};
  s.on_bulletin(first, begin);
  // Then b is suspected, which is late; then it has another load, which is told behind that.
  b.is = node_state::suspected;
  bulletin late{.process = {9, 1}, .head_epoch = 5, .epoch = 6, .since = 10, .revision = 11};
  late.changed = {b};
  bulletin next{.process = {9, 1}, .head_epoch = 5, .epoch = 6, .since = 11, .revision = 11};
  next.loads_revision = 3;
  next.loads = {{7, {4, 4, 4ns}}};
  s.on_bulletin(next, begin);
  s.on_bulletin(late, begin);
  s.on_bulletin(next, begin);  // as it did not say that it has those
  CHECK(s.others().at({9, 2}).load == next.loads[0].load);
  CHECK(s.others().at({9, 2}).is == node_state::suspected);
}

TEST_CASE("a process that joins twice, as the disk had failed, is known by the second time",
          "[life]") {
  seat s({}, {9, 1}, {.name = "a"}, begin);
  node_member b{.who = {.name = "b"}, .process = {9, 2}, .epoch = 7};
  node_member again = b;
  again.epoch = 9;
  bulletin news{.process = {9, 1}, .head_epoch = 5, .epoch = 6, .revision = 10};
  news.changed = {b, again};
  s.on_bulletin(news, begin);
  b.is = node_state::ended;
  bulletin end{.process = {9, 1}, .head_epoch = 5, .epoch = 6, .since = 10, .revision = 11};
  end.changed = {b};
  end.loads_revision = 1;
  end.loads = {{9, {1, 1, 1ns}}};
  s.on_bulletin(end, begin);
  CHECK(s.of({9, 2}, 9) == seat::worth::good);
  CHECK(s.others().at({9, 2}).load.queued == 1);
  // To the head, too: the end of its first row is not its own.
  b.is = node_state::alive;
  head h({b, again}, 9);
  for (const bulletin& one : h.said) CHECK(one.verdict == node_verdict::member);
  h.is.on_heartbeat(h.of(2, "b", 9), begin);
  h.settle(begin);
  CHECK(h.last_to(2)->verdict == node_verdict::member);
}

TEST_CASE("a process that ended before it knew its epoch is told so by the next head, too",
          "[life]") {
  node_member ended{.who = {.name = "a"}, .process = {9, 1}, .epoch = 7};
  ended.is = node_state::ended;
  ended.cause = "it said nothing";
  node_member alive{.who = {.name = "b"}, .process = {9, 2}, .epoch = 6};
  head h({ended, alive}, 7);
  CHECK(h.is.members().size() == 1);
  h.is.on_heartbeat(asks(1, "a"), begin);
  h.settle(begin);
  const auto answer = h.last_to(1);
  REQUIRE(answer);
  CHECK((answer->verdict == node_verdict::ended && answer->reason == "it said nothing"));
  CHECK(h.join(3, "a", begin) == 9);  // its name is free
}

TEST_CASE("a refusal that comes late does not end a member", "[life]") {
  seat s({}, {9, 1}, {.name = "a"}, begin);
  s.on_bulletin({.process = {9, 1}, .head_epoch = 5, .epoch = 6, .revision = 10}, begin);
  const bulletin late{.process = {9, 1}, .head_epoch = 5, .verdict = node_verdict::refused};
  s.on_bulletin(late, begin);
  CHECK(s.at() == seat::stage::member);
}

TEST_CASE("where many live each one's load is told less often", "[life]") {
  const auto told_of = [](std::size_t members) {
    head h;
    for (std::size_t i = 1; i <= members; ++i) h.join(i, "n" + std::to_string(i), begin);
    std::size_t told = 0;
    std::uint64_t has = 0;
    for (int beat = 1; beat <= 16; ++beat) {
      const time_point now = begin + beat * 250ms;
      heartbeat busy = h.of(1, "n1", 2);
      busy.load.queued = static_cast<std::uint32_t>(beat);
      h.is.on_heartbeat(busy, now);
      heartbeat other = h.of(2, "n2", 3);
      other.loads = has;
      h.is.on_heartbeat(other, now);
      h.settle(now);
      const auto answer = h.last_to(2);
      told += answer->loads.size();
      has = answer->loads_revision;
      h.said.clear();
    }
    return told;
  };
  CHECK(told_of(10) == 16);
  CHECK(told_of(256) == 4);
}

TEST_CASE("a head gives no epoch twice, though it finds a last one that is too small", "[life]") {
  head h({{.who = {.name = "a"}, .process = {9, 1}, .epoch = 9}}, 2);
  CHECK(h.is.epoch() == 10);
  CHECK(h.join(2, "b", begin) == 11);
}

TEST_CASE("who only joins has its own limit, not that of members", "[life]") {
  membership_settings with;
  with.head_wait = 1s;
  with.join_limit = 3s;
  seat s(with, {9, 1}, {.name = "a"}, begin);
  time_point now = begin;
  for (; s.at() == seat::stage::joining && now < begin + 10s; now += 50ms) s.on_time(now);
  CHECK((now - begin > 2900ms && now - begin < 3200ms));
}

}  // namespace membership_test
