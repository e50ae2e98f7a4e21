// SPDX-License-Identifier: Apache-2.0
// What could break: a peer's bytes that are believed. It would show as a crash, as a view outside
// of the frame, or as a value outside of its range in a message that was accepted.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "wire/check.hpp"
#include "wire/message.hpp"
#include "wire/messages.hpp"
#include "wire/optioned.hpp"

namespace {

using namespace wire_test;
using Catch::Matchers::Contains;
using manta::errc;

// Where two frames differ that were made from messages which differ in one field: so the place of a
// field is found without knowing how the format lays it out.
std::size_t field_at(const frame& a, const frame& b) {
  REQUIRE(a.bytes().size() == b.bytes().size());
  for (std::size_t i = 0; i < a.bytes().size(); ++i) {
    if (a.bytes()[i] != b.bytes()[i]) return i;
  }
  FAIL("the frames are the same");
  return 0;
}

// The frame of `a` with `value` (as the format stores it) where a and b differ first.
template <class Value, class Body>
std::string refused_with(const Body& a, const Body& b, Value value) {
  frame changed = written(a);
  const std::size_t at = field_at(changed, written(b)) / sizeof(Value) * sizeof(Value);
  std::memcpy(changed.bytes().data() + at, &value, sizeof value);
  const std::string out = refused_to_read(changed.bytes());
  if (out != "accepted") CHECK_THAT(out, Contains("compare the builds"));
  return out;
}

template <class Value>
std::string options_refused(Value stored, const std::function<void(wire::options_view&)>& a,
                            const std::function<void(wire::options_view&)>& b) {
  return refused_with(optioned(a).task, optioned(b).task, stored);
}

// Everything that a reader gave lies within the limits and the frame.
void check_sane(const wire::message_view& message, bytes_view bytes) {
  const auto within = [&](bytes_view view) {
    return view.empty() || (view.data() >= bytes.data() &&
                            view.data() + view.size() <= bytes.data() + bytes.size());
  };
  const auto payload_is_sane = [&](const manta::spec::parcel_view& payload) {
    bool is_sane = within(payload.head) && payload.segments.size() <= wire::limits::segments &&
                   payload.references.size() <= wire::limits::references;
    for (const auto& one : payload.segments) is_sane = is_sane && within(one.bytes);
    return is_sane;
  };
  const auto fine =
      std::visit([](const auto& body) { return check(wire::side::reader, body); }, message.body);
  if (!fine) FAIL_CHECK(fine.error().message());
  if (const auto* task = std::get_if<wire::task_view>(&message.body)) {
    if (!payload_is_sane(task->arguments)) FAIL_CHECK("a task's payload");
  }
  if (const auto* call = std::get_if<wire::call_view>(&message.body)) {
    if (!payload_is_sane(call->arguments)) FAIL_CHECK("a call's payload");
  }
  if (const auto* spawn = std::get_if<wire::spawn_view>(&message.body)) {
    if (!payload_is_sane(spawn->arguments)) FAIL_CHECK("an actor's payload");
  }
  if (const auto* asked = std::get_if<wire::ask_view>(&message.body)) {
    if (!payload_is_sane(asked->with)) FAIL_CHECK("a question's payload");
  }
  if (const auto* item = std::get_if<wire::item_view>(&message.body)) {
    if (!payload_is_sane(item->value)) FAIL_CHECK("an item's payload");
  }
  if (show(message).size() > (std::size_t{1} << 24U)) FAIL_CHECK("a message of 16 MiB");
}

// What a reader says when every number of 16 bits in the frame of `body` is replaced, one by one.
template <class Body>
std::string said_to(const Body& body) {
  wire::message_writer writer;
  wire::message_reader reader;
  REQUIRE(writer.write({{0, 2}, 0, 0}, body));
  frame bytes(writer);
  std::string said;
  for (std::size_t at = 8; at + 2 <= bytes.bytes().size(); at += 2) {
    std::uint16_t before = 0;
    std::memcpy(&before, bytes.bytes().data() + at, 2);
    for (const std::uint16_t number :
         std::initializer_list<std::uint16_t>{0, 1, 5, 6, 64, 255, 0x2042, 0x8000, 0xffff}) {
      std::memcpy(bytes.bytes().data() + at, &number, 2);
      const auto out = reader.read(bytes.bytes());
      if (!out) said += out.error().message() + "\n";
    }
    std::memcpy(bytes.bytes().data() + at, &before, 2);
  }
  return said;
}

constexpr std::array<const char*, 47> all_words = {"kind is number 255, allowed: 0 to 11",
                                                   "outcome is number 255, allowed: 0 to 3",
                                                   "request id is zero",
                                                   "task id is zero",
                                                   "cpus is -",
                                                   "gpus is -",
                                                   "thousandths, allowed",
                                                   "memory_bytes is -",
                                                   "priority is number 254",
                                                   "max_retries is 4",
                                                   "timeout is -",
                                                   "stream_credits is 0",
                                                   "placement's rule is number",
                                                   "placement's bundle is -",
                                                   "resource's key is 0 bytes long",
                                                   "resource's amount is 0",
                                                   "label's key is 0 bytes long",
                                                   "label's value is 0 bytes long",
                                                   "function's name is 1031 bytes long",
                                                   "kind of a reference is number 255",
                                                   "segment is 8 bytes, allowed: multiples",
                                                   "segment's place is",
                                                   "alias is zero",
                                                   "alias is the task itself",
                                                   "run time is -",
                                                   "why a task is sent back is number 255",
                                                   "error's code is number 255",
                                                   "error's attempt is -",
                                                   "error's chain is 0",
                                                   "actor id is zero",
                                                   "caller id is zero",
                                                   "call number is 0",
                                                   "object id is zero",
                                                   "owner id is zero",
                                                   "peer id is zero",
                                                   "count is 0, allowed",
                                                   "kind of a change is number 255",
                                                   "group's limit is 0",
                                                   "max_restarts is 4",
                                                   "type's name is 0 bytes long",
                                                   "group's name is 1031 bytes long",
                                                   "reason of an end is number 255",
                                                   "question is number 255, allowed: 0 to 23",
                                                   "index of a gpu is -",
                                                   "stream credits is 0, allowed: 1",
                                                   "reserved name is empty",
                                                   "is no message ("};

}  // namespace

