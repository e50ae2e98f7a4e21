// SPDX-License-Identifier: Apache-2.0
// A head's roll and a member's seat by themselves: what each answers to what it hears. Whole
// clusters in simulated time: test/sim/.
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "life/roll.hpp"
#include "life/seat.hpp"

namespace membership_test {

namespace {

using namespace std::chrono_literals;
using manta::base::id;
using manta::base::time_point;
using manta::life::bulletin;
using manta::life::heartbeat;
using manta::life::membership_settings;
using manta::life::roll;
using manta::life::seat;
using manta::spec::node_member;
using manta::spec::node_state;
using manta::spec::node_verdict;
using manta::spec::node_wish;

const time_point begin{1000s};

heartbeat asks(std::uint64_t process, const std::string& name) {
  heartbeat out;
  out.process = {9, process};
  out.who.name = name;
  out.who.host = "h" + std::to_string(process);
  out.who.pid = static_cast<std::uint32_t>(40 + process);
  return out;
}

// A roll with a disk that writes when it is told to.
struct head {
  explicit head(std::vector<node_member> known = {}, std::uint64_t last_epoch = 0,
                const membership_settings& with = {})
      : is(with, std::move(known), last_epoch, begin) {
    settle(begin);
  }
  /// Takes what is to be done; the rows are on the disk.
  void settle(time_point now) {
    for (std::vector<roll::action> todo = is.take(); !todo.empty(); todo = is.take()) {
      for (roll::action& one : todo) {
        if (auto* const row = std::get_if<roll::write>(&one)) {
          rows.push_back(*row);
          is.on_written(row->ticket, now);
        } else {
          said.push_back(std::get<bulletin>(std::move(one)));
        }
      }
    }
  }
  /// The newest that was said to a process, which is taken out.
  std::optional<bulletin> last_to(std::uint64_t process) {
    for (std::size_t i = said.size(); i-- > 0;) {
      if (said[i].process.low != process) continue;
      bulletin out = said[i];
      std::erase_if(said, [&](const bulletin& b) { return b.process.low == process; });
      return out;
    }
    return std::nullopt;
  }
  std::uint64_t join(std::uint64_t process, const std::string& name, time_point now) {
    is.on_heartbeat(asks(process, name), now);
    settle(now);
    const auto answer = last_to(process);
    REQUIRE(answer);
    REQUIRE(answer->verdict == node_verdict::member);
    return answer->epoch;
  }
  heartbeat of(std::uint64_t process, const std::string& name, std::uint64_t epoch) const {
    heartbeat out = asks(process, name);
    out.epoch = epoch;
    out.head_epoch = is.epoch();
    out.revision = is.revision();
    return out;
  }

  roll is;
  std::vector<roll::write> rows;
  std::vector<bulletin> said;
};

}  // namespace

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

TEST_CASE("who is silent is suspected, then ended; who speaks in between is well", "[life]") {
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
    CHECK(said->reason.find("has ended") != std::string::npos);
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
  CHECK(refusal_of(std::string("a\0b", 3)).find("has a zero byte") != std::string::npos);
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
  h.is.on_closed({9, 2}, now);
  const auto go_to = [&](manta::duration from, manta::duration to) {
    for (; from <= to; from += 10ms) h.is.on_time(now + from);
    h.settle(now + to);
  };
  go_to(0ms, 900ms);
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
  CHECK(r.take().empty());
  for (time_point now = begin + 10s; now < begin + 14900ms; now += 100ms) r.on_time(now);
  CHECK(r.members().size() == 1);
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
  bulletin all{.process = {9, 1}, .head_epoch = h.is.epoch(), .epoch = a, .revision = 1};
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
