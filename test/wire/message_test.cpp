// SPDX-License-Identifier: Apache-2.0
// What could break: a field that is forgotten on one side, or a limit that is off by one. The first
// shows as two texts that differ. What a peer makes of a frame is hostile_frame_test's.
#include "wire/message.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "wire/check.hpp"
#include "wire/messages.hpp"
#include "wire/optioned.hpp"

namespace {

using namespace wire_test;
using Catch::Matchers::Contains;
using manta::errc;

template <class Body>
std::string refused_to_write(const Body& body, const wire::envelope& with = head) {
  wire::message_writer writer;
  const auto out = writer.write(with, body);
  if (out) return "accepted";
  CHECK(out.error().code() == errc::invalid_argument);
  CHECK_THAT(out.error().message(), Contains("change it before it is sent"));
  CHECK(writer.pieces().empty());
  CHECK(writer.size_bytes() == 0);
  return out.error().message();
}

std::string options_refused(const std::function<void(wire::options_view&)>& change) {
  return refused_to_write(optioned(change).task);
}

}  // namespace

TEST_CASE("every message comes back with every field", "[wire]") {
  const std::uint64_t first = std::random_device{}();
  wire::message_writer writer;
  wire::message_reader reader;
  std::array<int, std::variant_size_v<wire::body_view>> kinds{};
  for (std::uint64_t seed = first; seed < first + 600; ++seed) {
    CAPTURE(seed);
    maker make(seed);
    const wire::message_view message = make.message();
    const auto out = write(writer, message);
    if (!out) FAIL(out.error().message());
    const frame bytes(writer);
    const auto back = reader.read(bytes.bytes());
    if (!back) FAIL(back.error().message());
    if (show(*back) != show(message)) FAIL(show(message) << "\ncame back as\n" << show(*back));
    ++kinds[message.body.index()];
  }
  for (const int count : kinds) CHECK(count > 20);
}

TEST_CASE("a message of defaults is one piece and keeps its defaults", "[wire]") {
  wire::message_writer writer;
  wire::message_reader reader;
  REQUIRE(writer.write(head, small_task()));
  REQUIRE(writer.pieces().size() == 1);
  CHECK(writer.pieces()[0].size() == writer.size_bytes());
  const auto back = reader.read(writer.pieces()[0]);
  REQUIRE(back);
  CHECK(std::get<wire::task_view>(back->body).options == nullptr);
  CHECK(back->head.epoch == 3);
  const optioned plain([](auto&) {});
  REQUIRE(writer.write(head, plain.task));
  const auto again = reader.read(writer.pieces()[0]);
  REQUIRE(again);
  CHECK(show(std::get<wire::task_view>(again->body).options) == show(plain.task.options));
}

TEST_CASE("a writer leaves nothing of a message to the next ones", "[wire]") {
  wire::message_writer writer(256);
  const frame fresh = written(small_task());
  for (std::uint64_t seed = 1; seed < 100; ++seed) {
    CAPTURE(seed);
    maker make(seed);
    REQUIRE(write(writer, make.message()));
    REQUIRE(writer.write(head, small_task()));
    REQUIRE(writer.size_bytes() == fresh.bytes().size());
    REQUIRE(show(frame(writer).bytes()) == show(fresh.bytes()));
  }
  writer.clear();
  CHECK(writer.pieces().empty());
  CHECK(writer.size_bytes() == 0);
}

