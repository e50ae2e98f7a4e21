// SPDX-License-Identifier: Apache-2.0
//
// manta's side of bench_actors.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <manta/manta.hpp>

#include "harness/machine.hpp"
#include "harness/measure.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

using namespace std::chrono_literals;

// Adds up what it is sent and answers the number; counts its living instances.
class adder {
 public:
  adder() { alive.fetch_add(1); }
  adder(const adder&) = delete;
  adder& operator=(const adder&) = delete;
  ~adder() { alive.fetch_sub(1); }
  std::int64_t add(std::int64_t x) {
    sum_ += x;
    return x;
  }
  std::int64_t sum() const { return sum_; }

  static inline std::atomic<std::size_t> alive{0};

 private:
  std::int64_t sum_ = 0;
};

using answer = manta::future<std::int64_t>;

answer call(const manta::actor<adder>& target, std::int64_t x) {
  return manta::remote<&adder::add>(target, x);
}

// `window` calls, then `window` gets, as often as `count` takes.
std::int64_t in_batches(const manta::actor<adder>& target, std::size_t count, std::size_t window) {
  std::vector<answer> answers;
  answers.reserve(window);
  std::int64_t sum = 0;
  for (std::size_t done = 0; done < count; done += window) {
    for (std::size_t i = 0; i < window; ++i) answers.push_back(call(target, 1));
    for (const answer& a : answers) sum += a.get();
    answers.clear();
  }
  return sum;
}

// Always `window` calls in flight: each get is followed by a call.
std::int64_t sliding(const manta::actor<adder>& target, std::size_t count, std::size_t window) {
  std::vector<answer> ring;
  for (std::size_t i = 0; i < window; ++i) ring.push_back(call(target, 1));
  std::int64_t sum = 0;
  std::size_t oldest = 0;
  for (std::size_t i = window; i < count; ++i) {
    sum += ring[oldest].get();
    ring[oldest] = call(target, 1);
    oldest = oldest + 1 == window ? 0 : oldest + 1;
  }
  for (const answer& a : ring) sum += a.get();
  return sum;
}

// The same as in_batches(), called by a task.
std::int64_t from_a_task(const manta::actor<adder>& target, std::size_t count, std::size_t window) {
  return manta::remote<in_batches>(target, count, window).get();
}

using flight = std::int64_t (*)(const manta::actor<adder>&, std::size_t, std::size_t);

contestant in_flight(const char* row, const char* name, std::size_t window, flight how_to,
                     const manta::actor_options& with = {}) {
  contestant c{row, name, side::ours};
  c.preload = window == 1000;
  c.start = [=](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const std::size_t wanted = how.count(window * 20000 < million ? window * 20000 : million);
    const std::size_t count = (wanted + window - 1) / window * window;
    return [=](const turn&) {
      keep(rt);
      const manta::actor<adder> target = manta::spawn<adder>.with(with)();
      const auto n = static_cast<double>(count);
      const double start = now_s();
      const std::int64_t sum = how_to(target, count, window);
      const double took = now_s() - start;
      check(sum == static_cast<std::int64_t>(count), "sum of answers");
      return reading{.value = n / took, .operations = n};
    };
  };
  return c;
}

contestant our_one_way() {
  contestant c{one_way, "manta, futures dropped", side::ours, true};
  c.start = [](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const std::size_t count = how.count(million);
    return [=](const turn&) {
      keep(rt);
      const manta::actor<adder> target = manta::spawn<adder>();
      const auto n = static_cast<double>(count);
      const double start = now_s();
      for (std::size_t i = 0; i < count; ++i) (void)call(target, 1);
      const answer last = manta::remote<&adder::sum>(target);
      const std::int64_t sum = last.get();
      const double took = now_s() - start;
      check(sum == static_cast<std::int64_t>(count), "sum of the calls");
      return reading{.value = n / took, .operations = n};
    };
  };
  return c;
}

