// SPDX-License-Identifier: Apache-2.0
//
// CAF 0.17: scheduled event-based actors, a client actor that keeps so many requests in flight, and
// the blocking actor for calls from outside.
#include <caf/all.hpp>
#include <atomic>
#include <memory>
#include <thread>

#include "harness/machine.hpp"
#include "harness/measure.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

struct counted_state {
  static inline std::atomic<std::size_t> alive{0};
  counted_state() { alive.fetch_add(1); }
  ~counted_state() { alive.fetch_sub(1); }
  std::int64_t sum = 0;
};

caf::behavior server(caf::stateful_actor<counted_state>* self) {
  return {[self](std::int64_t x) {
    self->state.sum += x;
    return x;
  }};
}

// A system that uses `threads`, and shuts down after the round functions are gone.
struct caf_system {
  struct config : caf::actor_system_config {
    explicit config(int threads) {
      set("scheduler.max-threads", static_cast<std::size_t>(threads));
    }
  };
  explicit caf_system(int threads) : settings(threads), system(settings) {}
  config settings;
  caf::actor_system system;
};

struct client_state {
  std::size_t left = 0;
  std::size_t answered = 0;
  std::size_t total = 0;
  std::int64_t sum = 0;
  caf::actor target;
  std::atomic<std::int64_t>* done = nullptr;
};

void request_next(caf::stateful_actor<client_state>* self) {
  client_state& state = self->state;
  --state.left;
  self->request(state.target, caf::infinite, std::int64_t{1}).then([self](std::int64_t x) {
    client_state& now = self->state;
    now.sum += x;
    if (now.left > 0) request_next(self);
    if (++now.answered < now.total) return;
    now.done->store(now.sum);
    now.done->notify_all();
    self->quit();
  });
}

void client(caf::stateful_actor<client_state>* self, caf::actor target, std::size_t total,
            std::size_t window, std::atomic<std::int64_t>* done) {
  self->state.left = self->state.total = total;
  self->state.target = std::move(target);
  self->state.done = done;
  for (std::size_t i = 0; i < window; ++i) request_next(self);
}

contestant in_flight(const char* row, std::size_t window, int threads, std::size_t full) {
  contestant c{row, "CAF request/response, " + std::to_string(threads) + " thr"};
  c.preload = window == 1000;
  c.start = [=](const plan& how) -> body {
    auto caf = std::make_shared<caf_system>(threads);
    const std::size_t count = std::max(how.count(full), window);
    return [=](const turn&) {
      const caf::actor target = caf->system.spawn(server);
      std::atomic<std::int64_t> done{0};
      const double start = now_s();
      caf->system.spawn(client, target, count, window, &done);
      done.wait(0);
      const double took = now_s() - start;
      check(done.load() == static_cast<std::int64_t>(count), "sum of answers");
      const auto n = static_cast<double>(count);
      return reading{.value = n / took, .operations = n};
    };
  };
  return c;
}

struct sink_state {
  std::size_t left = 0;
  std::atomic<std::int64_t>* done = nullptr;
};

caf::behavior sink(caf::stateful_actor<sink_state>* self, std::size_t total,
                   std::atomic<std::int64_t>* done) {
  self->state.left = total;
  self->state.done = done;
  return {[self](std::int64_t) {
    if (--self->state.left > 0) return;
    self->state.done->store(1);
    self->state.done->notify_all();
  }};
}

contestant tell(int threads) {
  contestant c{one_way, "CAF send, " + std::to_string(threads) + " thr"};
  c.preload = true;
  c.start = [=](const plan& how) -> body {
    auto caf = std::make_shared<caf_system>(threads);
    const std::size_t count = how.count(million);
    return [=](const turn&) {
      std::atomic<std::int64_t> done{0};
      const caf::actor target = caf->system.spawn(sink, count, &done);
      const double start = now_s();
      for (std::size_t i = 0; i < count; ++i) caf::anon_send(target, std::int64_t{1});
      done.wait(0);
      const auto n = static_cast<double>(count);
      return reading{.value = n / (now_s() - start), .operations = n};
    };
  };
  return c;
}

std::int64_t call(caf::scoped_actor& self, const caf::actor& target, std::int64_t x) {
  std::int64_t got = -1;
  self->request(target, caf::infinite, x)
      .receive([&](std::int64_t v) { got = v; }, [](caf::error&) {});
  return got;
}

contestant sync(const char* row, bool is_asleep) {
  contestant c{row, "CAF blocking actor, 1 thr"};
  c.start = [=](const plan& how) -> body {
    auto caf = std::make_shared<caf_system>(1);
    const std::size_t count = is_asleep ? (how.quick ? 5U : 300U) : how.count(20000);
    return [=](const turn&) {
      caf::scoped_actor self(caf->system);
      const caf::actor target = caf->system.spawn(server);
      const auto once = [&](std::size_t i) {
        check(call(self, target, static_cast<std::int64_t>(i)) == static_cast<std::int64_t>(i),
              "answer of an actor");
      };
      if (!is_asleep) return latency(unit::microseconds, count, once);
      return latency_after_pause(unit::microseconds, count, std::chrono::milliseconds(2), once);
    };
  };
  return c;
}

contestant crowd(int threads) {
  contestant c{actor_crowd, "CAF, " + std::to_string(threads) + " thr"};
  c.preload = true;
  c.start = [=](const plan& how) -> body {
    auto caf = std::make_shared<caf_system>(threads);
    const std::size_t count = how.count(10000);
    return [=](const turn&) {
      caf::scoped_actor self(caf->system);
      reading r = time_per_operation(unit::milliseconds, 1, [&] {
        std::vector<caf::actor> actors;
        std::int64_t sum = 0;
        actors.reserve(count);
        for (std::size_t i = 0; i < count; ++i) actors.push_back(caf->system.spawn(server));
        for (const caf::actor& a : actors) self->send(a, std::int64_t{1});
        for (std::size_t i = 0; i < count; ++i) {
          self->receive([&](std::int64_t v) { sum += v; });
        }
        check(sum == static_cast<std::int64_t>(count), "sum of answers");
        actors.clear();
        while (counted_state::alive.load() != 0) std::this_thread::yield();
      });
      r.operations = static_cast<double>(count);
      return r;
    };
  };
  return c;
}

contestant idle_bytes() {
  contestant c{actor_bytes, "CAF"};
  c.start = [=](const plan& how) -> body {
    auto caf = std::make_shared<caf_system>(1);
    const std::size_t count = how.count(100000);
    return [=](const turn&) {
      std::vector<caf::actor> actors(count);
      const double before = resident_bytes();
      for (caf::actor& a : actors) a = caf->system.spawn(server);
      while (counted_state::alive.load() != count) std::this_thread::yield();
      const double n = static_cast<double>(count);
      return reading{.value = (resident_bytes() - before) / n, .operations = n};
    };
  };
  return c;
}

}  // namespace

void add_caf_actors(suite& s) {
  for (int threads : {1, 2}) {
    s.add(in_flight(window_1, 1, threads, 20000));
    s.add(in_flight(window_10, 10, threads, 200000));
    s.add(in_flight(window_1000, 1000, threads, 300000));
    s.add(in_flight(window_10000, 10000, threads, 50000));
    s.add(tell(threads));
    s.add(crowd(threads));
  }
  s.add(sync(actor_sync, false));
  s.add(sync(actor_asleep, true));
  s.add(idle_bytes());
}

}  // namespace bench
