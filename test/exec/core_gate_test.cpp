// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/core_gate.hpp>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

namespace {

using manta::exec::core_claim;
using manta::exec::job;
using manta::exec::job_ops;
using manta::exec::reset_core_gate;
using manta_test::dice;
using manta_test::run_seed;
using manta_test::scaled;

std::vector<std::uint32_t> started;  // indices of the jobs that were let through later

const job_ops gate_job_ops = {
    .execute = nullptr,
    .run = nullptr,
    .ready = [](job* j) noexcept { started.push_back(j->index); },
    .cancel = nullptr,
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
  core_claim claim;

  asker(std::uint32_t number, double cores) : claim(cores) { work.index = number; }
  /// True when the cores were free.
  bool ask() {
    claim.request(&work);
    return work.needs.load() == 0;
  }
};

struct open_gate {
  explicit open_gate(int cores) {
    started.clear();
    reset_core_gate(cores);
  }
  ~open_gate() { reset_core_gate(1); }
};

}  // namespace

TEST_CASE("claims are let through while their sum fits", "[core_gate]") {
  const open_gate gate(2);
  asker a(1, 1.5);
  asker b(2, 0.5);
  asker c(3, 0.001);
  CHECK(a.ask());
  CHECK(b.ask());
  CHECK_FALSE(c.ask());
  b.claim.release();
  CHECK(started == std::vector<std::uint32_t>{3});
  CHECK(c.work.needs == 0);
  a.claim.release();
  c.claim.release();
}

TEST_CASE("fractions add up exactly", "[core_gate]") {
  const open_gate gate(1);
  std::vector<std::unique_ptr<asker>> tenths;
  for (std::uint32_t i = 0; i < 11; ++i) {
    tenths.push_back(std::make_unique<asker>(i, 0.1));
    CHECK(tenths.back()->ask() == (i < 10));
  }
  for (auto& t : tenths) t->claim.release();
  asker whole(99, 1.0);
  CHECK(whole.ask());
  whole.claim.release();

  // A thousand rounds lose and gain nothing.
  for (int i = 0; i < 1000; ++i) {
    asker third(1, 1.0 / 3.0);
    CHECK(third.ask());
    third.claim.release();
  }
  asker again(100, 1.0);
  CHECK(again.ask());
  again.claim.release();
}

TEST_CASE("a large request at the front is not passed by small ones", "[core_gate]") {
  const open_gate gate(2);
  asker running(1, 1);
  asker large(2, 2);
  asker small(3, 1);
  CHECK(running.ask());
  CHECK_FALSE(large.ask());
  CHECK_FALSE(small.ask());  // there is room, but large came first
  running.claim.release();
  CHECK(started == std::vector<std::uint32_t>{2});
  large.claim.release();
  CHECK(started == std::vector<std::uint32_t>{2, 3});
  small.claim.release();
}

TEST_CASE("a request that leaves the queue lets those behind it through", "[core_gate]") {
  const open_gate gate(2);
  asker running(1, 1);
  asker large(2, 2);
  asker small(3, 0.5);
  asker small_too(4, 0.5);
  CHECK(running.ask());
  CHECK_FALSE(large.ask());
  CHECK_FALSE(small.ask());
  CHECK_FALSE(small_too.ask());
  large.claim.release();
  CHECK(started == std::vector<std::uint32_t>{3, 4});
  small.claim.release();
  small_too.claim.release();
  running.claim.release();
  asker all(5, 2);
  CHECK(all.ask());
  all.claim.release();
}

TEST_CASE("a claim of nothing is always let through and may be released", "[core_gate]") {
  const open_gate gate(1);
  asker all(1, 1);
  asker none(2, 0);
  CHECK(all.ask());
  CHECK(none.ask());
  none.claim.release();
  core_claim never;
  never.release();
  asker not_asked(3, 1);
  not_asked.claim.release();
  all.claim.release();
  all.claim.release();  // harmless the second time
  asker one(4, 1);
  asker more(5, 1);
  CHECK(one.ask());
  CHECK_FALSE(more.ask());
  one.claim.release();
  more.claim.release();
}

TEST_CASE("random requests and releases agree with a queue", "[core_gate]") {
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
      askers[number]->claim.release();
    } else {
      std::swap(held[random.below(held.size())], held.back());
      const std::uint32_t number = held.back();
      held.pop_back();
      free += amount[number];
      admit();
      askers[number]->claim.release();
    }
    REQUIRE(started == expected);
    if (started.size() > 100) {
      started.clear();
      expected.clear();
    }
  }
  for (auto& a : askers) a->claim.release();
}
