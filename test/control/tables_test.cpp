// SPDX-License-Identifier: Apache-2.0
// The tables of a cluster: their rows, their caps, what ends by itself, logs and checkpoints.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "control/backends.hpp"
#include "control/call_log.hpp"
#include "control/checkpoints.hpp"
#include "control/cluster_rows.hpp"
#include "control/disk.hpp"
#include "control/expiry.hpp"
#include "control/table.hpp"

namespace {

using namespace test_control;  // NOLINT: the calls are the subject here
using namespace std::chrono_literals;
using control::batch;
using control::call_row;
using manta::errc;
using manta::wall_time;
using manta::base::id;
using manta_test::dice;

constexpr id actor{7, 8};

wall_time at(std::chrono::microseconds when) { return wall_time(when); }

control::node_row some_node(const std::string& name) {
  control::node_row row;
  row.name = name;
  row.epoch = 5;
  row.is = control::node_row::state::draining;
  row.address = "10.0.0.1:77";
  row.host = "h";
  row.pid = 99;
  row.has = {4000, 2000, 1 << 20, {{"disk", 500}}};
  row.labels = {{"zone", "a"}};
  row.joined = at(3s);
  return row;
}

std::size_t rows_of(control::store& s) { return scan_all(s, "", 1000).size(); }

call_row call(std::uint64_t execution, std::string request = "request") {
  return {{1, execution % 3}, execution * 2, execution, std::move(request)};
}

void commit_all(control::store& s, std::vector<batch> all) {
  for (batch& one : all) REQUIRE(commit(s, std::move(one)));
}

}  // namespace

TEST_CASE("rows of a cluster come back from their keys and bytes", "[control]") {
  const control::node_row node = some_node("a/b");
  const auto n = control::read_row<control::node_row>(key_of(node), to_bytes(node));
  REQUIRE(n);
  CHECK((n->name == node.name && n->epoch == 5 && n->is == node.is && n->host == "h"));
  CHECK((n->address == node.address && n->pid == 99 && n->has == node.has));
  CHECK((n->labels == node.labels && n->joined == node.joined && !n->ended && n->cause.empty()));

  control::node_row next = node;  // the next of that name does not write over it
  next.epoch = 6;
  CHECK(key_of(next) != key_of(node));
  CHECK(control::read_row<control::node_row>(key_of(next), to_bytes(next))->name == node.name);

  control::actor_row a{.id = {~0ULL, 1}, .name = "n", .name_space = "s", .type = "t", .job = "j"};
  a.node = "here";
  a.incarnation = 3;
  a.restarts_left = 2;
  a.is = control::actor_row::state::restarting;
  a.ended = at(9s);
  a.cause = "killed";
  a.recipe = std::string("\0\1\2", 3);
  const auto b = control::read_row<control::actor_row>(key_of(a), to_bytes(a));
  REQUIRE(b);
  CHECK((b->id == a.id && b->name == "n" && b->name_space == "s" && b->type == "t"));
  CHECK((b->job == "j" && b->node == "here" && b->incarnation == 3 && b->restarts_left == 2));
  CHECK((b->is == a.is && b->ended == a.ended && b->cause == "killed" && b->recipe == a.recipe));

  const control::group_row g{.id = 12,
                             .job = "j",
                             .how = manta::strategy::strict_spread,
                             .bundles = {{1000, 0, 0, {}}, {0, 500, 7, {{"x", 1}}}},
                             .nodes = {"a", ""}};
  const auto h = control::read_row<control::group_row>(key_of(g), to_bytes(g));
  REQUIRE(h);
  CHECK((h->id == 12 && h->job == "j" && h->how == g.how && h->bundles == g.bundles));
  CHECK(h->nodes == g.nodes);

  const control::owner_row o{.id = {"a/b", 7}, .job = "j", .adopter = "c", .ended = at(1s)};
  const auto p = control::read_row<control::owner_row>(key_of(o), to_bytes(o));
  REQUIRE(p);
  CHECK((p->id == o.id && p->job == "j" && p->adopter == "c" && p->ended == o.ended));

  const control::place_row l{.owner = {"a/b", 7},
                             .object = {3, 4},
                             .bytes = 1ULL << 40U,
                             .nodes = {"a", "b"},
                             .spilled = "file"};
  const auto m = control::read_row<control::place_row>(key_of(l), to_bytes(l));
  REQUIRE(m);
  CHECK((m->owner == l.owner && m->object == l.object && m->bytes == l.bytes));
  CHECK((m->nodes == l.nodes && m->spilled == "file"));
}

