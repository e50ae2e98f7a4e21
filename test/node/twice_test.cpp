// SPDX-License-Identifier: Apache-2.0
// Every message that is handled twice is handled once. The list of messages comes from the schema,
// so one that is new fails here until it is said what makes that true of it; those whose answer is
// a state are driven, twice beside once.
#include <algorithm>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <capnp/schema.h>
#include <catch2/catch.hpp>
#include <wire/protocol.capnp.h>

#include "exec/support.hpp"
#include "life/roll.hpp"
#include "life/seat.hpp"

namespace twice_test {

namespace {

using namespace manta::life;
using manta::spec::node_member;
using manta::spec::node_state;
using manta::spec::node_verdict;
using manta::spec::node_wish;
using manta_test::dice;
using namespace std::chrono_literals;
namespace base = manta::base;

enum class because {
  request,  // it goes through wire/courier.hpp, which has each handled once, whatever it says
  state,    // it says all that there is to say, and the newest counts
};

// While it goes through rings only, which repeat nothing, a request is what it will be over
// sockets.
const std::map<std::string, because> meanings = {
    {"task", because::request},     {"result", because::request},     {"call", because::request},
    {"put", because::request},      {"references", because::request}, {"spawn", because::request},
    {"actorEnd", because::request}, {"ask", because::request},        {"item", because::request},
    {"flow", because::request},     {"heartbeat", because::state},    {"bulletin", because::state}};

// A head, all of whose rows are on the disk when it asks.
struct head {
  head() : is({}, {}, 0, base::time_point(1h)) { settle(); }

  void settle() {
    for (auto todo = is.take(); !todo.empty(); todo = is.take()) {
      for (const roll::action& one : todo) {
        if (const auto* const row = std::get_if<roll::write>(&one)) {
          is.on_written(row->ticket, now);
          rows.push_back(row->member);
        } else {
          said.push_back(std::get<bulletin>(one));
        }
      }
    }
  }
  void hear(const heartbeat& one, base::time_point at) {
    now = at;
    is.on_heartbeat(one, at);
    settle();
    is.on_time(at);
    settle();
  }
  /// What is known of it from outside: its members, and what it has written, in order.
  std::vector<node_member> members() const {
    std::vector<node_member> out = is.members();
    std::ranges::sort(out, {}, &node_member::epoch);
    return out;
  }

  base::time_point now{1h};
  roll is;
  std::vector<node_member> rows;
  std::vector<bulletin> said;
};

heartbeat some_heartbeat(dice& roll, const head& of) {
  const std::uint64_t who = 1 + roll.below(6);
  heartbeat out;
  out.process = {7, who};
  out.who = {.name = "n" + std::to_string(roll.one_in(8) ? 1 + roll.below(6) : who), .host = "h"};
  for (const node_member& one : of.members()) {
    if (one.process == out.process) out.epoch = one.epoch;
  }
  if (roll.one_in(10)) out.epoch = roll.below(5);
  out.wish = static_cast<node_wish>(roll.one_in(4) ? roll.below(3) : 0);
  out.load.queued = static_cast<std::uint32_t>(roll.below(3));
  out.head_epoch = of.is.epoch();
  out.revision = roll.below(of.is.revision() + 1);
  return out;
}

// What a process has of its cluster, and all that it was told of others.
struct process {
  process() : is({}, {7, 1}, {.name = "n1"}, base::time_point(1h)) {}

  void hear(const bulletin& one, base::time_point at) {
    is.on_bulletin(one, at);
    for (const seat::action& did : is.take()) {
      if (const auto* const joined = std::get_if<seat::joined>(&did))
        epochs.push_back(joined->epoch);
      if (const auto* const other = std::get_if<seat::changed>(&did))
        changes.push_back(other->member);
      if (std::holds_alternative<seat::over>(did)) ++ends;
    }
  }

  seat is;
  std::vector<std::uint64_t> epochs;
  std::vector<node_member> changes;
  int ends = 0;
};

}  // namespace

TEST_CASE("of each message of the schema it is said why twice is once", "[wire][life]") {
  std::vector<std::string> unsaid;
  std::size_t count = 0;
  for (const auto field : capnp::Schema::from<manta_wire_schema::Message>().getUnionFields()) {
    ++count;
    const std::string name = field.getProto().getName().cStr();
    if (!meanings.contains(name)) unsaid.push_back(name);
  }
  CAPTURE(unsaid);
  CHECK(unsaid.empty());
  CHECK(count == meanings.size());
}

TEST_CASE("a head that hears each heartbeat twice does what one does that hears it once",
          "[life]") {
  const std::uint64_t seed = manta_test::run_seed();
  CAPTURE(seed);
  dice roll(seed);
  std::size_t rows = 0;
  const int runs = manta_test::repeats(100, 5000);
  for (int run = 0; run < runs; ++run) {
    head once;
    head twice;
    base::time_point now{1h};
    for (int i = 0; i < 60; ++i) {
      now += std::chrono::milliseconds(20 + roll.below(200));
      const heartbeat one = some_heartbeat(roll, once);
      once.hear(one, now);
      twice.hear(one, now);
      twice.hear(one, now);
      REQUIRE(once.members() == twice.members());
      REQUIRE(once.rows == twice.rows);
    }
    rows += once.rows.size();
  }
  CHECK(rows > 5 * static_cast<std::size_t>(runs));
}

TEST_CASE("a member that hears each bulletin twice does what one does that hears it once",
          "[life]") {
  const std::uint64_t seed = manta_test::run_seed();
  CAPTURE(seed);
  dice roll(seed);
  std::size_t changes = 0;
  const int runs = manta_test::repeats(100, 5000);
  for (int run = 0; run < runs; ++run) {
    head from;
    process once;
    process twice;
    base::time_point now{1h};
    for (int i = 0; i < 60; ++i) {
      now += std::chrono::milliseconds(20 + roll.below(200));
      from.said.clear();
      heartbeat said = some_heartbeat(roll, from);
      if (roll.one_in(2)) {
        said.process = {7, 1};
        said.who.name = "n1";
        said.epoch = once.is.epoch();
        said.wish = node_wish::stay;
        said.revision = once.is.revision();
        said.head_epoch = once.is.head_epoch();
      }
      from.hear(said, now);
      for (const bulletin& one : from.said) {
        if (one.process != base::id{7, 1}) continue;
        once.hear(one, now);
        twice.hear(one, now);
        twice.hear(one, now);
      }
      REQUIRE(once.is.at() == twice.is.at());
      REQUIRE(once.is.revision() == twice.is.revision());
      REQUIRE(once.is.others() == twice.is.others());
      REQUIRE(once.changes == twice.changes);
      REQUIRE(once.epochs == twice.epochs);
      REQUIRE(once.ends == twice.ends);
    }
    changes += once.changes.size();
  }
  CHECK(changes > 5 * static_cast<std::size_t>(runs));
}

}  // namespace twice_test
