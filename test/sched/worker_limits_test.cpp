// SPDX-License-Identifier: Apache-2.0
#include "sched/worker_limits.hpp"

#include <cstdint>

#include <catch2/catch.hpp>

namespace {

using manta::sched::describe_overuse;
using manta::sched::worker_limits;
using verdict = worker_limits::verdict;

constexpr std::int64_t one_mib = std::int64_t{1} << 20U;

}  // namespace

TEST_CASE("without limits a worker is kept, whatever it has", "[sched]") {
  const worker_limits none;
  CHECK_FALSE(none.measures_memory());
  CHECK_FALSE(none.is_last(1'000'000));
  CHECK(none.judge({.resident_bytes = INT64_MAX, .is_busy = true}) == verdict::keep);
}

TEST_CASE("a worker is given so many tasks", "[sched]") {
  const worker_limits three{.tasks = 3};
  CHECK_FALSE(three.is_last(2));
  CHECK(three.is_last(3));
  CHECK(three.is_last(4));
  CHECK_FALSE(three.measures_memory());
}

TEST_CASE("a worker that has grown is replaced, unless an actor lives there", "[sched]") {
  const worker_limits some{.grown_bytes = 100};
  CHECK(some.measures_memory());
  CHECK(some.judge({.resident_bytes = 100}) == verdict::keep);
  CHECK(some.judge({.resident_bytes = 101}) == verdict::replace);
  CHECK(some.judge({.resident_bytes = 101, .is_busy = true}) == verdict::replace);
  CHECK(some.judge({.resident_bytes = 101, .is_busy = true, .has_actor = true}) == verdict::keep);
}

TEST_CASE("past its limit a worker is ended with what runs there", "[sched]") {
  const worker_limits some{.grown_bytes = 100, .memory_bytes = 200};
  CHECK(some.judge({.resident_bytes = 200, .is_busy = true}) == verdict::replace);
  CHECK(some.judge({.resident_bytes = 201, .is_busy = true}) == verdict::end);
  CHECK(some.judge({.resident_bytes = 201, .is_busy = true, .has_actor = true}) == verdict::end);
  // Nobody is to blame for what is there when nothing runs.
  CHECK(some.judge({.resident_bytes = 201}) == verdict::replace);
}

TEST_CASE("a limit of what runs there is for what came since it began", "[sched]") {
  const worker_limits none;
  CHECK(none.judge({.is_busy = true, .own_bytes = 100, .own_limit = 100}) == verdict::keep);
  CHECK(none.judge({.is_busy = true, .own_bytes = 101, .own_limit = 100}) == verdict::end);
  CHECK(none.judge({.is_busy = true, .own_bytes = -5, .own_limit = 100}) == verdict::keep);
  CHECK(none.judge({.is_busy = true, .own_bytes = 101}) == verdict::keep);
  const worker_limits some{.memory_bytes = 200 * one_mib};
  CHECK(
      some.judge(
          {.resident_bytes = 150 * one_mib, .is_busy = true, .own_bytes = 101, .own_limit = 100}) ==
      verdict::end);
  // It says which limit it was.
  CHECK(some.describe(
            {.resident_bytes = 150 * one_mib, .own_bytes = 12 * one_mib, .own_limit = 10 * one_mib},
            {}) == "too much memory: used 12 MiB of 10 MiB; largest workers: ");
  CHECK(some.describe(
            {.resident_bytes = 250 * one_mib, .own_bytes = 12 * one_mib, .own_limit = 10 * one_mib},
            {}) == "too much memory: used 250 MiB of 200 MiB; largest workers: ");
}

TEST_CASE("the text of a limit says what was used, of what, and who uses most", "[sched]") {
  CHECK(describe_overuse(812 * one_mib, 512 * one_mib, {{"a", one_mib}, {"hog", 812 * one_mib}}) ==
        "too much memory: used 812 MiB of 512 MiB; largest workers: hog 812 MiB, a 1 MiB");
  CHECK(describe_overuse(one_mib + 1, one_mib,
                         {{"a", 1}, {"b", 2}, {"c", 3 * one_mib}, {"d", 4 * one_mib}}) ==
        "too much memory: used 2 MiB of 1 MiB; largest workers: d 4 MiB, c 3 MiB, b 1 MiB");
}
