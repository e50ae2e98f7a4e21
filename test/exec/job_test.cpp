// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/job.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include <manta/future.hpp>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

// The table of states in job.hpp, walked without any executor.

namespace {

using manta::errc;
using manta::error;
using manta::exec::alias_node;
using manta::exec::job;
using manta::exec::job_bits;
using manta::exec::job_ops;
using manta::exec::job_ref;
using manta::exec::make_alias;
using manta::exec::waiter;
using manta_test::dice;
using manta_test::run_seed;
using manta_test::scaled;

std::atomic<int> live_values{0};
std::atomic<int> dropped_arguments{0};

// A value that is counted and may keep another job.
struct payload {
  explicit payload(int n) : number(n) { live_values.fetch_add(1); }
  payload(const payload&) = delete;
  ~payload() { live_values.fetch_sub(1); }
  int number;
  job_ref next;
};

struct test_job : manta::detail::cell<payload> {
  alias_node node;
  explicit test_job(unsigned count) : cell<payload>(&ops, count) {}
  static const job_ops ops;
};

const job_ops test_job::ops = {
    .execute = nullptr,
    .run = nullptr,
    .ready = nullptr,
    .cancel = [](job* j, const error& reason) noexcept { j->cancel_unclaimed(reason); },
    .drop_arguments = [](job* /*j*/) noexcept { dropped_arguments.fetch_add(1); },
    .drop_value = manta::detail::drop_value<payload>,
    .alias = [](job* j) noexcept -> alias_node* { return &static_cast<test_job*>(j)->node; },
    .origin = nullptr,
    .size = sizeof(test_job),
    .front = 0,
    .in_place = true,
    .function = "test",
    .function_hash = 1,
};

test_job* make(unsigned holders) { return manta::detail::make_job<test_job>(holders); }

void complete(job* j, int number, unsigned drops) {
  new (&manta::detail::value_of<payload>(j)) payload(number);
  j->finish(job_bits::ready, drops);
}
int number_of(job* j) { return manta::detail::value_of<payload>(j->outcome()).number; }
bool has_failed(job* j) { return (j->outcome()->word() & job_bits::failed) != 0; }
std::uint64_t state(job* j) {
  return j->word() & (job_bits::claimed | job_bits::ready | job_bits::failed | job_bits::aliased);
}
std::uint64_t holders(job* j) { return j->word() >> 32U; }

// As the run of a delegating task does it: takes over one hold of `to`.
void delegate(job* from, job* to) {
  from->target() = to;
  make_alias(from);
}

struct listener : waiter {
  std::atomic<int> fired{0};
  int order = 0;
  static inline std::atomic<int> clock{0};
  listener() {
    fire = [](waiter* w) noexcept {
      auto* const self = static_cast<listener*>(w);
      self->order = clock.fetch_add(1);
      self->fired.fetch_add(1);
    };
  }
};

// Checks at the end of a case that nothing is left.
struct nothing_left {
  int values = live_values.load();
  ~nothing_left() { CHECK(live_values.load() == values); }
};

}  // namespace

TEST_CASE("pending: a new job has no state, and holders as made", "[job]") {
  const nothing_left check;
  test_job* const j = make(2);
  CHECK(state(j) == 0);
  CHECK(holders(j) == 2);
  CHECK_FALSE(j->is_ready());
  CHECK_FALSE(j->is_claimed());
  CHECK_FALSE(j->is_unique());
  CHECK(j->try_claim());
  complete(j, 1, 1);
  CHECK(j->is_unique());
  j->drop();
}

TEST_CASE("pending to claimed: exactly once", "[job]") {
  const nothing_left check;
  test_job* const j = make(1);
  CHECK(j->try_claim());
  CHECK(state(j) == job_bits::claimed);
  CHECK_FALSE(j->try_claim());
  CHECK_FALSE(j->is_ready());
  complete(j, 1, 0);
  CHECK_FALSE(j->try_claim());
  j->drop();
}