TEST_CASE("a reader refuses numbers out of range in a frame that is sound", "[wire]") {
  // 256 is what a byte would take for 0.
  for (const std::uint16_t number : {std::uint16_t{3}, std::uint16_t{256}, std::uint16_t{65534}}) {
    CHECK_THAT(options_refused(
                   static_cast<std::uint16_t>(number ^ 1U), [](auto& o) { o.priority = {}; },
                   [](auto& o) { o.priority = manta::priority::high; }),
               Contains(fmt::format("priority is number {}, allowed: 0 to 2", number)));
  }
  CHECK_THAT(options_refused(
                 std::int64_t{-1}, [](auto& o) { o.cpus = 1; }, [](auto& o) { o.cpus = 2; }),
             Contains("cpus is -1"));
  CHECK_THAT(options_refused(
                 INT64_MIN, [](auto& o) { o.timeout = manta::duration(1); },
                 [](auto& o) { o.timeout = manta::duration(2); }),
             Contains("timeout is -9223372036854775808 ns"));
  CHECK_THAT(options_refused(
                 std::uint32_t{64}, [](auto& o) { o.stream_credits = 1; },
                 [](auto& o) { o.stream_credits = 2; }),
             Contains("stream_credits is 0"));
  wire::result_view one = small_result();
  wire::result_view two = small_result();
  one.outcome = wire::held_view{{9, 9}, 1};
  two.outcome = wire::alias_view{{9, 9}};
  const std::vector<wire::cause_view> a(1, {errc::timed_out});
  const std::vector<wire::cause_view> b(1, {errc::cancelled});
  one.outcome = wire::error_view{a};
  two.outcome = wire::error_view{b};
  CHECK_THAT(refused_with(one, two, std::uint16_t{256}), Contains("error's code is number 256"));
  one.outcome = wire::alias_view{{9, 9}};
  two.outcome = wire::alias_view{{8, 9}};
  CHECK_THAT(refused_with(one, two, std::uint64_t{0}), Contains("accepted"));
  const wire::reference_change lend{{1, 1}, {2, 2}, 1, wire::change_kind::lend};
  const wire::reference_change add{{1, 1}, {2, 2}, 1, wire::change_kind::add};
  CHECK_THAT(refused_with(wire::changes_view{{&lend, 1}}, wire::changes_view{{&add, 1}},
                          std::uint16_t{256}),
             Contains("kind of a change is number 256"));
}

