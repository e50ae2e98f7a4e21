// SPDX-License-Identifier: Apache-2.0
// Rows of the store's tables, and values of manta::kv: to bytes and back, and from other bytes.
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <manta/node/kept_value.hpp>

#include <catch2/catch.hpp>

#include "control/rows.hpp"
#include "control/store.hpp"
#include "exec/support.hpp"

namespace {

namespace control = manta::control;
namespace keys = manta::control::keys;
using Catch::Matchers::Contains;
using manta::wall_time;
using manta_test::dice;
using function_list = std::vector<std::string>;
using event_list = std::vector<manta::event_record>;

wall_time at(std::int64_t us) { return wall_time(std::chrono::microseconds(us)); }

manta::job_record some_job() {
  manta::job_record row;
  row.id = "0123";
  row.program = "solver";
  row.host = "h";
  row.pid = 77;
  row.version = "0.1.0";
  row.workers = 3;
  row.started = at(1000001);
  row.ended = at(2000002);
  row.functions = 0xfedcba9876543210U;
  row.tasks_run = std::uint64_t{1} << 40U;
  row.events_dropped = 5;
  return row;
}

std::vector<manta::event_record> some_events(std::size_t n) {
  std::vector<manta::event_record> rows;
  for (std::size_t i = 0; i < n; ++i) {
    manta::event_record row;
    row.at = at(static_cast<std::int64_t>(i));
    row.kind = static_cast<manta::event_kind>(i % 4);
    row.attempt = static_cast<std::uint32_t>(i);
    row.task = {i, i * 2};
    row.parent = {i * 3, i * 4};
    row.name = "name " + std::to_string(i % 3);
    if (i % 4 == 3) row.text = "because of " + std::to_string(i);
    rows.push_back(row);
  }
  return rows;
}

std::vector<control::event_row> rows_of(const std::vector<manta::event_record>& events) {
  std::vector<control::event_row> rows;
  for (const auto& e : events) {
    rows.push_back({e.at, e.task, e.parent, e.name, e.text, e.attempt, e.kind, {}});
  }
  return rows;
}

}  // namespace

TEST_CASE("rows come back from their bytes", "[control]") {
  const manta::job_record job = some_job();
  const auto back = control::read_row<manta::job_record>("job/0123", control::to_bytes(job));
  REQUIRE(back);
  CHECK(back->id == job.id);
  CHECK(back->program == job.program);
  CHECK(back->host == job.host);
  CHECK(back->pid == job.pid);
  CHECK(back->version == job.version);
  CHECK(back->workers == job.workers);
  CHECK(back->started == job.started);
  CHECK(back->ended == job.ended);
  CHECK(back->functions == job.functions);
  CHECK(back->tasks_run == job.tasks_run);
  CHECK(back->events_dropped == job.events_dropped);
  CHECK_FALSE(
      control::read_row<manta::job_record>("job/1", control::to_bytes(manta::job_record{}))->ended);

  const std::vector<std::string> names = {"f(int)", "", "g()"};
  CHECK(*control::read_row<function_list>("functions/1", control::to_bytes(names)) == names);

  manta::actor_record actor;
  actor.type = "counter";
  actor.job = "0123";
  actor.since = at(9);
  const auto same = control::read_row<manta::actor_record>(control::name_key("space", "n"),
                                                           control::to_bytes(actor));
  REQUIRE(same);
  CHECK((same->name == "n" && same->name_space == "space" && same->type == "counter"));
  CHECK((same->job == "0123" && same->since == at(9)));

  const auto events = some_events(1000);
  const auto read = control::read_row<event_list>("event/1", control::to_bytes(rows_of(events)));
  REQUIRE(read);
  REQUIRE(read->size() == events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto& [a, b] = std::pair((*read)[i], events[i]);
    REQUIRE((a.at == b.at && a.kind == b.kind && a.attempt == b.attempt && a.task == b.task));
    REQUIRE((a.parent == b.parent && a.name == b.name && a.text == b.text));
  }
}