TEST_CASE("an owner's rows are not those of a node whose name goes on", "[control]") {
  const std::string epoch = control::digits(1);
  const control::owner_id a{"a", 1};
  const control::owner_id b{"a/" + epoch, 2};
  CHECK_FALSE(control::places_of(b).starts_with(control::places_of(a)));
  CHECK_FALSE(control::tasks_of(b).starts_with(control::tasks_of(a)));
}

TEST_CASE("rows of a cluster are refused or read, whatever their bytes", "[control]") {
  dice d(manta_test::run_seed());
  const std::string whole = to_bytes(some_node("n"));
  int refused = 0;
  for (int i = 0; i < manta_test::scaled(10000); ++i) {
    std::string bytes = whole.substr(0, i % 4 == 0 ? d.below(whole.size()) : whole.size());
    std::string key = key_of(control::place_row{.owner = {"n", 1}, .object = {1, 2}});
    key.resize(d.below(key.size()));
    for (std::size_t k = 1 + d.below(4); k > 0 && !bytes.empty(); --k) {
      bytes[d.below(bytes.size())] ^= static_cast<char>(1U << d.below(8));
    }
    if (!control::read_row<control::node_row>(key, bytes)) ++refused;
    static_cast<void>(control::read_row<control::actor_row>(key, bytes));
    static_cast<void>(control::read_row<control::group_row>(key, bytes));
    static_cast<void>(control::read_row<control::owner_row>(key, bytes));
    static_cast<void>(control::read_row<control::place_row>(key, bytes));
  }
  CHECK(refused > 0);
}

TEST_CASE("a full table drops what has ended, the first first, and refuses while all live",
          "[control]") {
  for (const backend& kind : backends()) {
    CAPTURE(kind.name);
    const folder where;
    const auto s = kind.make(where);
    control::table<control::node_row> nodes({.most = 3, .keep_ended = 10s});
    const auto put_node = [&](const std::string& name, std::optional<wall_time> ended) {
      control::node_row row = some_node(name);
      row.ended = ended;
      batch what;
      if (auto good = nodes.put(what, row); !good) return good.error().code();
      REQUIRE(commit(*s, std::move(what)));
      return errc{};
    };
    for (const auto* name : {"a", "b", "c"}) CHECK(put_node(name, std::nullopt) == errc{});
    CHECK(put_node("d", std::nullopt) == errc::store_full);
    CHECK(put_node("b", at(2s)) == errc{});
    CHECK(put_node("a", at(5s)) == errc{});
    CHECK(put_node("b", std::nullopt) == errc{});  // it is back
    CHECK(put_node("d", std::nullopt) == errc{});
    CHECK(nodes.dropped() == 1);
    CHECK(put_node("e", std::nullopt) == errc::store_full);
    CHECK(put_node("c", at(6s)) == errc{});

    // Another writer learns the same from the store.
    control::table<control::node_row> again({.most = 3, .keep_ended = 10s});
    REQUIRE(again.load(*s, control::keys::nodes));
    CHECK(again.size() == 3);
    batch early;
    again.sweep(early, at(16s - 1us));
    CHECK(early.changes.empty());
    batch late;
    again.sweep(late, at(16s));
    REQUIRE(late.changes.size() == 1);
    CHECK(late.changes[0].key == key_of(some_node("c")));
    REQUIRE(commit(*s, std::move(late)));
    CHECK(rows_of(*s) == 2);
    // Of two that have ended the first makes room, whoever was told of first.
    CHECK(put_node("d", at(30s)) == errc{});
    CHECK(put_node("c", at(20s)) == errc{});
    CHECK(put_node("f", std::nullopt) == errc{});
    CHECK((*read(*s, {key_of(some_node("c")), key_of(some_node("d"))})).records[1]);
    CHECK_FALSE((*read(*s, {key_of(some_node("c")), key_of(some_node("d"))})).records[0]);

    batch none;
    again.erase(none, "node/none");
    CHECK(none.changes.empty());
    again.erase(none, key_of(some_node("b")));
    CHECK(none.changes.size() == 1);
    CHECK(again.size() == 1);
  }
}

