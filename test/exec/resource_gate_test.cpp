// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/resource_gate.hpp>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <manta/exec/context.hpp>

#include <catch2/catch.hpp>

#include "exec/support.hpp"
#include "node/desk.hpp"

namespace {

using manta::exec::job;
using manta::exec::job_ops;
using manta::exec::resource_claim;
using manta::exec::resource_gate;
using manta::node::desk;
using manta_test::dice;
using manta_test::run_seed;
using manta_test::scaled;

std::vector<std::uint32_t> started;  // indices of the jobs that were let through later
std::vector<std::uint32_t> ended;    // of those that were refused or cancelled

const job_ops gate_job_ops = {
    .execute = nullptr,
    .run = nullptr,
    .ready = [](job* j) noexcept { started.push_back(j->index); },
    .cancel = [](job* j, const manta::error&) noexcept { ended.push_back(j->index); },
    .drop_arguments = nullptr,
    .drop_value = nullptr,
    .alias = nullptr,
    .origin = nullptr,
    .size = 0,
    .front = 0,
    .in_place = true,
    .function = "gate",
    .function_hash = 1,
};

// A job with a claim. Asking is like submitting: a need of its own is there until all is linked.
struct asker {
  job work{&gate_job_ops, 1};
  std::unique_ptr<resource_claim> claim;

  asker(std::uint32_t number, const manta::bundle& asked, const manta::placement& where = {})
      : claim(resource_gate::claim(manta::spec::to_demand(asked), where, false)) {
    work.index = number;
  }
  asker(std::uint32_t number, double cores) : asker(number, manta::bundle{cores, 0, 0, {}}) {}
  ~asker() {
    if (claim != nullptr) claim->release();
  }
  asker(const asker&) = delete;
  asker& operator=(const asker&) = delete;
  /// True when what it asked for was free.
  bool ask() { return claim->request(&work); }
};

// A runtime's accounts without the runtime; the test's thread is a caller.
struct open_gate {
  explicit open_gate(int cores, int gpus = 0) {
    started.clear();
    ended.clear();
    manta::config settings;
    settings.workers = cores;
    settings.gpus = gpus;
    settings.memory_bytes = 1000;
    desk::global().open(settings);
  }
  bool is_all_free() const {
    const auto report = desk::global().report();
    return report.free == report.total;
  }

 private:
  manta::exec::context caller_;
  manta::exec::context_scope scope_{caller_};
};

}  // namespace

TEST_CASE("claims are let through while their sum fits", "[resource_gate]") {
  const open_gate gate(2);
  asker a(1, 1.5);
  asker b(2, 0.5);
  asker c(3, 0.001);
  CHECK(a.ask());
  CHECK(b.ask());
  CHECK_FALSE(c.ask());
  b.claim->release();
  CHECK(started == std::vector<std::uint32_t>{3});
  CHECK(c.work.needs == 0);
  a.claim->release();
  c.claim->release();
}

TEST_CASE("fractions add up exactly", "[resource_gate]") {
  const open_gate gate(1);
  std::vector<std::unique_ptr<asker>> tenths;
  for (std::uint32_t i = 0; i < 11; ++i) {
    tenths.push_back(std::make_unique<asker>(i, 0.1));
    CHECK(tenths.back()->ask() == (i < 10));
  }
  for (auto& t : tenths) t->claim->release();
  asker whole(99, 1.0);
  CHECK(whole.ask());
  whole.claim->release();

  // A thousand rounds lose and gain nothing.
  for (int i = 0; i < 1000; ++i) {
    asker third(1, 1.0 / 3.0);
    CHECK(third.ask());
    third.claim->release();
  }
  asker again(100, 1.0);
  CHECK(again.ask());
  again.claim->release();
}

TEST_CASE("a large request at the front is not passed by small ones", "[resource_gate]") {
  const open_gate gate(2);
  asker running(1, 1);
  asker large(2, 2);
  asker small(3, 1);
  CHECK(running.ask());
  CHECK_FALSE(large.ask());
  CHECK_FALSE(small.ask());  // there is room, but large came first
  running.claim->release();
  CHECK(started == std::vector<std::uint32_t>{2});
  large.claim->release();
  CHECK(started == std::vector<std::uint32_t>{2, 3});
  small.claim->release();
}