TEST_CASE("a start and its end may share a row", "[control]") {
  std::vector<manta::event_record> told = some_events(1);
  std::vector<control::event_row> rows = rows_of(told);
  rows[0].lasted = 0xffffffffU;
  const auto read = control::read_row<event_list>("event/1", control::to_bytes(rows));
  REQUIRE(read);
  REQUIRE(read->size() == 2);
  CHECK((*read)[0].kind == manta::event_kind::start);
  CHECK((*read)[1].kind == manta::event_kind::end);
  CHECK((*read)[1].at - (*read)[0].at == std::chrono::microseconds(0xffffffffU));
  CHECK(((*read)[1].name == told[0].name && (*read)[1].task == told[0].task));
}

TEST_CASE("keys are in the order of what they count", "[control]") {
  CHECK(control::digits(9) < control::digits(10));
  CHECK(control::digits(255) < control::digits(256));
  CHECK(control::events_of("1") == "event/1/");
  // A namespace is not a part of another one.
  CHECK(control::name_key("a", "b") != control::name_key("ab", ""));
}

TEST_CASE("a name that is too long for a key is in the row", "[control]") {
  manta::actor_record actor;
  actor.name_space = std::string(1024, 's');
  actor.name = std::string(1023, 'n') + "1";
  const std::string key = control::name_key(actor.name_space, actor.name);
  CHECK(key.size() <= control::limits::key_bytes);
  CHECK(key != control::name_key(actor.name_space, std::string(1023, 'n') + "2"));
  const auto same = control::read_row<manta::actor_record>(key, control::to_bytes(actor));
  REQUIRE(same);
  CHECK((same->name == actor.name && same->name_space == actor.name_space));
}

TEST_CASE("bytes that are no row are refused, whatever they are", "[control]") {
  CHECK_THAT(control::read_row<manta::job_record>("job/5", "").error().message(),
             Contains("the record job/5"));
  CHECK(control::read_row<event_list>("event/5", "12345").error().code() ==
        manta::errc::decode_failed);
  dice d(manta_test::run_seed());
  const auto some = some_events(20);
  const std::string whole = control::to_bytes(rows_of(some));
  int refused = 0;
  for (int i = 0; i < manta_test::scaled(20000); ++i) {
    std::string bytes = whole.substr(0, i % 4 == 0 ? d.below(whole.size()) : whole.size());
    for (std::size_t k = 1 + d.below(4); k > 0 && !bytes.empty(); --k) {
      bytes[d.below(bytes.size())] ^= static_cast<char>(1U << d.below(8));
    }
    if (!control::read_row<event_list>("event/5", bytes)) ++refused;
    static_cast<void>(control::read_row<manta::job_record>("job/5", bytes));
    static_cast<void>(control::read_row<manta::actor_record>("name/5", bytes));
    static_cast<void>(control::read_row<function_list>("functions/5", bytes));
  }
  CHECK(refused > 0);
}

TEST_CASE("kept values come back, and only as what they were", "[control]") {
  using manta::node::keep_value;
  using manta::node::read_kept;
  const std::map<std::string, std::vector<double>> value = {
      {"small", {1.5}}, {"large", std::vector<double>(5000, 2.5)}, {"none", {}}};
  const std::string kept = keep_value(value);
  CHECK(read_kept<std::map<std::string, std::vector<double>>>(kept, "k") == value);
  CHECK_THROWS_WITH(read_kept<int>(kept, "k"), Contains("the value of \"k\" is of another type"));
  CHECK_THROWS_WITH(read_kept<int>("hello", "k"), Contains("was not written by this version"));
  dice d(manta_test::run_seed());
  for (int i = 0; i < manta_test::scaled(20000); ++i) {
    std::string bytes = kept.substr(0, i % 2 == 0 ? d.below(kept.size()) : kept.size());
    if (i % 2 != 0) bytes[d.below(100)] ^= static_cast<char>(1U << d.below(8));
    try {
      static_cast<void>(read_kept<std::map<std::string, std::vector<double>>>(bytes, "k"));
    } catch (const manta::decode_failed&) {
      continue;
    }
    REQUIRE(bytes.size() == kept.size());
  }
}
