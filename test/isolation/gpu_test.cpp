// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include <catch2/catch.hpp>

#include <manta/manta.hpp>

#include "isolation/support.hpp"
#include "node/gpu_sight.hpp"

// Which gpus tasks and actors in isolated workers are told of, and which their libraries see. No
// gpu is needed: what is looked at is this_task::gpus and CUDA_VISIBLE_DEVICES.

namespace gpu_test {

namespace {

using test::comes_true;
using test::shared;
using test::shared_numbers;

constexpr const char* variable = "CUDA_VISIBLE_DEVICES";

/// Sets the variable, and what it was before at the end. While this process has one thread.
class visible_here {
 public:
  explicit visible_here(const char* value) {
    if (const char* const old = std::getenv(variable)) was_ = old;
    value == nullptr ? ::unsetenv(variable) : ::setenv(variable, value, 1);
  }
  ~visible_here() { was_ ? ::setenv(variable, was_->c_str(), 1) : ::unsetenv(variable); }
  visible_here(const visible_here&) = delete;
  visible_here& operator=(const visible_here&) = delete;

 private:
  std::optional<std::string> was_;
};

struct sight {
  std::vector<int> gpus;
  std::string seen;
  int pid = 0;
  bool operator==(const sight&) const = default;
};
sight look() {
  const char* const seen = std::getenv(variable);
  return {manta::this_task::gpus(), seen == nullptr ? "not set" : seen, getpid()};
}
// At the same time as another one.
sight looks_together() {
  ++shared(0);
  comes_true([] { return shared(0) >= 2; });
  return look();
}
// Before, of what it calls, and after.
std::vector<sight> looks_around(int gpus_of_child) {
  manta::options o;
  o.gpus = gpus_of_child;
  std::vector<sight> out{look()};
  out.push_back(manta::remote<look>.with(o)().get());
  out.push_back(look());
  return out;
}
manta::coroutine<sight> looks_later() {
  co_await manta::remote<test::square>(3);
  co_return look();
}

struct viewer {
  sight born = look();
  sight at_birth() const { return born; }
  sight now() { return look(); }
  [[noreturn]] void dies() { ::_exit(3); }
};
std::vector<sight> makes_a_viewer() {
  const auto made = manta::spawn<viewer>.with({.gpus = 2, .max_concurrency = 2})();
  return {manta::remote<&viewer::at_birth>(made).get(), manta::remote<&viewer::now>(made).get()};
}

manta::config with_gpus(int gpus, int workers = 2) {
  manta::config c = test::isolated(workers);
  c.gpus = gpus;
  return c;
}
manta::options asking(double gpus) {
  manta::options o;
  o.gpus = gpus;
  return o;
}

}  // namespace

TEST_CASE("a task sees the gpus that it was given, in its worker", "[isolation]") {
  const visible_here none(nullptr);
  const shared_numbers numbers;
  const manta::runtime rt(with_gpus(4));
  const sight two = manta::remote<look>.with(asking(2))().get();
  CHECK(two.gpus == std::vector<int>{0, 1});
  CHECK(two.seen == "0,1");
  const sight part = manta::remote<look>.with(asking(0.5))().get();
  REQUIRE(part.gpus.size() == 1);
  CHECK(part.seen == std::to_string(part.gpus[0]));
  const auto one = manta::remote<looks_together>.with(asking(1))();
  const auto other = manta::remote<looks_together>.with(asking(1))();
  CHECK(one.get().gpus.size() == 1);
  CHECK(other.get().gpus.size() == 1);
  CHECK(one.get().seen != other.get().seen);
  CHECK(comes_true([&] { return rt.resources().free == rt.resources().total; }));
}

TEST_CASE("a task without gpus sees none, and who used some keeps no worker", "[isolation]") {
  const visible_here none(nullptr);
  const manta::runtime rt(with_gpus(2, 1));
  const sight before = manta::remote<look>().get();
  CHECK(before.gpus.empty());
  CHECK(before.seen.empty());
  std::vector<int> pids;
  for (int i = 0; i < 3; ++i) {
    const sight with = manta::remote<look>.with(asking(1))().get();
    CHECK(with.gpus.size() == 1);
    pids.push_back(with.pid);
    const sight without = manta::remote<look>().get();
    CHECK(without.seen.empty());
    CHECK(without.pid != with.pid);
  }
  std::ranges::sort(pids);
  CHECK(std::ranges::adjacent_find(pids) == pids.end());
}

TEST_CASE("indices are those of the devices that the driver sees", "[isolation]") {
  const visible_here some("5,GPU-8a,MIG-1/2");
  manta::config c = test::isolated();
  const manta::runtime rt(c);
  CHECK(manta::remote<look>.with(asking(3))().get().seen == "5,GPU-8a,MIG-1/2");
  const sight one = manta::remote<look>.with(asking(1))().get();
  CHECK(one.gpus == std::vector<int>{0});
  CHECK(one.seen == "5");
}

TEST_CASE("a runtime without gpus leaves the variable alone", "[isolation]") {
  const visible_here some("7");
  const manta::runtime rt(with_gpus(0));
  CHECK(manta::remote<look>().get().seen == "7");
}

TEST_CASE("a task's gpus are its own, whatever it calls on its stack", "[isolation]") {
  const visible_here none(nullptr);
  const manta::runtime rt(with_gpus(4));
  manta::options o = asking(2);
  const std::vector<sight> without = manta::remote<looks_around>.with(o)(0).get();
  REQUIRE(without.size() == 3);
  CHECK(without[0].seen == "0,1");
  CHECK(without[1].gpus.empty());
  CHECK(without[1].seen.empty());
  CHECK(without[2] == without[0]);
  const std::vector<sight> both = manta::remote<looks_around>.with(o)(1).get();
  REQUIRE(both.size() == 3);
  CHECK(both[1].gpus.size() == 1);
  CHECK(both[1].pid != both[0].pid);  // which may have initialised CUDA
  CHECK(both[1].gpus[0] > 1);
  CHECK(both[2] == both[0]);
  const std::vector<sight> child = manta::remote<looks_around>(1).get();
  CHECK(child.at(0).seen.empty());
  CHECK(child.at(1).gpus.size() == 1);
  CHECK(child.at(2) == child.at(0));
  const sight later = manta::remote<looks_later>.with(o)().get();
  CHECK(later.gpus == std::vector<int>{0, 1});
}

TEST_CASE("an actor sees its gpus all its life, and the next one has another process",
          "[isolation]") {
  const visible_here none(nullptr);
  const manta::runtime rt(with_gpus(2));
  auto a = manta::spawn<viewer>.with({.gpus = 1, .max_restarts = 1})();
  const sight first = manta::remote<&viewer::at_birth>(a).get();
  CHECK(first.gpus.size() == 1);
  CHECK(first.seen == std::to_string(first.gpus.at(0)));
  CHECK(manta::remote<&viewer::now>(a).get() == first);
  CHECK_THROWS_AS(manta::remote<&viewer::dies>(a).get(), manta::actor_lost);
  const sight again = manta::remote<&viewer::now>(a).get();
  CHECK(again.gpus == first.gpus);
  CHECK(again.seen == first.seen);
  const auto end = manta::monitor(a);
  a = {};
  end.get(test::patience);
  const auto plain = manta::spawn<viewer>();
  const sight other = manta::remote<&viewer::now>(plain).get();
  CHECK(other.pid != again.pid);
  CHECK(other.seen.empty());
  const std::vector<sight> made = manta::remote<makes_a_viewer>().get();
  CHECK(made.at(0).gpus == std::vector<int>{0, 1});
  CHECK(made.at(0).seen == "0,1");
  CHECK(made.at(1) == made.at(0));
}

TEST_CASE("the entries of such a variable", "[isolation]") {
  using manta::node::gpu_sight;
  CHECK(gpu_sight::entries_of(nullptr).empty());
  CHECK(gpu_sight::entries_of("").empty());
  CHECK(gpu_sight::entries_of("3") == std::vector<std::string>{"3"});
  CHECK(gpu_sight::entries_of("3,GPU-a") == std::vector<std::string>{"3", "GPU-a"});
}

}  // namespace gpu_test