TEST_CASE("a large range is hung in and not copied, and read at a multiple of 64", "[wire]") {
  std::vector<double> large(10001, 0.5);
  std::vector<std::uint8_t> odd(77, 9);
  const std::vector<manta::spec::segment_view> segments = {
      {std::as_bytes(std::span(large)), 11, 8},
      {std::as_bytes(std::span(odd)), 12, 1},
      {{}, 13, 4},
      {std::as_bytes(std::span(odd)).subspan(3), 14, 1}};
  wire::task_view task = small_task();
  task.arguments.segments = segments;
  wire::message_writer writer;
  REQUIRE(writer.write(head, task));
  const auto is_piece = [&](bytes_view bytes) {
    return std::any_of(writer.pieces().begin(), writer.pieces().end(), [&](bytes_view piece) {
      return piece.data() == bytes.data() && piece.size() == bytes.size();
    });
  };
  CHECK(is_piece(segments[0].bytes));
  CHECK(is_piece(segments[1].bytes));
  CHECK_FALSE(is_piece(segments[3].bytes));  // begins at no word, so it is copied
  const frame bytes(writer);
  wire::message_reader reader;
  const auto back = reader.read(bytes.bytes());
  REQUIRE(back);
  const auto& read = std::get<wire::task_view>(back->body).arguments.segments;
  REQUIRE(read.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(show(read[i].bytes) == show(segments[i].bytes));
    CHECK((i == 2 || reinterpret_cast<std::uintptr_t>(read[i].bytes.data()) % 64 == 0));
  }
  CHECK(read[0].bytes.data() > bytes.bytes().data());
  CHECK(read[0].bytes.data() < bytes.bytes().data() + bytes.bytes().size());
  const frame shifted(writer, 8);
  CHECK_THAT(refused_to_read(shifted.bytes()),
             Contains("segment's place is 8 bytes behind a multiple of 64"));
}

TEST_CASE("a handle of this process does not travel", "[wire]") {
  const std::vector<manta::spec::reference> references = {{{1, 2}, {3, 4}, 5, 0xdead, {}}};
  wire::task_view task = small_task();
  task.arguments.references = references;
  wire::message_reader reader;
  const frame bytes = written(task);
  const auto back = reader.read(bytes.bytes());
  REQUIRE(back);
  const auto& read = std::get<wire::task_view>(back->body).arguments.references;
  REQUIRE(read.size() == 1);
  CHECK(read[0].local == 0);
  CHECK(read[0].what == references[0].what);
}

TEST_CASE("texts for people are cut at their limit, with a mark", "[wire]") {
  wire::message_reader reader;
  for (const std::size_t size : {0U, 1U, 1023U, 1024U, 1025U, 5000U}) {
    CAPTURE(size);
    const std::string name(size, 'n');
    wire::task_view task = small_task();
    task.name = name;
    const frame bytes = written(task);
    const auto back = reader.read(bytes.bytes());
    REQUIRE(back);
    const auto read = std::get<wire::task_view>(back->body).name;
    if (size <= 1024) {
      CHECK(read == name);
    } else {
      CHECK(read.size() == 1024);
      CHECK_THAT(std::string(read),
                 Catch::Matchers::EndsWith(fmt::format("nnn... [cut, of {} bytes]", size)));
    }
  }
}

TEST_CASE("a cut text does not end within a character", "[wire]") {
  std::string text;
  while (text.size() < 9000) text += "\xe2\x82\xac";  // three bytes
  for (std::size_t shift = 0; shift < 3; ++shift) {
    const std::string shifted = std::string(shift, 'a') + text;
    const std::vector<wire::cause_view> chain(1, {errc::timed_out, shifted});
    wire::result_view done = small_result();
    done.outcome = wire::error_view{chain};
    const frame bytes = written(done);
    wire::message_reader reader;
    const auto back = reader.read(bytes.bytes());
    REQUIRE(back);
    const auto failed = std::get<wire::error_view>(std::get<wire::result_view>(back->body).outcome);
    const std::string_view read = failed.chain[0].message;
    CHECK(read.size() <= 4096);
    CHECK(read.size() > 4090);
    CHECK((read.find("... [cut") - shift) % 3 == 0);
  }
}

