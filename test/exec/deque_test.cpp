// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/deque.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

namespace {

using manta::exec::deque;
using manta_test::dice;
using manta_test::run_seed;
using manta_test::scaled;

void* entry(std::uintptr_t n) { return reinterpret_cast<void*>(n); }
std::uintptr_t number(void* e) { return reinterpret_cast<std::uintptr_t>(e); }

std::size_t theft_size(std::size_t size) {
  if (size == 0) return 0;
  return size >= static_cast<std::size_t>(deque::deep) ? static_cast<std::size_t>(deque::batch) : 1;
}

// The deque beside a std::deque; every operation is checked at once.
class pair_of_deques {
 public:
  explicit pair_of_deques(std::size_t capacity) : real_(capacity) {}

  void push() {
    real_.push(entry(++last_));
    model_.push_back(last_);
  }
  void pop() {
    void* const e = real_.pop();
    if (model_.empty()) {
      REQUIRE(e == nullptr);
      return;
    }
    REQUIRE(number(e) == model_.back());
    model_.pop_back();
  }
  void steal() {
    deque::loot loot;
    bool lost = false;
    const std::size_t n = real_.steal(loot, lost);
    REQUIRE_FALSE(lost);
    REQUIRE(n == theft_size(model_.size()));
    for (std::size_t i = 0; i < n; ++i) {
      REQUIRE(number(loot[i]) == model_.front());
      model_.pop_front();
    }
  }
  void check() {
    REQUIRE(real_.size() == static_cast<std::int64_t>(model_.size()));
    REQUIRE(real_.is_empty() == model_.empty());
    REQUIRE(number(real_.newest()) == (model_.empty() ? 0 : model_.back()));
  }
  void drain() {
    while (!model_.empty()) pop();
    pop();
    check();
  }
  deque& real() { return real_; }
  std::size_t size() const { return model_.size(); }

 private:
  deque real_;
  std::deque<std::uintptr_t> model_;
  std::uintptr_t last_ = 0;
};

}  // namespace

TEST_CASE("an empty deque gives nothing to owner and thief", "[deque]") {
  pair_of_deques d(256);
  d.pop();
  d.steal();
  d.check();
  d.push();
  d.pop();
  d.pop();
  d.push();
  d.steal();
  d.steal();
  d.check();
}

TEST_CASE("a thief takes one entry below the deep mark and a batch from it on", "[deque]") {
  for (std::size_t size = 0; size < 200; ++size) {
    CAPTURE(size);
    pair_of_deques d(256);
    for (std::size_t i = 0; i < size; ++i) d.push();
    while (d.size() > 0) d.steal();
    d.steal();
    d.check();
  }
}

TEST_CASE("the owner takes back every entry at every depth, newest first", "[deque]") {
  for (std::size_t size = 0; size < 200; ++size) {
    CAPTURE(size);
    pair_of_deques d(256);
    for (std::size_t i = 0; i < size; ++i) d.push();
    d.check();
    d.drain();
  }
}

TEST_CASE("a deque of any first capacity grows without losing an entry", "[deque]") {
  for (std::size_t capacity = 1; capacity <= 1024; capacity *= 2) {
    for (const std::size_t stolen_before : std::array<std::size_t, 5>{0, 1, 5, 70, 300}) {
      CAPTURE(capacity, stolen_before);
      pair_of_deques d(capacity);
      for (std::size_t i = 0; i < stolen_before; ++i) {
        d.push();
        d.steal();
      }
      for (int i = 0; i < 3000; ++i) d.push();
      d.check();
      for (int i = 0; i < 40; ++i) d.steal();
      d.drain();
    }
  }
}

TEST_CASE("random operations agree with a plain deque", "[deque]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  dice random(seed);
  for (const std::size_t capacity : {1U, 16U, 64U, 256U, 8192U}) {
    pair_of_deques d(capacity);
    std::size_t aim = 0;
    for (int i = 0; i < scaled(100'000); ++i) {
      CAPTURE(capacity, i);
      // Depths around the marks are aimed at most often.
      if (random.one_in(50)) aim = random.one_in(8) ? random.below(5000) : random.below(100);
      const bool grows = d.size() < aim ? !random.one_in(5) : random.one_in(5);
      if (grows) {
        d.push();
      } else if (random.one_in(4)) {
        d.steal();
      } else {
        d.pop();
      }
      if (d.size() == 0 && random.one_in(3)) d.real().shrink();
      d.check();
    }
    d.drain();
  }
}

TEST_CASE("shrinking an empty large buffer leaves a deque that works", "[deque]") {
  pair_of_deques d(16);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 100'000; ++i) d.push();
    d.real().shrink();  // not empty: nothing may happen
    d.check();
    d.drain();
    d.real().shrink();
    d.real().shrink();
    d.check();
  }
}

namespace {

// One owner and some thieves; what each got is counted when all have stopped.
class stress {
 public:
  explicit stress(std::size_t entries, std::size_t capacity)
      : jobs_(capacity), seen_(entries + 1), entries_(entries) {}