TEST_CASE("a frame that is cut off anywhere is refused", "[wire]") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    maker make(seed);
    wire::message_writer writer;
    REQUIRE(write(writer, make.message()));
    const frame whole(writer);
    for (std::size_t n = 0; n < whole.bytes().size(); ++n) {
      const frame cut(whole.bytes().first(n));
      if (refused_to_read(cut.bytes()) == "accepted") FAIL_CHECK("cut at " << n);
    }
  }
}

TEST_CASE("words missing in a frame whose table agrees are an error or a message", "[wire]") {
  const frame whole = written(small_call());
  wire::message_reader reader;
  int refused = 0;
  for (std::size_t n = 8; n < whole.bytes().size(); n += 8) {
    frame cut(whole.bytes().first(n));
    const auto words = static_cast<std::uint32_t>(n / 8 - 1);
    std::memcpy(cut.bytes().data() + 4, &words, sizeof words);
    const auto out = reader.read(cut.bytes());
    if (out) {
      check_sane(*out, cut.bytes());
    } else {
      ++refused;
      CHECK_THAT(out.error().message(), Contains("is no message (") || Contains("a message came"));
    }
  }
  CHECK(refused > 10);
}

TEST_CASE("every flipped bit gives an error or a message within its limits", "[wire]") {
  int accepted = 0;
  int refused = 0;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    maker make(seed);
    wire::message_writer writer;
    wire::message_reader reader;
    REQUIRE(write(writer, make.message()));
    frame bytes(writer);
    const std::size_t most = std::min<std::size_t>(bytes.bytes().size(), 2000);
    for (std::size_t bit = 0; bit < 9 * most; ++bit) {
      const auto mask = bit % 9 == 8 ? std::byte{0xff} : std::byte{1} << static_cast<int>(bit % 9);
      bytes.bytes()[bit / 9] ^= mask;
      const auto out = reader.read(bytes.bytes());
      if (out) check_sane(*out, bytes.bytes());
      ++(out ? accepted : refused);
      bytes.bytes()[bit / 9] ^= mask;
    }
  }
  CHECK(accepted > 1000);
  CHECK(refused > 1000);
}

TEST_CASE("words at random in a sound frame give an error or a message", "[wire]") {
  const std::uint64_t seed = std::random_device{}();
  CAPTURE(seed);
  maker make(seed);
  wire::message_writer writer;
  wire::message_reader reader;
  for (int round = 0; round < 3000; ++round) {
    REQUIRE(write(writer, make.message()));
    frame bytes(writer);
    for (std::uint64_t n = make.number(1, 4); n > 0; --n) {
      const std::size_t at = 8 * make.number(1, bytes.bytes().size() / 8 - 1);
      const std::size_t from = 8 * make.number(1, bytes.bytes().size() / 8 - 1);
      if (make.coin()) {
        std::memmove(bytes.bytes().data() + at, bytes.bytes().data() + from, 8);
      } else {
        const std::uint64_t word = make.number(0, UINT64_MAX) >> make.number(0, 63);
        std::memcpy(bytes.bytes().data() + at, &word, 8);
      }
    }
    const auto out = reader.read(bytes.bytes());
    if (out) check_sane(*out, bytes.bytes());
  }
}