void sync_call(const manta::actor<adder>& target, std::size_t i) {
  const answer a = call(target, static_cast<std::int64_t>(i));
  check(a.get() == static_cast<std::int64_t>(i), "answer of an actor");
}

// A timed get never runs the call in place: a worker has to.
void sync_call_by_worker(const manta::actor<adder>& target, std::size_t i) {
  const answer a = call(target, static_cast<std::int64_t>(i));
  check(a.get(10s) == static_cast<std::int64_t>(i), "answer of an actor");
}

using sync_form = void (*)(const manta::actor<adder>&, std::size_t);

contestant our_sync(const char* row, const char* name, sync_form form) {
  contestant c{row, name, side::ours};
  const bool is_asleep = std::string(row) == actor_asleep;
  c.start = [=](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const std::size_t count = is_asleep ? (how.quick ? 5U : 300U) : how.count(100000);
    return [=](const turn&) {
      keep(rt);
      const manta::actor<adder> target = manta::spawn<adder>();
      const auto once = [&](std::size_t i) { form(target, i); };
      if (!is_asleep) return latency(unit::microseconds, count, once);
      return latency_after_pause(unit::microseconds, count, 2ms, once);
    };
  };
  return c;
}

contestant our_crowd() {
  contestant c{actor_crowd, "manta", side::ours, true};
  c.start = [](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const std::size_t count = how.count(10000);
    return [=](const turn&) {
      keep(rt);
      reading r = time_per_operation(unit::milliseconds, 1, [&] {
        std::vector<manta::actor<adder>> actors;
        std::vector<answer> answers;
        actors.reserve(count);
        answers.reserve(count);
        for (std::size_t i = 0; i < count; ++i) actors.push_back(manta::spawn<adder>());
        for (const manta::actor<adder>& a : actors) answers.push_back(call(a, 1));
        std::int64_t sum = 0;
        for (const answer& a : answers) sum += a.get();
        check(sum == static_cast<std::int64_t>(count), "sum of answers");
        actors.clear();
        while (adder::alive.load() != 0) std::this_thread::yield();
      });
      r.operations = static_cast<double>(count);
      return r;
    };
  };
  return c;
}

contestant our_bytes() {
  contestant c{actor_bytes, "manta", side::ours};
  c.start = [](const plan& how) -> body {
    auto rt = std::make_shared<manta::runtime>();
    const std::size_t count = how.count(100000);
    return [=](const turn&) {
      keep(rt);
      std::vector<manta::actor<adder>> actors;
      actors.reserve(count);
      const double before = resident_bytes();
      for (std::size_t i = 0; i < count; ++i) actors.push_back(manta::spawn<adder>());
      while (adder::alive.load() != count) std::this_thread::yield();
      const auto n = static_cast<double>(count);
      return reading{.value = (resident_bytes() - before) / n, .operations = n};
    };
  };
  return c;
}

}  // namespace

void add_our_actors(suite& s) {
  const std::pair<const char*, std::size_t> windows[] = {
      {window_1, 1}, {window_10, 10}, {window_1000, 1000}, {window_10000, 10000}};
  for (const auto& [row, window] : windows) {
    s.add(in_flight(row, "manta", window, in_batches));
    s.add(in_flight(row, "manta, called by a task", window, from_a_task));
    if (window > 1) s.add(in_flight(row, "manta, each get followed by a call", window, sliding));
  }
  const manta::actor_options sixteen{.max_concurrency = 16};
  s.add(in_flight(window_1000, "manta, max_concurrency 16", 1000, in_batches, sixteen));
  s.add(in_flight(window_1000, "manta, max_concurrency 16, called by a task", 1000, from_a_task,
                  sixteen));
  s.add(our_one_way());
  s.add(our_sync(actor_sync, "manta", sync_call));
  s.add(our_sync(actor_sync, "manta, not in place", sync_call_by_worker));
  s.add(our_sync(actor_asleep, "manta, not in place", sync_call_by_worker));
  s.add(our_crowd());
  s.add(our_bytes());
}

}  // namespace bench
