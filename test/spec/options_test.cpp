// SPDX-License-Identifier: Apache-2.0
#include <manta/spec/options.hpp>

#include <limits>
#include <string>

#include <manta/spec/error.hpp>

#include <catch2/catch.hpp>

namespace {

using Catch::Matchers::Contains;
using manta::actor_options;
using manta::options;
using manta::spec::check;

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("options that are left alone are good", "[options]") {
  CHECK_NOTHROW(check(options{}, 1));
  CHECK_NOTHROW(check(actor_options{}));
}

TEST_CASE("cpus may be any fraction up to what the runtime has", "[options]") {
  for (const double good : {0.0, 0.001, 0.5, 1.0, 1.75, 2.0}) {
    CAPTURE(good);
    options asked;
    asked.cpus = good;
    CHECK_NOTHROW(check(asked, 2));
  }
  for (const double bad : {-0.5, -inf, inf, no_number}) {
    CAPTURE(bad);
    options asked;
    asked.cpus = bad;
    CHECK_THROWS_AS(check(asked, 2), manta::invalid_argument);
    CHECK_THROWS_WITH(check(asked, 2), Contains("option cpus") && Contains("0 or more"));
  }
  options too_many;
  too_many.cpus = 2.5;
  CHECK_THROWS_AS(check(too_many, 2), manta::infeasible);
  CHECK_THROWS_WITH(check(too_many, 2), Contains("asked 2.5, this runtime has 2"));
}

TEST_CASE("gpus may be asked for in sound amounts only, and there are none here", "[options]") {
  for (const double bad : {-1.0, 1.5, inf, no_number}) {
    CAPTURE(bad);
    options asked;
    asked.gpus = bad;
    CHECK_THROWS_AS(check(asked, 2), manta::invalid_argument);
    actor_options of_actor;
    of_actor.gpus = bad;
    CHECK_THROWS_AS(check(of_actor), manta::invalid_argument);
    CHECK_THROWS_WITH(check(of_actor), Contains("option gpus"));
  }
  for (const double good : {0.25, 1.0, 8.0}) {
    CAPTURE(good);
    options asked;
    asked.gpus = good;
    CHECK_THROWS_AS(check(asked, 2), manta::infeasible);
    actor_options of_actor;
    of_actor.gpus = good;
    CHECK_THROWS_AS(check(of_actor), manta::infeasible);
  }
}

TEST_CASE("retries and restarts are counts", "[options]") {
  options asked;
  asked.max_retries = 0;
  CHECK_NOTHROW(check(asked, 1));
  asked.max_retries = -1;
  CHECK_THROWS_AS(check(asked, 1), manta::invalid_argument);
  CHECK_THROWS_WITH(check(asked, 1), Contains("max_retries: asked -1, allowed 0 or more"));
  actor_options of_actor;
  of_actor.max_restarts = -2;
  CHECK_THROWS_AS(check(of_actor), manta::invalid_argument);
  CHECK_THROWS_WITH(check(of_actor), Contains("max_restarts: asked -2"));
}

TEST_CASE("a name is something or not given", "[options]") {
  options asked;
  asked.name = "fit";
  CHECK_NOTHROW(check(asked, 1));
  asked.name = "";
  CHECK_THROWS_AS(check(asked, 1), manta::invalid_argument);
  actor_options of_actor;
  of_actor.name = "";
  CHECK_THROWS_WITH(check(of_actor), Contains("option name"));
}