TEST_CASE("keys end at their time, unless they were written again", "[control]") {
  for (const backend& kind : backends()) {
    CAPTURE(kind.name);
    const folder where;
    const auto s = kind.make(where);
    const auto put_until = [&](const std::string& key, std::optional<wall_time> end) {
      batch what{.changes = {put(key, "v")}};
      if (end) control::end_at(what, key, *end, at(4s));
      REQUIRE(commit(*s, std::move(what)));
    };
    for (std::size_t i = 0; i < 3000; ++i) put_until("kv/" + number(i), at(5s));
    put_until("kv/for ever", std::nullopt);
    put_until("kv/again", at(5s));
    put_until("kv/again", std::nullopt);
    put_until("kv/longer", at(5s));
    put_until("kv/longer", at(9s));
    put_until("kv/erased", at(5s));
    REQUIRE(commit(*s, {.changes = {del("kv/erased")}}));

    auto swept = control::sweep(*s, at(4s));
    REQUIRE(swept);
    CHECK(swept->gone == 0);
    REQUIRE(swept->next);
    CHECK(*swept->next > at(4900ms));
    // What is filed early is filed again, at its time.
    swept = control::sweep(*s, at(4999ms));
    REQUIRE(swept);
    CHECK(swept->gone == 0);
    CHECK(swept->next == at(5s));
    swept = control::sweep(*s, at(5s), 1000);
    REQUIRE(swept);
    CHECK(swept->gone <= 1000);
    CHECK(swept->next == at(5s));  // there is more
    const std::size_t before = swept->gone;
    swept = control::sweep(*s, at(5s));
    REQUIRE(swept);
    CHECK(before + swept->gone == 3000);
    REQUIRE(swept->next);
    CHECK(*swept->next > at(8s));
    CHECK(scan_all(*s, "kv/", 1000).size() == 3);
    swept = control::sweep(*s, at(9s));
    REQUIRE(swept);
    CHECK(swept->gone == 1);
    CHECK_FALSE(swept->next);
    CHECK(rows_of(*s) == 2);
    // A row that nobody here wrote.
    REQUIRE(commit(*s, {.changes = {put("ttl/0", "")}}));
    CHECK(control::sweep(*s, at(9s)));
    CHECK(rows_of(*s) == 2);
  }
}

TEST_CASE("who renews a key all the time leaves few rows", "[control]") {
  const auto s = control::make_memory_store();
  wall_time now = at(1000s);
  dice d(manta_test::run_seed());
  std::size_t most = 0;
  for (int i = 0; i < 3000; ++i) {
    batch what{.changes = {put("kv/lease", std::to_string(i))}};
    control::end_at(what, "kv/lease", now + 60s, now);
    REQUIRE(commit(*s, std::move(what)));
    now += std::chrono::milliseconds(d.below(200));
    if (d.one_in(10)) REQUIRE(control::sweep(*s, now));
    most = std::max(most, rows_of(*s));
  }
  CHECK(most <= 36);
  const auto last = control::sweep(*s, now + 59s);
  REQUIRE((last && last->gone == 0 && last->next));
  const auto gone = control::sweep(*s, now + 60s);
  REQUIRE(gone);
  CHECK(gone->gone == 1);
  CHECK(rows_of(*s) == 0);
}