TEST_CASE("each refusal of a reader has its own words", "[wire]") {
  // Every number of 16 bits in some frames is replaced, so that each field is out of range once,
  // wherever the format has put it; what the reader says to it is collected.
  wire::options_view options;
  const std::vector<wire::amount_view> amounts(1, {"k", 1});
  const std::vector<wire::label_view> labels(1, {"k", "v"});
  options.resources = amounts;
  options.where = {manta::placement::rule::labels, false, {}, labels, 0, -1};
  const std::vector<std::uint16_t> array(4, 7);
  const manta::spec::segment_view segment{std::as_bytes(std::span(array)), 1, 2};
  const manta::spec::reference handle{{1, 1}, {2, 2}, 3, 0, {}};
  const std::string longest(1024, 'n');
  wire::task_view task;
  task.id = {0, 6};
  task.name = longest;
  task.options = &options;
  task.arguments = {{}, {&segment, 1}, {&handle, 1}};
  wire::options_view grouped;
  grouped.where = {manta::placement::rule::group, false, {}, {}, 1, 0};
  wire::task_view other = small_task();
  other.options = &grouped;
  wire::result_view alias = small_result();
  alias.task = {0, 5};
  alias.outcome = wire::alias_view{{0, 6}};
  const wire::cause_view cause{errc::task_error, "m", true, 0, "t", "x", "f", "n"};
  wire::result_view failed = small_result();
  failed.outcome = wire::error_view{{&cause, 1}};
  wire::call_view call = small_call();
  call.actor = {0, 5};
  call.caller = {0, 7};
  const wire::put_view put{{0, 1}, {0, 1}, false, {}};
  const wire::reference_change change{{0, 1}, {0, 1}, 1, {}};
  std::string said;
  const auto collect = [&](const auto& body) { said += said_to(body); };
  collect(task);
  collect(other);
  collect(alias);
  collect(failed);
  collect(call);
  collect(put);
  collect(wire::changes_view{{&change, 1}});
  wire::spawn_view spawn = small_spawn();
  const std::string long_name(1024, 'g');
  const wire::group_view group{long_name, 1};
  spawn.groups = {&group, 1};
  const std::vector<int> gpus{1, 2};
  spawn.gpus = gpus;
  wire::options_view named;
  named.name = "n";
  spawn.options = &named;
  spawn.reserves = true;
  collect(spawn);
  for (const auto what : {wire::question::delegation, wire::question::references,
                          wire::question::array_bytes, wire::question::transfer_time}) {
    collect(wire::ask_view{what, {}});
  }
  collect(wire::item_view{});
  collect(wire::flow_view{1, 2});
  const std::string name(64, 'n');
  const wire::introduction_view who{name, longest, longest, 1, {}};
  collect(wire::heartbeat_view{{0, 1}, {}, {1, 2, manta::duration(3)}, 4, 5, who});
  const wire::member_view member{{0, 1}, 1, {}, {1, 2, manta::duration(3)}, "c", who};
  const manta::spec::node_share load{1, {1, 2, manta::duration(3)}};
  collect(wire::bulletin_view{{0, 1}, {}, 1, "r", 1, 2, {&member, 1}, 3, false, {&load, 1}});
  collect(wire::actor_end_view{{0, 1}, manta::end_reason::ended, "m"});
  for (const char* words : all_words) {
    CAPTURE(words);
    CHECK((said.find(words) != std::string::npos));
  }
}

TEST_CASE("a list in a frame that is longer than its limit is refused unread", "[wire]") {
  const std::vector<wire::reference_change> changes(wire::limits::changes, {{1, 1}, {2, 2}});
  frame bytes = written(wire::changes_view{changes});
  // The list's tag: its count in the upper 30 bits of the first half, words of each in the second.
  const std::array<std::uint32_t, 2> tag{65536U << 2U, 5};
  const std::array<std::uint32_t, 2> larger{65537U << 2U, 4};
  std::array<std::uint32_t, 2> found{};
  std::size_t at = 0;
  for (; at + 8 <= bytes.bytes().size() && found != tag; at += 8) {
    std::memcpy(found.data(), bytes.bytes().data() + at, 8);
  }
  REQUIRE(found == tag);
  std::memcpy(bytes.bytes().data() + at - 8, larger.data(), 8);
  CHECK_THAT(refused_to_read(bytes.bytes()),
             Contains("reference changes is 65537 long, allowed: 0 to 65536"));
}