TEST_CASE("claimed to done: frozen with its value", "[job]") {
  const nothing_left check;
  test_job* const j = make(1);
  j->try_claim();
  complete(j, 42, 0);
  CHECK(state(j) == (job_bits::claimed | job_bits::ready));
  CHECK(j->is_ready());
  CHECK(j->outcome() == j);
  CHECK(number_of(j) == 42);
  j->drop();
}

TEST_CASE("claimed to failed: arguments are dropped, the error stays", "[job]") {
  const nothing_left check;
  const int before = dropped_arguments.load();
  test_job* const j = make(2);
  j->try_claim();
  j->fail(error(errc::timed_out, "late"), 1);
  CHECK(state(j) == (job_bits::claimed | job_bits::ready | job_bits::failed));
  CHECK(dropped_arguments.load() == before + 1);
  CHECK(j->failure().code() == errc::timed_out);
  CHECK(j->is_unique());
  j->drop();
}

TEST_CASE("pending to cancelled: failed with the reason, one hold taken over", "[job]") {
  const nothing_left check;
  test_job* const j = make(2);
  j->cancel_unclaimed(error(errc::cancelled, "over"));
  CHECK(state(j) == (job_bits::claimed | job_bits::ready | job_bits::failed));
  CHECK(j->failure().code() == errc::cancelled);
  CHECK(holders(j) == 1);
  j->drop();
}

TEST_CASE("claimed stays claimed when it is cancelled: only the hold goes", "[job]") {
  const nothing_left check;
  test_job* const j = make(2);
  j->try_claim();
  j->cancel_unclaimed(error(errc::cancelled, "over"));
  CHECK(state(j) == job_bits::claimed);
  CHECK(holders(j) == 1);
  complete(j, 3, 0);
  CHECK(number_of(j) == 3);
  j->drop();
}

TEST_CASE("a job is finished and freed in one step when the finisher is the last", "[job]") {
  const nothing_left check;
  test_job* const j = make(1);
  j->try_claim();
  const int before = live_values.load();
  complete(j, 3, 1);
  CHECK(live_values.load() == before);
}

TEST_CASE("aliased to resolved: the outcome is the target's value", "[job]") {
  const nothing_left check;
  test_job* const from = make(2);
  test_job* const to = make(2);
  from->try_claim();
  delegate(from, to);
  CHECK(state(from) == (job_bits::claimed | job_bits::aliased));
  CHECK_FALSE(from->is_ready());
  listener told;
  CHECK(from->add_waiter(&told));
  to->try_claim();
  complete(to, 9, 1);
  CHECK(state(from) == (job_bits::claimed | job_bits::aliased | job_bits::ready));
  CHECK(told.fired == 1);
  CHECK(from->outcome() == to);
  CHECK(number_of(from) == 9);
  CHECK(from->is_unique());
  from->drop();
}

TEST_CASE("aliased to resolved: the outcome is the target's failure", "[job]") {
  const nothing_left check;
  test_job* const from = make(2);
  test_job* const to = make(2);
  from->try_claim();
  delegate(from, to);
  to->try_claim();
  to->fail(error(errc::object_lost, "gone"), 1);
  CHECK(state(from) == (job_bits::claimed | job_bits::aliased | job_bits::ready));
  CHECK(has_failed(from));
  CHECK(from->outcome()->failure().code() == errc::object_lost);
  from->drop();
}

TEST_CASE("an alias of a job that is ready is resolved at once", "[job]") {
  const nothing_left check;
  for (const bool fails : {false, true}) {
    test_job* const from = make(2);
    test_job* const to = make(1);
    to->try_claim();
    if (fails) {
      to->fail(error(errc::cancelled, "x"), 0);
    } else {
      complete(to, 5, 0);
    }
    from->try_claim();
    delegate(from, to);
    CHECK(from->is_ready());
    CHECK(has_failed(from) == fails);
    from->drop();
  }
}

