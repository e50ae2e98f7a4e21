// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <manta/exec/actor_core.hpp>
#include <manta/exec/block_pool.hpp>
#include <manta/manta.hpp>

#include <catch2/catch.hpp>

#include "exec/support.hpp"
#include "failing_allocations.hpp"

// Every allocation of this program can be made to fail: blocks of the engine by its own hook, all
// others by failing_allocations.hpp. Each case is run again and again, and each time a later
// allocation of this thread fails, until none is left to fail.
#if MANTA_TEST_FAILS_ALLOCATIONS

namespace {

using manta::future;
using manta_test::fail_in;
using manta_test::happens;

std::atomic<int> live{0};

// Counted, and too long for a small string, so that copying one allocates.
struct text {
  std::string characters = std::string(100, 'x');
  text() { live.fetch_add(1); }
  text(const text& other) : characters(other.characters) { live.fetch_add(1); }
  text(text&& other) noexcept : characters(std::move(other.characters)) { live.fetch_add(1); }
  text& operator=(const text&) = delete;
  ~text() { live.fetch_sub(1); }
  template <class Archive>
  void serialize(Archive& ar) {
    ar(characters);
  }
};

std::size_t length(const text& t) { return t.characters.size(); }
std::size_t total(const std::vector<std::size_t>& sizes) {
  std::size_t sum = 0;
  for (const std::size_t n : sizes) sum += n;
  return sum;
}
text again(text t) { return t; }
std::size_t always_throws(const text& t) { throw std::runtime_error(t.characters); }

struct library {
  text shelf;
  library() = default;
  explicit library(const text& first) : shelf(first) {}
  std::size_t add(const text& t) { return shelf.characters.size() + t.characters.size(); }
  std::size_t count(std::size_t n) { return n; }
};

manta::config two_workers() {
  manta::config c;
  c.workers = 2;
  return c;
}

enum class source { blocks, operators };

void arm(source from, int n) {
  if (from == source::blocks) {
    manta::exec::testing::fail_allocation(n);
  } else {
    fail_in = n;
  }
}
struct sweep_outcome {
  int failures = 0;  // tries that ended with an exception
  int other = 0;     // of these, with another one than bad_alloc or out_of_memory
  int tries = 0;
};

// A task's own bad_alloc arrives as a task_error that says so.
bool is_shortage(const manta::exception& e) {
  const manta::task_failure* const failure = e.as_error().failure();
  return e.code() == manta::errc::out_of_memory ||
         (failure != nullptr && failure->type_name == "std::bad_alloc");
}

// Runs `body` with the n-th allocation failing, n = 1, 2, ..., until it gets through without one.
// Blocks are few in each case, and whether the hook was used can't be asked.
template <class Body>
sweep_outcome sweep(source from, Body body) {
  sweep_outcome seen;
  const int most = from == source::blocks ? 20 : 500;
  for (int n = 1; n <= most; ++n) {
    ++seen.tries;
    arm(from, n);
    try {
      body();
    } catch (const std::bad_alloc&) {
      ++seen.failures;
    } catch (const manta::exception& e) {
      ++seen.failures;
      seen.other += is_shortage(e) ? 0 : 1;
    } catch (...) {
      ++seen.other;
    }
    const bool was_unused = from == source::operators && fail_in != 0;
    arm(from, 0);
    if (was_unused) break;
  }
  return seen;
}

template <class Body>
void check_sweep(Body body) {
  for (const source from : {source::blocks, source::operators}) {
    CAPTURE(static_cast<int>(from));
    const manta::runtime rt(two_workers());
    body();  // warm: what is made once for the process is there
    // Failures are this thread's; a worker that was faster each time had them all to itself.
    sweep_outcome seen = sweep(from, body);
    for (int more = 0; more < 100 && seen.failures == 0; ++more) seen = sweep(from, body);
    CHECK(seen.failures > 0);  // else nothing was tried
    CHECK(seen.other == 0);
    CHECK(seen.tries < 500);
    CHECK(happens([] { return manta::exec::actor_core::alive() == 0; }));
    CAPTURE(live.load(), seen.tries, seen.failures);
    CHECK(happens([&] { return live.load() == 0; }));
    CHECK(manta::remote<length>(text()).get() == 100);
  }
  CHECK(live.load() == 0);
}

}  // namespace

TEST_CASE("a task survives the failure of any allocation", "[allocation_failure]") {
  check_sweep([] { manta::remote<length>(text()).get(); });
}

TEST_CASE("a task that moves its value in and out survives any failure", "[allocation_failure]") {
  check_sweep([] { manta::remote<again>(text()).get(); });
}

TEST_CASE("put survives the failure of any allocation", "[allocation_failure]") {
  check_sweep([] {
    const text t;
    const auto object = manta::put(t);
    static_cast<void>(object.get());
  });
}

