// SPDX-License-Identifier: Apache-2.0
// Records of how tasks that went to other nodes are run again: settler_records.cpp looks at them in
// the store while its tasks live, and this at what a job leaves there.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cluster/checks.hpp"
#include "cluster/lone_head.hpp"

namespace cluster_record_test {

namespace {

using namespace cluster_test;  // NOLINT: the words of this folder
using Catch::Matchers::Contains;

variables with_store(const site& here) {
  return {"MANTA_NODES=4", "MANTA_WORKERS=8", "MANTA_CONTROL=" + here.path() + "/control",
          beside_rocksdb};
}

// And of the records nothing was said to people.
void check_recorded(const outcome& o, const std::string& what) {
  check_right(o, what);
  CHECK_THAT(o.err, !Contains("records of tasks"));
}

// Values that the folder has, one in a line.
std::string values_in(const site& here) {
  const outcome is =
      here.run({MANTA_TOOL, "control", "dump", "--prefix", "task/", here.path() + "/control"},
               {beside_rocksdb});
  CHECK(is.status == 0);
  return is.out;
}

// Of tasks: what a program has time for.
struct amounts {
  int plain = 0;
  int with_asan = 0;
  int with_tsan = 0;
};
std::string how_many(const amounts& of) {
  if (has_tsan) return std::to_string(of.with_tsan);
  return std::to_string(manta::base::is_sanitized ? of.with_asan : of.plain);
}

}  // namespace

TEST_CASE("the store has the records of the tasks that live, and none when a job is over",
          "[cluster][record]") {
  const site here;
  check_recorded(here.run({settler, "recorded"}, with_store(here)), "recorded");
  CHECK(values_in(here).empty());
  check_recorded(here.run({settler, "recorded"}, {"MANTA_NODES=4", "MANTA_WORKERS=8"}), "recorded");
}

TEST_CASE("of a hundred thousand tasks in four nodes no record is left", "[cluster][record]") {
  const site here;
  const std::string tasks = how_many({100'000, 20'000, 4000});
  const variables with{"MANTA_NODES=4", "MANTA_WORKERS=1"};
  check_recorded(here.run({settler, "unrecorded", tasks}, with), "unrecorded");
}

// A million in the slow suite: their number is all that differs.
TEST_CASE("of a million tasks over four nodes nothing is left in any",
          "[cluster][record][repeats]") {
  const site here;
  const bool is_full = std::getenv("MANTA_TEST_FULL") != nullptr;
  const std::string tasks = is_full ? "1000000" : how_many({40'000, 8000, 4000});
  const std::string fewer = how_many({10'000, 4000, 2000});
  for (const std::string maps : {"yes", "no"}) {
    const outcome o = here.run({settler, "million", maps == "yes" ? tasks : fewer},
                               {"MANTA_NODES=4", "MANTA_WORKERS=1", "MANTA_MAP_ARRAYS=" + maps});
    std::printf("%s", o.out.c_str());
    check_right(o, "million");
  }
}

TEST_CASE("what tasks send on is written, and goes", "[cluster][record]") {
  const site here;
  const std::string tasks = how_many({20'000, 8000, 2000});
  check_recorded(here.run({settler, "streamed", tasks}, {"MANTA_NODES=4", "MANTA_WORKERS=2"}),
                 "streamed");
}

TEST_CASE("a lost node's records stay until its job ends, and others' are right",
          "[cluster][record]") {
  const site here;
  child job({settler, "survived"}, here.with(with_store(here)));
  const bool is_ready = job.says("pid rank-3");
  if (is_ready) kill(pids_in(job.so_far().out).at("rank-1"), SIGKILL);
  check_recorded(job.finish(), "survived");
  CHECK(values_in(here).empty());
}

TEST_CASE("the records of a driver that was killed go with the next job", "[cluster][record]") {
  const site here;
  {
    child job({settler, "survived"}, here.with(with_store(here)));
    const bool is_ready = job.says("pid rank-3");
    CHECK(is_ready);
    if (is_ready) kill(pids_in(job.so_far().out).at("rank-0"), SIGKILL);
    job.finish();
  }
  CHECK_THAT(values_in(here), Contains("rank-"));
  check_recorded(here.run({settler, "spread"}, with_store(here)), "spread");
  CHECK(values_in(here).empty());
}

TEST_CASE("records go on with a head of its own, which is killed and started again",
          "[cluster][record]") {
  lone_head with;
  child driver = with.driver("first", "relayed");
  REQUIRE(driver.says("it may be killed\n"));
  CHECK_THAT(with.records("task/"), Contains("helper"));
  with.kill_and_restart();
  check_recorded(driver.finish(), "relayed");
  with.end();
  CHECK(with.records("task/").empty());
}

}  // namespace cluster_record_test
