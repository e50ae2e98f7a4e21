// SPDX-License-Identifier: Apache-2.0
#include <manta/spec/options.hpp>

#include <limits>
#include <string>

#include <manta/spec/error.hpp>

#include <catch2/catch.hpp>

#include "constants.hpp"

namespace {

using Catch::Matchers::Contains;
using manta::actor_options;
using manta::options;
using manta::spec::check;
using manta_test::inf;
using manta_test::no_number;

}  // namespace

TEST_CASE("options that are left alone are good", "[options]") {
  CHECK_NOTHROW(check(options{}));
  CHECK_NOTHROW(check(actor_options{}));
}

TEST_CASE("cpus may be any fraction", "[options]") {
  for (const double good : {0.0, 0.001, 0.5, 1.0, 1.75, 2.0}) {
    CAPTURE(good);
    options asked;
    asked.cpus = good;
    CHECK_NOTHROW(check(asked));
  }
  for (const double bad : {-0.5, -inf, inf, no_number}) {
    CAPTURE(bad);
    options asked;
    asked.cpus = bad;
    CHECK_THROWS_AS(check(asked), manta::invalid_argument);
    CHECK_THROWS_WITH(check(asked), Contains("option cpus") && Contains("0 or more"));
  }
}

TEST_CASE("gpus may be asked for in sound amounts only", "[options]") {
  for (const double bad : {-1.0, 1.5, inf, no_number}) {
    CAPTURE(bad);
    options asked;
    asked.gpus = bad;
    CHECK_THROWS_AS(check(asked), manta::invalid_argument);
    actor_options of_actor;
    of_actor.gpus = bad;
    CHECK_THROWS_AS(check(of_actor), manta::invalid_argument);
    CHECK_THROWS_WITH(check(of_actor), Contains("option gpus"));
  }
  for (const double good : {0.25, 1.0, 8.0}) {
    CAPTURE(good);
    options asked;
    asked.gpus = good;
    CHECK_NOTHROW(check(asked));
    actor_options of_actor;
    of_actor.gpus = good;
    CHECK_NOTHROW(check(of_actor));
  }
}

TEST_CASE("retries and restarts are counts", "[options]") {
  options asked;
  asked.max_retries = 0;
  CHECK_NOTHROW(check(asked));
  asked.max_retries = -1;
  CHECK_THROWS_AS(check(asked), manta::invalid_argument);
  CHECK_THROWS_WITH(check(asked), Contains("max_retries: asked -1, allowed 0 or more"));
  actor_options of_actor;
  of_actor.max_restarts = -2;
  CHECK_THROWS_AS(check(of_actor), manta::invalid_argument);
  CHECK_THROWS_WITH(check(of_actor), Contains("max_restarts: asked -2"));
}

TEST_CASE("a name is something or not given", "[options]") {
  options asked;
  asked.name = "fit";
  CHECK_NOTHROW(check(asked));
  asked.name = "";
  CHECK_THROWS_AS(check(asked), manta::invalid_argument);
  actor_options of_actor;
  of_actor.name = "";
  CHECK_THROWS_WITH(check(of_actor), Contains("option name"));
  of_actor.name = std::string(1024, 'n');
  CHECK_NOTHROW(check(of_actor));
  of_actor.name = std::string(1025, 'n');
  CHECK_THROWS_WITH(check(of_actor), Contains("a name of 1025 bytes, allowed 1 to 1024"));
  const manta::call_options call{.group = std::string(1025, 'g')};
  CHECK_THROWS_WITH(check(call), Contains("option group"));
}

TEST_CASE("memory, own resources and wishes are checked, of tasks and actors", "[options]") {
  const auto is_refused = [](const auto& asked, const char* field) {
    CHECK_THROWS_AS(check(asked), manta::invalid_argument);
    CHECK_THROWS_WITH(check(asked), Contains(field));
  };
  options asked;
  asked.memory_bytes = static_cast<std::size_t>(-1);
  is_refused(asked, "option memory_bytes");
  asked = {};
  asked.resources = {{"disk", 0.0001}};
  is_refused(asked, "option resources");
  asked = {};
  asked.where = manta::on_node("");
  is_refused(asked, "on_node");
  actor_options of_actor;
  of_actor.cpus = -1.0;
  is_refused(of_actor, "option cpus");
  of_actor = {};
  of_actor.memory_bytes = static_cast<std::size_t>(-1);
  is_refused(of_actor, "option memory_bytes");
  of_actor = {};
  of_actor.resources = {{"disk", 1}, {"disk", 1}};
  is_refused(of_actor, "option resources");
}

TEST_CASE("a namespace is no longer than a name may be", "[options]") {
  actor_options asked;
  asked.name = "n";
  asked.name_space = std::string(1024, 's');
  CHECK_NOTHROW(check(asked));
  asked.name_space += 's';
  CHECK_THROWS_AS(check(asked), manta::invalid_argument);
  CHECK_THROWS_WITH(check(asked), Contains("option name_space") && Contains("0 to 1024"));
}

TEST_CASE("a wish of a kind that there is not is refused", "[options]") {
  manta::placement unknown;
  unknown.by = static_cast<manta::placement::rule>(9);
  CHECK_THROWS_AS(manta::spec::check(manta::options{.where = unknown}), manta::invalid_argument);
  CHECK_THROWS_AS(manta::spec::check(manta::actor_options{.where = unknown}),
                  manta::invalid_argument);
}

TEST_CASE("enforced memory needs isolation, and says so", "[options]") {
  options asked;
  asked.memory_bytes = 1 << 20;
  asked.enforce_memory = true;
  CHECK_THROWS_AS(check(asked), manta::unsupported);
  CHECK_THROWS_WITH(check(asked), Contains("enforce_memory") &&
                                      Contains(".isolation = manta::isolation_mode::processes"));
  CHECK_NOTHROW(check(asked, manta::isolation_mode::processes));
  asked.isolation = manta::isolation_mode::processes;
  CHECK_NOTHROW(check(asked));
  asked.isolation = manta::isolation_mode::threads;
  CHECK_THROWS_AS(check(asked, manta::isolation_mode::processes), manta::unsupported);
  asked.isolation = manta::isolation_mode::processes;
  asked.memory_bytes = 0;
  CHECK_THROWS_AS(check(asked), manta::invalid_argument);
  asked.isolation = static_cast<manta::isolation_mode>(2);
  CHECK_THROWS_WITH(check(asked), Contains("option isolation: asked 2"));
  actor_options of_actor;
  of_actor.enforce_memory = true;
  CHECK_THROWS_AS(check(of_actor), manta::unsupported);
}

TEST_CASE("what options ask of a node is one demand", "[options]") {
  options asked;
  CHECK(manta::spec::to_demand(asked).is_empty());
  asked.cpus = 0;
  CHECK(manta::spec::to_demand(asked).is_empty());
  asked.cpus = 0.5;
  asked.gpus = 1;
  asked.memory_bytes = 7;
  asked.resources = {{"disk", 2}};
  const auto demand = manta::spec::to_demand(asked);
  CHECK(manta::spec::to_string(demand) == "0.5 cpus, 1 gpus, 7 memory_bytes, 2 disk");
}