TEST_CASE("a request that leaves the queue lets those behind it through", "[resource_gate]") {
  const open_gate gate(2);
  asker running(1, 1);
  asker large(2, 2);
  asker small(3, 0.5);
  asker small_too(4, 0.5);
  CHECK(running.ask());
  CHECK_FALSE(large.ask());
  CHECK_FALSE(small.ask());
  CHECK_FALSE(small_too.ask());
  large.claim->release();
  CHECK(started == std::vector<std::uint32_t>{3, 4});
  small.claim->release();
  small_too.claim->release();
  running.claim->release();
  asker all(5, 2);
  CHECK(all.ask());
  all.claim->release();
}

TEST_CASE("nothing asked is no claim, and releasing is harmless at any time", "[resource_gate]") {
  const open_gate gate(1);
  CHECK(resource_gate::claim({}, {}, false) == nullptr);
  asker all(1, 1);
  CHECK(all.ask());
  asker not_asked(3, 1);
  not_asked.claim->release();
  all.claim->release();
  all.claim->release();  // harmless the second time
  asker one(4, 1);
  asker more(5, 1);
  CHECK(one.ask());
  CHECK_FALSE(more.ask());
  one.claim->release();
  CHECK(started == std::vector<std::uint32_t>{5});
  more.claim->release();
  CHECK(gate.is_all_free());
}

TEST_CASE("a claim that is withdrawn leaves the line once", "[resource_gate]") {
  const open_gate gate(2);
  asker all(1, 2);
  asker waits(2, 2);
  asker behind(3, 1);
  CHECK(all.ask());
  CHECK_FALSE(waits.ask());
  CHECK_FALSE(behind.ask());
  CHECK_FALSE(all.claim->withdraw());  // it does not wait
  CHECK(waits.claim->withdraw());
  CHECK_FALSE(waits.claim->withdraw());
  CHECK(waits.work.needs == 0);
  all.claim->release();
  CHECK(started == std::vector<std::uint32_t>{3});
}

TEST_CASE("a job that was ended before it asks passes without anything", "[resource_gate]") {
  const open_gate gate(1);
  asker ended_before(1, 1);
  ended_before.work.try_claim();
  CHECK(ended_before.ask());
  CHECK_FALSE(ended_before.claim->is_settled());
  CHECK(gate.is_all_free());
}

TEST_CASE("sleeping lends cores only, and nests", "[resource_gate]") {
  const open_gate gate(1, 1);
  asker sleeper(1, {1, 1, 500, {}});
  asker cores(2, 1);
  asker gpu(3, {0, 1, 0, {}});
  CHECK(sleeper.ask());
  CHECK(sleeper.claim->gpus() == std::vector<int>{0});
  CHECK_FALSE(cores.ask());
  CHECK_FALSE(gpu.ask());
  sleeper.claim->lend();
  sleeper.claim->lend();
  CHECK(started == std::vector<std::uint32_t>{2});
  cores.claim->release();
  sleeper.claim->take_back();
  CHECK(desk::global().report().free.cpus == 1);
  sleeper.claim->take_back();
  CHECK(desk::global().report().free.cpus == 0);
  sleeper.claim->release();
  CHECK(started == std::vector<std::uint32_t>{2, 3});
}

TEST_CASE("those that wait in a removed group are refused", "[resource_gate]") {
  const open_gate gate(2);
  manta::sched::group_id id = 0;
  asker ready(1, 1);  // its job stands for the group's
  const auto group = desk::global().make_group({manta::spec::to_demand(manta::bundle{1, 0, 0, {}})},
                                               manta::strategy::pack, false, id);
  CHECK(group->request(&ready.work));
  manta::placement inside;
  inside.by = manta::placement::rule::group;
  inside.group = id;
  asker holds(2, {1, 0, 0, {}}, inside);
  asker waits(3, {1, 0, 0, {}}, inside);
  asker later(4, {1, 0, 0, {}}, inside);
  CHECK(holds.ask());
  CHECK_FALSE(waits.ask());
  CHECK(desk::global().remove_group(id));
  CHECK_FALSE(desk::global().remove_group(id));
  CHECK(ended == std::vector<std::uint32_t>{3});
  CHECK(waits.claim->refusal->code() == manta::errc::group_removed);
  CHECK_FALSE(later.ask());
  CHECK(ended == std::vector<std::uint32_t>{3, 4});
  CHECK_THROWS_AS(asker(5, {1, 0, 0, {}}, inside), manta::group_removed);
  holds.claim->release();
  CHECK(gate.is_all_free());
}