TEST_CASE("the log of an actor's calls loses what checkpoints cover, and nothing else",
          "[control]") {
  for (const backend& kind : backends()) {
    CAPTURE(kind.name);
    const folder where;
    const auto s = kind.make(where);
    control::call_log log(actor);
    dice d(manta_test::run_seed());
    std::uint64_t covered = 0;
    for (std::uint64_t n = 1; n <= 300; ++n) {
      REQUIRE(log.add(call(n, std::string(d.below(100), 'r'))));
      if (d.one_in(20)) log.cover(covered = n - d.below(10) * (n > 10));
      if (!d.one_in(3)) continue;
      commit_all(*s, log.write());
      const auto so_far = control::call_log(actor).load(*s);
      REQUIRE(so_far);
      if (covered < n) REQUIRE(so_far->front().execution <= covered + 1);
    }
    commit_all(*s, log.write());
    control::call_log later(actor);
    auto there = later.load(*s);
    REQUIRE(there);
    REQUIRE_FALSE(there->empty());
    CHECK(there->front().execution <= covered + 1);
    CHECK(there->back().execution == 300);
    for (std::size_t i = 1; i < there->size(); ++i) {
      REQUIRE((*there)[i].execution == (*there)[i - 1].execution + 1);
    }
    CHECK(there->back().caller == call(300).caller);
    CHECK(there->back().number == 600);
    CHECK(later.bytes() == log.bytes());
    // It goes on where the other one ended.
    CHECK(later.add(call(300)).error().code() == errc::invalid_argument);
    REQUIRE(later.add(call(301)));
    commit_all(*s, later.write());
    const auto all = control::call_log(actor).load(*s);
    REQUIRE((all && all->size() == there->size() + 1));
    CHECK(all->back().execution == 301);
    later.cover(301);
    commit_all(*s, later.write());
    CHECK(later.bytes() == 0);
    CHECK(rows_of(*s) == 0);
  }
}

TEST_CASE("the log of an actor's calls has a cap", "[control]") {
  control::call_log log(actor, 1000);
  REQUIRE(log.add(call(1, std::string(900, 'r'))));
  const auto full = log.add(call(2));
  REQUIRE_FALSE(full);
  CHECK(full.error().code() == errc::store_full);
  CHECK_THAT(full.error().message(), Catch::Matchers::Contains("until its next checkpoint"));
  log.cover(1);
  CHECK(log.add(call(2)));
}

TEST_CASE("a call that no value could hold is refused", "[control]") {
  control::call_log log(actor);
  const auto large = log.add(call(1, std::string(control::limits::value_bytes / 2, 'r')));
  REQUIRE_FALSE(large);
  CHECK(large.error().code() == errc::store_full);
  CHECK_THAT(large.error().message(), Catch::Matchers::Contains("put what is large as an object"));
  CHECK(log.add(call(1)));
}

TEST_CASE("large calls are written in several batches", "[control]") {
  const auto s = control::make_memory_store();
  control::call_log log(actor);
  const std::string large((std::size_t{8} << 20U) - 64, 'r');
  std::uint64_t n = 0;
  while (log.add(call(n + 1, large))) ++n;
  CHECK(n == 8);
  auto batches = log.write();
  CHECK(batches.size() > 1);
  commit_all(*s, std::move(batches));
  CHECK(control::call_log(actor).load(*s)->size() == n);
}

TEST_CASE("the last whole checkpoint is found, wherever the writer ended", "[control]") {
  const auto state_of = [](std::size_t n) {
    return std::string((n * std::size_t{13}) << 20U, static_cast<char>('a' + n)) + "end";
  };
  for (std::size_t written = 0; written < 5; ++written) {
    CAPTURE(written);
    const auto s = control::make_memory_store();
    control::checkpoints first(actor);
    CHECK_FALSE(*control::read_checkpoint(*s, actor));
    commit_all(*s, *first.write({1, 10, at(1s)}, state_of(0)));
    commit_all(*s, *first.write({1, 20, at(2s)}, state_of(1)));
    auto next = *first.write({2, 30, at(3s)}, state_of(5));
    REQUIRE(next.size() == 3);
    CHECK(next.back().how == durability::durable);
    next.resize(std::min(written, next.size()));
    commit_all(*s, std::move(next));
    const auto found = control::read_checkpoint(*s, actor);
    REQUIRE((found && *found));
    const bool is_done = written >= 3;
    CHECK((*found)->what.execution == (is_done ? 30 : 20));
    CHECK((*found)->what.incarnation == (is_done ? 2 : 1));
    CHECK((*found)->state == state_of(is_done ? 5 : 1));

    // Who comes after it leaves nothing of either.
    control::checkpoints second(actor);
    REQUIRE(second.load(*s));
    commit_all(*s, *second.write({3, 40, at(4s)}, "small"));
    CHECK((*control::read_checkpoint(*s, actor))->state == "small");
    CHECK(rows_of(*s) == 2);
  }
}

