// SPDX-License-Identifier: Apache-2.0
// Task records of all nodes in the store of this process's runtime.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include <manta/manta.hpp>

#include "control/ask.hpp"
#include "control/cluster_rows.hpp"
#include "control/rows.hpp"
#include "exec/support.hpp"
#include "node/journal.hpp"
#include "node/record_keeper.hpp"
#include "node/task_records.hpp"
#include "own/record_limits.hpp"

namespace record_keeper_test {

namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using manta::errc;
using manta::node::record_keeper;
using manta::node::records_question;
using manta::own::record_limits;
namespace control = manta::control;

std::vector<std::string> keys() {
  const auto all =
      control::scan_all(*manta::node::journal::global().store(), std::string(control::keys::tasks));
  REQUIRE(all);
  std::vector<std::string> out;
  for (const control::record& one : *all) out.push_back(one.key);
  return out;
}

records_question puts(const std::string& node, std::uint64_t number, std::size_t bytes) {
  return {.node = node, .puts = {{number, std::string(bytes, 'r')}}, .dels = {}, .leaves = false};
}

std::string key(const std::string& node, std::uint64_t epoch, std::uint64_t number) {
  return control::tasks_of({node, epoch}) + control::digits(number);
}

record_keeper& keeper() { return record_keeper::global(); }

/// A store in memory, and no records of an earlier one.
struct with_store {
  with_store() { keeper().end_job(); }
  ~with_store() { keeper().end_job(); }
  manta::runtime rt{manta::config{.workers = 1}};
};

}  // namespace

TEST_CASE("records of a node are written and deleted under its own keys", "[node][records]") {
  const with_store here;
  CHECK(keeper().keep(7, puts("a", 1, 10)));
  CHECK(keeper().keep(7, puts("a", 2, 10)));
  CHECK(keeper().keep(8, puts("a", 1, 10)));
  CHECK(keys() == std::vector{key("a", 7, 1), key("a", 7, 2), key("a", 8, 1)});
  CHECK(keeper().keep(7, {.node = "a", .puts = {}, .dels = {1, 5}, .leaves = false}));
  CHECK(keys() == std::vector{key("a", 7, 2), key("a", 8, 1)});
  // Who leaves takes its own along; who is lost does not.
  CHECK(keeper().keep(7, {.node = "a", .puts = {}, .dels = {}, .leaves = true}));
  keeper().gone(8);
  keeper().gone(9);
  CHECK(keys() == std::vector{key("a", 8, 1)});
  keeper().end_job();
  CHECK(keys().empty());
}

TEST_CASE("records of a node with no name, or another than before, are refused",
          "[node][records]") {
  const with_store here;
  for (const std::string& name : {std::string(), std::string(257, 'n'), std::string("a\0b", 3)}) {
    const auto is = keeper().keep(7, puts(name, 1, 10));
    REQUIRE_FALSE(is);
    CHECK(is.error().code() == errc::decode_failed);
  }
  CHECK(keeper().keep(7, puts("a", 1, 10)));
  const auto is = keeper().keep(7, puts("b", 1, 10));
  REQUIRE_FALSE(is);
  CHECK_THAT(is.error().message(), Contains("another name than before"));
  CHECK(keys().size() == 1);
}

TEST_CASE("who has left writes nothing any more, and nobody a value twice at once",
          "[node][records]") {
  const with_store here;
  CHECK(keeper().keep(7, {.node = "a", .puts = {}, .dels = {}, .leaves = true}));
  CHECK_FALSE(keeper().keep(7, puts("a", 1, 10)));
  keeper().gone(7);
  CHECK(keeper().keep(7, puts("a", 1, 10)));
  records_question twice = puts("a", 2, 10);
  twice.dels = {2};
  const auto is = keeper().keep(7, twice);
  REQUIRE_FALSE(is);
  CHECK(is.error().code() == errc::decode_failed);
  CHECK(keys().size() == 1);
}