TEST_CASE("counts are taken up to their limits and refused behind them", "[wire]") {
  const auto payload_of = [](std::size_t segments, std::size_t references) {
    static std::vector<manta::spec::segment_view> some;
    static std::vector<manta::spec::reference> others;
    some.assign(segments, {});
    others.assign(references, {{1, 1}, {1, 1}, 0, 0, {}});
    wire::task_view task = small_task();
    task.arguments = {{}, some, others};
    return task;
  };
  wire::message_reader reader;
  for (const std::size_t n : {std::size_t{1}, wire::limits::segments}) {
    const frame bytes = written(payload_of(n, 0));
    CHECK(std::get<wire::task_view>(reader.read(bytes.bytes())->body).arguments.segments.size() ==
          n);
  }
  for (const std::size_t n : {std::size_t{1}, wire::limits::references}) {
    const frame bytes = written(payload_of(0, n));
    CHECK(std::get<wire::task_view>(reader.read(bytes.bytes())->body).arguments.references.size() ==
          n);
  }
  CHECK_THAT(refused_to_write(payload_of(wire::limits::segments + 1, 0)),
             Contains("payload's segments is 262145 long, allowed: 0 to 262144"));
  CHECK_THAT(refused_to_write(payload_of(0, wire::limits::references + 1)),
             Contains("payload's references is 262145 long, allowed: 0 to 262144"));
  const std::vector<wire::reference_change> changes(wire::limits::changes + 1, {{1, 1}, {2, 2}});
  CHECK_THAT(refused_to_write(wire::changes_view{changes}),
             Contains("reference changes is 65537 long"));
  const frame most = written(wire::changes_view{std::span(changes).first(wire::limits::changes)});
  CHECK(std::get<wire::changes_view>(reader.read(most.bytes())->body).changes.size() ==
        wire::limits::changes);
}

TEST_CASE("a payload of very many arrays comes back, though its frame has several segments",
          "[wire]") {
  for (const std::size_t n : {std::size_t{100}, std::size_t{3000}, wire::limits::references}) {
    std::vector<manta::spec::reference> arrays(n);
    for (std::size_t i = 0; i < n; ++i) {
      arrays[i].what = {1, i + 1};
      arrays[i].owner = {2, 3};
      arrays[i].kind = manta::spec::reference_kind::array;
      arrays[i].place = {7, 64 * i, 4096};
    }
    const std::vector<manta::spec::segment_view> segments(n, {{}, 5, 8});
    wire::task_view task = small_task();
    task.arguments = {{}, segments, arrays};
    const frame bytes = written(task);
    wire::message_reader reader;
    const auto back = reader.read(bytes.bytes());
    if (!back) FAIL(back.error().message());
    const auto& came = std::get<wire::task_view>(back->body).arguments;
    REQUIRE((came.segments.size() == n && came.references.size() == n));
    CHECK(came.references.back().place.at == 64 * (n - 1));
  }
}

TEST_CASE("as many large ranges as a payload may have travel in one frame", "[wire]") {
  const std::vector<std::uint64_t> word(1, 7);
  std::vector<manta::spec::segment_view> segments(wire::limits::own_segments,
                                                  {std::as_bytes(std::span(word)), 1, 8});
  wire::task_view task = small_task();
  task.arguments.segments = segments;
  wire::message_writer writer;
  REQUIRE(writer.write(head, task));
  const frame bytes(writer);
  wire::message_reader reader;
  const auto back = reader.read(bytes.bytes());
  if (!back) FAIL(back.error().message());
  CHECK(show(std::get<wire::task_view>(back->body)) == show(task));
  segments.push_back(segments.front());
  task.arguments.segments = segments;
  CHECK_THAT(
      refused_to_write(task),
      Contains("value is made of 1025 vectors and strings of 4 KiB and more, allowed: 1024"));
}

TEST_CASE("a frame beyond the limit is neither written nor read", "[wire]") {
  const std::vector<std::byte> bytes(4000);
  wire::task_view task = small_task();
  task.arguments.head = bytes;
  wire::message_writer fits;
  REQUIRE(fits.write(head, task));
  const std::size_t size = fits.size_bytes();
  wire::message_writer exact(64, size);
  wire::message_writer tight(8192, size - 8);
  CHECK(exact.write(head, small_task()));
  const auto out = tight.write(head, task);
  REQUIRE_FALSE(out);
  CHECK_THAT(out.error().message(),
             Contains(fmt::format("frame is {} bytes long, allowed: 0 to {}", size, size - 8)));
  CHECK(tight.write(head, small_task()));
  wire::message_reader just(size);
  wire::message_reader less(size - 1);
  CHECK(just.read(fits.pieces()[0]));
  CHECK_FALSE(less.read(fits.pieces()[0]));
}