TEST_CASE("dataflow and gathering survive the failure of any allocation", "[allocation_failure]") {
  check_sweep([] {
    std::vector<future<std::size_t>> sizes;
    for (int i = 0; i < 5; ++i)
      sizes.push_back(manta::remote<length>(manta::remote<again>(text())));
    manta::remote<total>(std::move(sizes)).get();
  });
}

TEST_CASE("delegation survives the failure of any allocation", "[allocation_failure]") {
  check_sweep([] { manta::async([] { return manta::remote<length>(text()); }).get(); });
}

TEST_CASE("wait and get of many survive the failure of any allocation", "[allocation_failure]") {
  check_sweep([] {
    std::vector<future<std::size_t>> sizes;
    for (int i = 0; i < 5; ++i) sizes.push_back(manta::remote<length>(text()));
    const auto found = manta::wait(sizes, {.count = 5});
    manta::get(found.ready);
  });
}

TEST_CASE("an actor and its calls survive the failure of any allocation", "[allocation_failure]") {
  check_sweep([] {
    const auto a = manta::spawn<library>(text());
    manta::remote<&library::add>(a, text()).get();
  });
}

TEST_CASE("calls that are held survive the failure of any allocation", "[allocation_failure]") {
  check_sweep([] {
    const auto a = manta::spawn<library>(manta::remote<again>(text()));
    const auto held = manta::remote<&library::count>(a, manta::remote<length>(text()));
    manta::remote<&library::add>(a, text()).get();
    held.get();
  });
}

TEST_CASE("a task that throws in the middle of a shortage still ends", "[allocation_failure]") {
  // It runs on this thread, where the allocations fail: describing the exception may fail, too.
  const manta::runtime rt(two_workers());
  int other = 0;
  for (int n = 1; n < 100; ++n) {
    const auto f = manta::remote<always_throws>(text());
    fail_in = n;
    const auto got = f.try_get();
    fail_in = 0;
    const bool is_expected = !got && (got.error().code() == manta::errc::task_error ||
                                      got.error().code() == manta::errc::out_of_memory);
    other += is_expected ? 0 : 1;
  }
  CHECK(other == 0);
}

TEST_CASE("a full queue that can't grow fails the call and loses nothing", "[allocation_failure]") {
  // The only worker is kept busy, so the queue of this thread fills; at each size where it has to
  // grow the failing allocation meets it.
  manta::config c = two_workers();
  c.workers = 1;
  const manta::runtime rt(c);
  std::atomic<bool> is_open{false};
  std::atomic<bool> is_inside{false};
  const auto busy = manta::async([&] {
    is_inside.store(true);
    while (!is_open.load()) std::this_thread::yield();
  });
  REQUIRE(happens([&] { return is_inside.load(); }));
  std::vector<future<int>> made;
  int refused = 0;
  // More where an earlier case has left a larger queue.
  for (int i = 0; i < 3000 || (refused == 0 && i < 300'000); ++i) {
    fail_in = 1;
    try {
      auto f = manta::async([i] { return i; });
      fail_in = 0;
      made.push_back(std::move(f));
    } catch (const std::bad_alloc&) {
      ++refused;
      fail_in = 0;
      made.push_back(manta::async([i] { return i; }));
    }
  }
  is_open.store(true);
  CHECK(refused > 0);
  int wrong = 0;
  for (std::size_t i = 0; i < made.size(); ++i) {
    wrong += made[i].get() == static_cast<int>(i) ? 0 : 1;
  }
  CHECK(wrong == 0);
  busy.get();
}

TEST_CASE("an actor that can't be queued answers its calls all the same", "[allocation_failure]") {
  manta::config c = two_workers();
  c.workers = 1;
  const manta::runtime rt(c);
  std::vector<manta::actor<library>> actors;
  for (int i = 0; i < 2000; ++i) {
    actors.push_back(manta::spawn<library>());
    manta::remote<&library::count>(actors.back(), 1).get();
  }
  std::atomic<bool> is_open{false};
  std::atomic<bool> is_inside{false};
  const auto busy = manta::async([&] {
    is_inside.store(true);
    while (!is_open.load()) std::this_thread::yield();
  });
  REQUIRE(happens([&] { return is_inside.load(); }));
  // Each call schedules an idle actor: one entry each, and the queue has to grow.
  std::vector<future<std::size_t>> answers;
  for (std::size_t i = 0; i < actors.size(); ++i) {
    fail_in = 1;
    try {
      auto f = manta::remote<&library::count>(actors[i], i);
      fail_in = 0;
      answers.push_back(std::move(f));
    } catch (const std::bad_alloc&) {
      fail_in = 0;
    }
  }
  is_open.store(true);
  const bool all_end = happens([&] {
    for (const auto& f : answers) {
      if (!f.is_ready()) return false;
    }
    return true;
  });
  CHECK(all_end);
  busy.get();
}

#endif