TEST_CASE("records have a limit in the store, and lost nodes' make room", "[node][records]") {
  const with_store here;
  // With its key and what is counted beside it.
  constexpr std::size_t part = record_limits::all_bytes / 4 - 200;
  for (std::uint64_t node = 1; node <= 4; ++node) CHECK(keeper().keep(node, puts("a", 1, part)));
  const auto is = keeper().keep(5, puts("e", 1, 1));
  REQUIRE_FALSE(is);
  CHECK(is.error().code() == errc::store_full);
  CHECK_THAT(is.error().message(), Contains(std::to_string(record_limits::all_bytes) + " of " +
                                            std::to_string(record_limits::all_bytes) + " bytes"));
  // Users' keys have room all the same.
  CHECK(manta::kv::put("user", std::string(1 << 20, 'u')).get() > 0);
  keeper().gone(3);
  keeper().gone(2);
  CHECK(keeper().keep(5, puts("e", 1, part)));
  CHECK(keys() == std::vector{key("a", 1, 1), key("a", 2, 1), key("a", 4, 1), key("e", 5, 1)});
  CHECK(keeper().keep(1, {.node = "a", .puts = {}, .dels = {1}, .leaves = false}));
  CHECK(keeper().keep(5, puts("e", 2, part)));
  CHECK(keys().size() == 4);
}

TEST_CASE("records that were there before count as a lost node's", "[node][records]") {
  const with_store here;
  // With its key and what is counted beside it.
  constexpr std::size_t part = record_limits::all_bytes / 4 - 200;
  auto store = manta::node::journal::global().store();
  for (std::uint64_t node = 1; node <= 4; ++node) {
    REQUIRE(control::commit_now(
        *store,
        {.changes = {{control::change::kind::put, key("old", node, 1), std::string(part, 'r')}}}));
  }
  CHECK(keeper().keep(9, puts("new", 1, part)));
  CHECK(keys().size() == 4);
  // One of them lives still.
  const std::vector<std::string> left = keys();
  const std::uint64_t lives = left[1] == key("old", 3, 1) ? 3 : 4;
  CHECK(keeper().keep(lives, puts("old", 2, 10)));
  records_question more = puts("new", 2, part);
  more.puts.push_back({3, std::string(part - 210, 'r')});
  CHECK(keeper().keep(9, more));
  const std::vector<std::string> after = keys();
  CHECK(std::count(after.begin(), after.end(), key("old", lives, 1)) == 1);
}

TEST_CASE("who watches keys hears nothing of records, and misses nothing for them",
          "[node][records]") {
  const with_store here;
  auto watch = manta::kv::watch<int>("user");
  static_cast<void>(manta::kv::put("user.first", 0).get());  // what it has not seen stays there
  for (std::uint64_t n = 0; n < 40; ++n) {
    CHECK(keeper().keep(7, puts("a", n, control::limits::history_bytes / 8)));
  }
  static_cast<void>(manta::kv::put("user.last", 1).get());
  for (const std::string key : {"user.first", "user.last"}) {
    const auto got = watch.next().get();
    CHECK(got.key == key);
    CHECK(got.kind == manta::kv::change_kind::put);
  }
}

TEST_CASE("the digest of a call does not look at names of handles, or at routes",
          "[node][records]") {
  using manta::node::task_records;
  using manta::spec::reference_kind;
  const auto head = [](const std::string& of) { return std::as_bytes(std::span(of)); };
  const std::string bytes = "some arguments";
  const std::string others = "other arguments";
  manta::spec::reference one{.what = {1, 2}, .owner = {3, 4}, .type = 5};
  manta::spec::reference again{.what = {6, 7}, .owner = {8, 9}, .type = 5};
  const auto with = [&](const std::string& of, const manta::spec::reference& handle) {
    return task_records::digest_of({head(of), {}, std::span(&handle, 1)});
  };
  CHECK(task_records::digest_of({head(bytes), {}, {}}) != manta::base::id{});
  CHECK(task_records::digest_of({head(bytes), {}, {}}) !=
        task_records::digest_of({head(others), {}, {}}));
  CHECK(with(bytes, one) == with(bytes, again));
  CHECK(with(bytes, one) != with(others, one));
  again.kind = reference_kind::actor;
  CHECK(with(bytes, one) != with(bytes, again));
  again.kind = reference_kind::array;
  CHECK(with(bytes, again) == manta::base::id{});
  const manta::spec::segment_view range{.bytes = head(bytes)};
  CHECK(task_records::digest_of({head(bytes), std::span(&range, 1), {}}) == manta::base::id{});
}

}  // namespace record_keeper_test