TEST_CASE("a writer refuses what no reader takes, and says why", "[wire]") {
  CHECK_THAT(refused_to_write(small_task(), {}), Contains("request id is zero"));
  CHECK_THAT(refused_to_write(wire::task_view{}), Contains("task id is zero"));
  CHECK_THAT(options_refused([](auto& o) { o.cpus = -1; }),
             Contains("cpus is -1, allowed: 0 to 1"));
  CHECK_THAT(options_refused([](auto& o) { o.gpus = -1; }), Contains("gpus is -1"));
  CHECK_THAT(options_refused([](auto& o) { o.gpus = 1500; }),
             Contains("gpus is 1500 thousandths, allowed: a part of one, or whole ones"));
  CHECK_THAT(options_refused([](auto& o) { o.memory_bytes = -1; }), Contains("memory_bytes is -1"));
  CHECK_THAT(options_refused([](auto& o) { o.priority = manta::priority{3}; }),
             Contains("priority is number 3, allowed: 0 to 2"));
  CHECK_THAT(options_refused([](auto& o) { o.max_retries = 1U << 31U; }),
             Contains("max_retries is 2147483648"));
  CHECK_THAT(options_refused([](auto& o) { o.timeout = manta::duration(0); }),
             Contains("timeout is 0 ns, allowed: more than 0, or none"));
  CHECK_THAT(options_refused([](auto& o) { o.stream_credits = 0; }),
             Contains("stream_credits is 0"));
  const std::vector<wire::amount_view> zero(1, {"k", 0});
  CHECK_THAT(options_refused([&](auto& o) { o.resources = zero; }),
             Contains("resource's amount is 0"));
  const std::string long_key(65, 'k');
  const std::vector<wire::amount_view> long_one(1, {long_key, 1});
  CHECK_THAT(options_refused([&](auto& o) { o.resources = long_one; }),
             Contains("resource's key is 65 bytes long, allowed: 1 to 64"));
  const std::vector<wire::amount_view> many(257, {"k", 1});
  CHECK_THAT(options_refused([&](auto& o) { o.resources = many; }),
             Contains("resources is 257 long, allowed: 0 to 256"));
  using rule = manta::placement::rule;
  CHECK_THAT(options_refused([](auto& o) { o.where.by = rule{5}; }),
             Contains("placement's rule is number 5"));
  CHECK_THAT(options_refused([](auto& o) { o.where.by = rule::node; }),
             Contains("placement's node is 0 bytes long"));
  const std::vector<wire::label_view> labels(257, {"k", "v"});
  CHECK_THAT(options_refused([&](auto& o) { o.where = {rule::labels, false, {}, labels, 0, -1}; }),
             Contains("placement's number of labels is 257"));
  CHECK_THAT(options_refused([](auto& o) { o.where = {rule::group, false, {}, {}, 1, -2}; }),
             Contains("placement's bundle is -2"));
  const std::vector<wire::label_view> bare(1, {"k", ""});
  CHECK_THAT(options_refused([&](auto& o) { o.where = {rule::labels, false, {}, bare, 0, -1}; }),
             Contains("label's value is 0 bytes long"));
  const std::vector<wire::label_view> blank(1, {"", "v"});
  CHECK_THAT(options_refused([&](auto& o) { o.where = {rule::labels, false, {}, blank, 0, -1}; }),
             Contains("label's key is 0 bytes long"));
}