TEST_CASE("what writers of checkpoints left unfinished makes room", "[control]") {
  const auto s = control::make_memory_store(std::size_t{100} << 20U);
  control::checkpoints of(actor);
  const auto state = [](std::size_t mib) { return std::string(mib << 20U, 's'); };
  commit_all(*s, *of.write({1, 1, at(1s)}, state(40)));
  bool is_full = false;
  for (batch& one : *of.write({1, 2, at(2s)}, state(95))) {
    is_full = is_full || !commit(*s, std::move(one));
  }
  CHECK(is_full);
  REQUIRE(of.load(*s));
  commit_all(*s, *of.write({1, 3, at(3s)}, state(50)));
  CHECK((*control::read_checkpoint(*s, actor))->state.size() == state(50).size());
  CHECK(s->measure().bytes < std::size_t{51} << 20U);
}

// The writer ends by itself: a reader begins again when the state that it reads has gone, so one
// that is slower than a writer without pauses waits for its end.
TEST_CASE("a checkpoint is read whole while the next ones are written", "[control]") {
  const auto s = control::make_memory_store();
  const auto write = [&](control::checkpoints& of, std::uint64_t n) {
    // Two parts and a bit of one letter.
    const std::string state((std::size_t{8} << 20U) + 10, static_cast<char>('a' + n % 20));
    auto batches = of.write({1, n, at(1s)}, state);
    if (!batches) return false;
    for (batch& one : *std::move(batches)) {
      if (!commit(*s, std::move(one))) return false;
    }
    return true;
  };
  control::checkpoints of(actor);
  REQUIRE(write(of, 1));
  const auto states = static_cast<std::uint64_t>(manta_test::scaled(100));
  std::atomic<bool> is_over{false};
  std::atomic<int> wrong{0};
  std::thread writer([&] {
    for (std::uint64_t n = 2; n <= states; ++n) wrong += write(of, n) ? 0 : 1;
    is_over = true;
  });
  std::uint64_t last = 0;
  for (bool is_last = false; !is_last;) {
    is_last = is_over;
    const auto found = control::read_checkpoint(*s, actor);
    if (!found || !*found || (*found)->what.execution < last ||
        (*found)->state.find_first_not_of((*found)->state[0]) != std::string::npos) {
      ++wrong;
      break;
    }
    last = (*found)->what.execution;
  }
  writer.join();
  CHECK(wrong == 0);
  CHECK(last == states);
}

TEST_CASE("a checkpoint that lacks a part is damaged, not short", "[control]") {
  const auto s = control::make_memory_store();
  control::checkpoints of(actor);
  commit_all(*s, *of.write({1, 1, at(1s)}, std::string(std::size_t{9} << 20U, 'x')));
  const auto rows = scan_all(*s, "checkpoint/", 1000);
  REQUIRE(rows.size() == 4);
  REQUIRE(commit(*s, {.changes = {del(rows[2].key)}}));
  const auto found = control::read_checkpoint(*s, actor);
  REQUIRE_FALSE(found);
  CHECK(found.error().code() == errc::decode_failed);
  // Its size is looked at before its bytes.
  const std::string_view huge(rows[0].value.data(), (std::size_t{1} << 30U) + 1);
  CHECK(of.write({1, 2, at(1s)}, huge).error().code() == errc::invalid_argument);
}