TEST_CASE("chains of aliases have length one however they are built", "[job]") {
  const nothing_left check;
  std::array<int, 4> order = {0, 1, 2, 3};
  do {
    // 0 -> 1 -> 2 -> 3 -> 4, delegated in every order.
    std::array<test_job*, 5> jobs{};
    for (auto& j : jobs) j = make(2);
    for (const int i : order) {
      const auto at = static_cast<std::size_t>(i);
      jobs[at]->try_claim();
      jobs[at + 1]->hold();
      delegate(jobs[at], jobs[at + 1]);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      REQUIRE(jobs[i]->target() == jobs[4]);
      const job_ref end(jobs[i]->awaited());
      REQUIRE(end.get() == jobs[4]);
    }
    jobs[4]->try_claim();
    complete(jobs[4], 77, 1);
    for (test_job* j : jobs) {
      REQUIRE(j->is_ready());
      REQUIRE(number_of(j) == 77);
      j->drop();
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("a job that delegates to itself fails", "[job]") {
  const nothing_left check;
  test_job* const j = make(2);
  j->try_claim();
  j->hold();
  delegate(j, j);
  CHECK(has_failed(j));
  CHECK(j->failure().code() == errc::invalid_argument);
  CHECK(j->is_unique());
  j->drop();
}

TEST_CASE("a cycle of delegations fails every job in it", "[job]") {
  const nothing_left check;
  for (std::size_t length = 2; length < 6; ++length) {
    std::vector<test_job*> jobs(length);
    for (auto& j : jobs) {
      j = make(2);
      j->try_claim();
    }
    for (std::size_t i = 0; i < length; ++i) {
      test_job* const to = jobs[(i + 1) % length];
      to->hold();
      delegate(jobs[i], to);
    }
    for (test_job* j : jobs) {
      REQUIRE(j->is_ready());
      REQUIRE(has_failed(j));
      REQUIRE(j->outcome()->failure().code() == errc::invalid_argument);
    }
    for (test_job* j : jobs) j->drop();
  }
}

namespace {

// Each job has a value or delegates to another; some of these go round in circles. All are
// completed in random order, some with a waiter; what each ends with is what following the arrows
// says.
void random_delegations(dice& random) {
  const std::size_t n = 1 + random.below(12);
  std::vector<test_job*> jobs(n);
  std::vector<std::size_t> to(n);
  std::vector<listener> told(n);
  std::vector<bool> is_listed(n);
  std::vector<std::size_t> order(n);
  for (std::size_t i = 0; i < n; ++i) {
    jobs[i] = make(2);
    to[i] = random.one_in(3) ? i + n : random.below(n);  // from n on: a value
    order[i] = i;
  }
  for (std::size_t i = n; i-- > 1;) std::swap(order[i], order[random.below(i + 1)]);
  for (const std::size_t i : order) {
    if (random.one_in(2)) is_listed[i] = jobs[i]->add_waiter(&told[i]);
    jobs[i]->try_claim();
    if (to[i] >= n) {
      complete(jobs[i], static_cast<int>(i), 1);
    } else {
      jobs[to[i]]->hold();
      delegate(jobs[i], jobs[to[i]]);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t end = i;
    for (std::size_t steps = 0; steps <= n && to[end] < n; ++steps) end = to[end];
    REQUIRE(jobs[i]->is_ready());
    REQUIRE(has_failed(jobs[i]) == (to[end] < n));
    if (to[end] >= n) REQUIRE(number_of(jobs[i]) == static_cast<int>(end));
    REQUIRE(told[i].fired == (is_listed[i] ? 1 : 0));
  }
  for (test_job* j : jobs) j->drop();
}

}  // namespace

TEST_CASE("random delegations end where the arrows lead", "[job]") {
  const nothing_left check;
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  dice random(seed);
  for (int i = 0; i < scaled(20'000); ++i) random_delegations(random);
}

TEST_CASE("a million tail calls keep only a few jobs alive", "[job]") {
  const nothing_left check;
  test_job* const first = make(2);
  first->try_claim();
  job* current = first;
  // Each task returns the future of the next, which is running by then.
  for (int i = 0; i < 1'000'000; ++i) {
    test_job* const next = make(2);
    next->try_claim();
    delegate(current, next);
    if (current != first) REQUIRE(holders(next) <= 4);
    current = next;
  }
  complete(current, 8, 1);
  CHECK(number_of(first) == 8);
  first->drop();
}

TEST_CASE("a million values that hold each other are freed without recursion", "[job]") {
  const nothing_left check;
  job_ref head;
  for (int i = 0; i < 1'000'000; ++i) {
    test_job* const j = make(1);
    j->try_claim();
    new (&manta::detail::value_of<payload>(j)) payload(i);
    manta::detail::value_of<payload>(j).next = std::move(head);
    j->finish(job_bits::ready, 0);
    head = job_ref(j);
  }
  head = {};
}

TEST_CASE("waiters are told once, in the order they came", "[job]") {
  const nothing_left check;
  test_job* const j = make(2);
  std::array<listener, 5> told;
  for (listener& w : told) CHECK(j->add_waiter(&w));
  CHECK(j->remove_waiter(&told[2]));
  CHECK_FALSE(j->remove_waiter(&told[2]));
  j->try_claim();
  complete(j, 1, 1);
  for (std::size_t i = 0; i < told.size(); ++i) CHECK(told[i].fired == (i == 2 ? 0 : 1));
  CHECK(told[0].order < told[1].order);
  CHECK(told[1].order < told[3].order);
  CHECK(told[3].order < told[4].order);
  CHECK_FALSE(j->remove_waiter(&told[0]));
  listener late;
  CHECK_FALSE(j->add_waiter(&late));
  CHECK(late.fired == 0);
  CHECK((j->word() & (job_bits::locked | job_bits::waiters)) == 0);
  j->drop();
}

TEST_CASE("a job whose waiters have all left finishes like any other", "[job]") {
  const nothing_left check;
  test_job* const j = make(2);
  listener w;
  j->add_waiter(&w);
  j->remove_waiter(&w);
  j->try_claim();
  complete(j, 1, 1);
  CHECK(w.fired == 0);
  CHECK(j->is_unique());
  j->drop();
}

TEST_CASE("values of every alignment lie behind the header, errors at its end", "[job]") {
  STATIC_REQUIRE(job::slot_offset(1) == 48);
  STATIC_REQUIRE(job::slot_offset(8) == 48);
  STATIC_REQUIRE(job::slot_offset(16) == 48);
  STATIC_REQUIRE(job::slot_offset(32) == 64);
  STATIC_REQUIRE(job::slot_offset(64) == 64);
  STATIC_REQUIRE(sizeof(job) == 48);
}

namespace {

// Lets several threads begin a round at the same time, without sleeping.
class starting_line {
 public:
  explicit starting_line(int threads) : threads_(threads) {}
  void arrive() {
    const int round = round_.load();
    if (waiting_.fetch_add(1) + 1 == threads_) {
      waiting_.store(0);
      round_.fetch_add(1);
      return;
    }
    for (int spins = 0; round_.load() == round; ++spins) {
      if (spins > 200) std::this_thread::yield();
    }
  }

 private:
  const int threads_;
  std::atomic<int> waiting_{0};
  std::atomic<int> round_{0};
};

// Runs `round(thread, n)` on all threads at once, `rounds` times, and `after(n)` on the first one
// between rounds.
template <class Round, class After>
void together(int threads, int rounds, Round round, After after) {
  starting_line line(threads);
  const auto body = [&](int self) {
    for (int n = 0; n < rounds; ++n) {
      line.arrive();
      round(self, n);
      line.arrive();
      if (self == 0) after(n);
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(body, t);
  body(0);
  for (std::thread& t : others) t.join();
}

}  // namespace

TEST_CASE("of many threads exactly one claims", "[job]") {
  std::atomic<int> claims{0};
  int wrong = 0;
  test_job* j = make(4);
  together(
      4, scaled(20'000),
      [&](int /*self*/, int /*n*/) {
        if (j->try_claim()) {
          claims.fetch_add(1);
          complete(j, 1, 1);
        } else {
          j->drop();
        }
      },
      [&](int /*n*/) {
        wrong += claims.exchange(0) == 1 ? 0 : 1;
        j = make(4);
      });
  for (int i = 0; i < 4; ++i) j->cancel_unclaimed(error(errc::cancelled, "end"));
  CHECK(wrong == 0);
  CHECK(live_values.load() == 0);
}

// What could break: the finisher takes the list while a waiter is being added, which shows as one
// that neither fired nor was refused; or remove and fire both win.
TEST_CASE("waiters that come and go while the job finishes fire exactly once or not at all",
          "[job]") {
  constexpr int watchers = 2;
  std::array<listener, watchers> told;
  std::array<int, watchers> wrong{};
  test_job* j = make(1 + watchers);
  together(
      1 + watchers, scaled(20'000),
      [&](int self, int n) {
        if (self == 0) {
          j->try_claim();
          complete(j, n, 1);
          return;
        }
        const auto me = static_cast<std::size_t>(self - 1);
        listener& w = told[me];
        w.fired.store(0);
        bool is_told = true;
        if (!j->add_waiter(&w)) {
          wrong[me] += j->is_ready() && w.fired == 0 ? 0 : 1;
        } else if ((n + self) % 2 == 0 && j->remove_waiter(&w)) {
          is_told = false;
        } else {
          while (w.fired.load() == 0) std::this_thread::yield();
          wrong[me] += number_of(j) == n ? 0 : 1;
        }
        if (!is_told) wrong[me] += w.fired == 0 ? 0 : 1;
        j->drop();
      },
      [&](int /*n*/) { j = make(1 + watchers); });
  for (int i = 0; i < 1 + watchers; ++i) j->cancel_unclaimed(error(errc::cancelled, "end"));
  CHECK(wrong[0] == 0);
  CHECK(wrong[1] == 0);
  CHECK(live_values.load() == 0);
}

TEST_CASE("holds taken and dropped by many threads end the job once", "[job]") {
  const int before = live_values.load();
  int wrong = 0;
  test_job* j = nullptr;
  const auto renew = [&](int /*n*/) {
    wrong += live_values.load() == before ? 0 : 1;
    j = make(3);
    j->try_claim();
    complete(j, 1, 0);
  };
  renew(0);
  together(
      3, scaled(20'000),
      [&](int /*self*/, int /*n*/) {
        const job_ref mine(j);
        for (int i = 0; i < 3; ++i) const job_ref copy(mine);
      },
      renew);
  for (int i = 0; i < 3; ++i) j->drop();
  CHECK(wrong == 0);
  CHECK(live_values.load() == before);
}

// What could break: two jobs that delegate to each other at the same time miss one another and wait
// for ever, or a chain is followed while it is moved.
TEST_CASE("delegations made by several threads at once resolve or fail as a cycle", "[job]") {
  constexpr std::size_t n = 3;
  std::array<test_job*, n> jobs{};
  int wrong = 0;
  const auto renew = [&](int /*round*/) {
    for (test_job* j : jobs) {
      if (j == nullptr) continue;
      wrong += j->is_ready() && has_failed(j) ? 0 : 1;
    }
    for (test_job*& j : jobs) {
      if (j != nullptr) j->drop();
      j = make(2);
      j->try_claim();
    }
  };
  renew(0);
  together(
      static_cast<int>(n), scaled(10'000),
      [&](int self, int /*n*/) {
        const auto me = static_cast<std::size_t>(self);
        job* const to = jobs[(me + 1) % n];
        to->hold();
        delegate(jobs[me], to);
      },
      renew);
  for (test_job* j : jobs) {
    complete(j, 1, 1);
    j->drop();
  }
  CHECK(wrong == 0);
  CHECK(live_values.load() == 0);
}