  void run(int thieves, std::uint64_t seed, std::size_t deepest) {
    std::vector<std::thread> threads;
    for (int i = 0; i < thieves; ++i) threads.emplace_back([this] { steal_all(); });
    // On a busy machine the owner would be done before a thief's first turn.
    while (running_.load() < thieves) std::this_thread::yield();
    own(seed, deepest);
    is_done_.store(true);
    for (std::thread& t : threads) t.join();
    while (void* e = jobs_.pop()) count(e);
  }
  std::size_t wrong() const {
    return static_cast<std::size_t>(
        std::count_if(seen_.begin() + 1, seen_.end(), [](const auto& n) { return n.load() != 1; }));
  }
  std::size_t strange() const { return strange_.load(); }
  std::size_t batches() const { return batches_.load(); }
  std::size_t singles() const { return singles_.load(); }

 private:
  void count(void* e) {
    const std::uintptr_t n = number(e);
    if (n == 0 || n > entries_) {
      strange_.fetch_add(1);
    } else {
      seen_[n].fetch_add(1, std::memory_order_relaxed);
    }
  }
  void steal_all() {
    deque::loot loot;
    running_.fetch_add(1);
    while (!is_done_.load(std::memory_order_relaxed)) {
      bool lost = false;
      const std::size_t n = jobs_.steal(loot, lost);
      for (std::size_t i = 0; i < n; ++i) count(loot[i]);
      if (n > 1) batches_.fetch_add(1, std::memory_order_relaxed);
      if (n == 1) singles_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  // Goes up and down between random depths, most of them next to where the rules change.
  void own(std::uint64_t seed, std::size_t deepest) {
    dice random(seed);
    std::uintptr_t next = 1;
    while (next <= entries_) {
      const std::size_t up = random.one_in(16) ? random.below(deepest) : 48 + random.below(48);
      while (static_cast<std::size_t>(jobs_.size()) < up && next <= entries_) {
        jobs_.push(entry(next++));
      }
      const std::size_t down = random.one_in(3) ? 0 : random.below(64);
      while (static_cast<std::size_t>(jobs_.size()) > down) {
        void* const e = jobs_.pop();
        if (e == nullptr) break;
        count(e);
      }
      if (down == 0) jobs_.shrink();
    }
  }

  deque jobs_;
  std::vector<std::atomic<std::uint8_t>> seen_;
  const std::size_t entries_;
  std::atomic<bool> is_done_{false};
  std::atomic<int> running_{0};
  std::atomic<std::size_t> strange_{0};
  std::atomic<std::size_t> batches_{0};
  std::atomic<std::size_t> singles_{0};
};

// Answers how many thefts there were: without any, nothing was tried.
std::size_t check_stress(std::size_t entries, std::size_t capacity, int thieves,
                         std::size_t deepest) {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed, entries, capacity, thieves, deepest);
  stress s(entries, capacity);
  s.run(thieves, seed, deepest);
  CHECK(s.wrong() == 0);
  CHECK(s.strange() == 0);
  return s.batches() + s.singles();
}

}  // namespace

// What could break: a batch theft and the owner's unlocked pop take the same entry, which shows as
// an entry counted twice; or a buffer is left too early, which shows as one missing.
TEST_CASE("every entry is taken exactly once while three thieves take batches", "[deque]") {
  CHECK(check_stress(static_cast<std::size_t>(scaled(8'000'000)), 256, 3, 200) > 0);
}

TEST_CASE("every entry is taken exactly once while the buffer grows under the thieves", "[deque]") {
  std::size_t thefts = 0;
  // More rounds where one core is all there is and no thief had its turn while there was something.
  for (int round = 0; round < 20 || (thefts == 0 && round < 400); ++round) {
    thefts += check_stress(static_cast<std::size_t>(scaled(300'000)), 64, 3, 40'000);
  }
  CHECK(thefts > 0);
}

TEST_CASE("every entry is taken exactly once by the owner and one thief", "[deque]") {
  std::size_t thefts = check_stress(static_cast<std::size_t>(scaled(8'000'000)), 256, 1, 100);
  // More rounds where the thief had no turn, as above.
  for (int round = 0; thefts == 0 && round < 400; ++round) {
    thefts += check_stress(static_cast<std::size_t>(scaled(300'000)), 256, 1, 100);
  }
  CHECK(thefts > 0);
}

// A thief that stops between looking and taking must get nothing once the owner has come near what
// it looked at. Without the change of the tag, it would take entries that the owner has popped.
TEST_CASE("a batch planned on a deep deque is void when the owner has popped into it", "[deque]") {
  for (const int left : {0, 1, 5, 31}) {
    manta::exec::deque jobs;
    std::vector<int> values(100);
    for (int& v : values) jobs.push(&v);
    manta::exec::deque::plan_of_theft theft;
    REQUIRE(jobs.plan(theft));
    REQUIRE(theft.count == 32);
    while (jobs.size() > left) REQUIRE(jobs.pop() != nullptr);
    REQUIRE_FALSE(jobs.take(theft));
    for (int i = 0; i < left; ++i) REQUIRE(jobs.pop() != nullptr);
    REQUIRE(jobs.pop() == nullptr);
  }
}

TEST_CASE("a batch planned on a deep deque holds while the owner stays away from it", "[deque]") {
  manta::exec::deque jobs;
  std::vector<int> values(100);
  for (int& v : values) jobs.push(&v);
  manta::exec::deque::plan_of_theft theft;
  REQUIRE(jobs.plan(theft));
  while (jobs.size() > 33) REQUIRE(jobs.pop() != nullptr);
  REQUIRE(jobs.take(theft));
  REQUIRE(theft.entries[0] == &values[0]);
  REQUIRE(jobs.size() == 1);
  REQUIRE(jobs.pop() == &values[32]);
}