TEST_CASE("a writer refuses results, calls, puts and changes that are nonsense", "[wire]") {
  CHECK_THAT(refused_to_write(wire::result_view{}), Contains("task id is zero"));
  wire::result_view done = small_result();
  done.ran = manta::duration(-1);
  CHECK_THAT(refused_to_write(done), Contains("run time is -1"));
  done = small_result();
  done.outcome = wire::alias_view{done.task};
  CHECK_THAT(refused_to_write(done), Contains("alias is the task itself"));
  done.outcome = wire::alias_view{};
  CHECK_THAT(refused_to_write(done), Contains("alias is zero"));
  done.outcome = wire::held_view{};
  CHECK_THAT(refused_to_write(done), Contains("holding node is zero"));
  std::vector<wire::cause_view> chain(17);
  done.outcome = wire::error_view{chain};
  CHECK_THAT(refused_to_write(done), Contains("error's chain is 17, allowed: 1 to 16"));
  done.outcome = wire::error_view{};
  CHECK_THAT(refused_to_write(done), Contains("error's chain is 0, allowed: 1 to 16"));
  chain.assign(1, {static_cast<errc>(24)});
  done.outcome = wire::error_view{chain};
  CHECK_THAT(refused_to_write(done), Contains("error's code is number 24"));
  chain.assign(1, {errc::task_error, {}, true, -1});
  done.outcome = wire::error_view{chain};
  CHECK_THAT(refused_to_write(done), Contains("error's attempt is -1"));

  const auto call_refused = [](const auto& change) {
    wire::call_view call = small_call();
    change(call);
    return refused_to_write(call);
  };
  CHECK_THAT(call_refused([](auto& c) { c.actor = {}; }), Contains("actor id is zero"));
  CHECK_THAT(call_refused([](auto& c) { c.caller = {}; }), Contains("caller id is zero"));
  CHECK_THAT(call_refused([](auto& c) { c.call_number = 0; }), Contains("call number is 0"));
  CHECK_THAT(call_refused([](auto& c) { c.timeout = manta::duration(-5); }), Contains("is -5 ns"));
  CHECK_THAT(call_refused([](auto& c) { c.stream_credits = 0; }), Contains("stream_credits is 0"));
  const std::string long_group(1025, 'g');
  CHECK_THAT(call_refused([&](auto& c) { c.group = long_group; }),
             Contains("group is 1025 bytes long, allowed: 0 to 1024"));
  CHECK_THAT(refused_to_write(wire::put_view{}), Contains("object id is zero"));
  CHECK_THAT(refused_to_write(wire::put_view{{1, 1}, {}, false, {}}), Contains("owner id is zero"));
  const auto change_refused = [](const wire::reference_change& change) {
    return refused_to_write(wire::changes_view{{&change, 1}});
  };
  CHECK_THAT(change_refused({{}, {1, 1}}), Contains("object id is zero"));
  CHECK_THAT(change_refused({{1, 1}, {}}), Contains("peer id is zero"));
  CHECK_THAT(change_refused({{1, 1}, {1, 1}, 0}), Contains("count is 0, allowed: 1 to 2147483647"));
  CHECK_THAT(change_refused({{1, 1}, {1, 1}, 1, static_cast<wire::change_kind>(3)}),
             Contains("kind of a change is number 3"));
  const std::vector<std::byte> seven(7);
  const auto segment_refused = [&](std::uint32_t element_bytes) {
    const manta::spec::segment_view one{seven, 1, element_bytes};
    return refused_to_write(wire::put_view{{1, 1}, {1, 1}, false, {{}, {&one, 1}, {}}});
  };
  CHECK_THAT(segment_refused(2),
             Contains("segment is 7 bytes, allowed: multiples of its elements'"));
  CHECK_THAT(segment_refused(0), Contains("segment is 7 bytes"));
  const manta::spec::reference strange{{}, {}, 0, 0, static_cast<manta::spec::reference_kind>(12)};
  CHECK_THAT(refused_to_write(wire::put_view{{1, 1}, {1, 1}, false, {{}, {}, {&strange, 1}}}),
             Contains("kind of a reference is number 12"));
}