TEST_CASE("the end of the runtime ends those that wait", "[resource_gate]") {
  const open_gate gate(1);
  asker all(1, 1);
  asker waits(2, 1);
  CHECK(all.ask());
  CHECK_FALSE(waits.ask());
  resource_claim::cancel_waiting(manta::error(manta::errc::cancelled, "over"));
  CHECK(ended == std::vector<std::uint32_t>{2});
  all.claim->release();
  CHECK(started.empty());
}

TEST_CASE("a claim of an earlier runtime counts for nothing", "[resource_gate]") {
  const open_gate gate(1);
  asker before(1, 1);
  asker held(2, 1);
  CHECK(held.ask());
  const open_gate next(1);
  held.claim->release();
  CHECK(next.is_all_free());
  CHECK_FALSE(before.ask());
  CHECK(ended == std::vector<std::uint32_t>{1});
}

TEST_CASE("what waits is reported by what it asks for", "[resource_gate]") {
  const open_gate gate(1);
  asker all(1, 1);
  CHECK(all.ask());
  asker first(2, 0.5);
  asker second(3, 0.5);
  asker third(4, 1);
  CHECK_FALSE(first.ask());
  CHECK_FALSE(second.ask());
  CHECK_FALSE(third.ask());
  const auto unmet = desk::global().unmet();
  REQUIRE(unmet.size() == 2);
  CHECK(unmet[0].count == 2);
  CHECK(unmet[0].bundles == std::vector<manta::bundle>{{0.5, 0, 0, {}}});
  CHECK(unmet[1].count == 1);
  CHECK(unmet[0].longest_wait >= unmet[1].longest_wait);
  CHECK_FALSE(unmet[0].is_group);
}

TEST_CASE("random requests and releases agree with a queue", "[resource_gate]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  dice random(seed);
  constexpr std::int64_t capacity = 4000;
  const open_gate gate(4);
  std::deque<std::unique_ptr<asker>> askers;  // by number
  std::vector<std::int64_t> amount;
  std::deque<std::uint32_t> queued;
  std::vector<std::uint32_t> held;
  std::int64_t free = capacity;
  std::vector<std::uint32_t> expected;
  const auto admit = [&] {
    while (!queued.empty() && amount[queued.front()] <= free) {
      free -= amount[queued.front()];
      held.push_back(queued.front());
      expected.push_back(queued.front());
      queued.pop_front();
    }
  };
  for (int i = 0; i < scaled(50'000); ++i) {
    CAPTURE(i);
    const bool asks = held.empty() || (queued.size() < 20 && random.one_in(2));
    if (asks) {
      const auto number = static_cast<std::uint32_t>(askers.size());
      amount.push_back(static_cast<std::int64_t>(1 + random.below(random.one_in(5) ? 4000 : 900)));
      askers.push_back(
          std::make_unique<asker>(number, static_cast<double>(amount.back()) / 1000.0));
      const bool fits = queued.empty() && amount[number] <= free;
      REQUIRE(askers[number]->ask() == fits);
      if (fits) {
        free -= amount[number];
        held.push_back(number);
      } else {
        queued.push_back(number);
      }
    } else if (!queued.empty() && random.one_in(4)) {
      const auto at = queued.begin() + static_cast<std::ptrdiff_t>(random.below(queued.size()));
      const std::uint32_t number = *at;
      queued.erase(at);
      admit();
      askers[number]->claim->release();
    } else {
      std::swap(held[random.below(held.size())], held.back());
      const std::uint32_t number = held.back();
      held.pop_back();
      free += amount[number];
      admit();
      askers[number]->claim->release();
    }
    REQUIRE(started == expected);
    if (started.size() > 100) {
      started.clear();
      expected.clear();
    }
  }
}
