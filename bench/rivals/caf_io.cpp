// SPDX-License-Identifier: Apache-2.0
//
// CAF 0.17 between two processes of this machine: an actor is published at a port of TCP there and
// called from here, by a blocking actor or with many requests under way.
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <atomic>
#include <memory>

#include "harness/measure.hpp"
#include "rivals/rows.hpp"
#include "rivals/tcp.hpp"

namespace bench {
namespace {

constexpr const char* loopback = "127.0.0.1";

// How CAF is set up, of what was tried: its scheduler's two policies, and actors of its own that
// read what came (the default) or its network thread, which reads it then.
struct set_up {
  const char* name;
  int threads;
  bool is_sharing;
  bool has_readers;
};
constexpr set_up set_ups[] = {
    {"CAF, 1 thr", 1, false, true},
    {"CAF, 2 thr", 2, false, true},
    {"CAF, 1 thr, work sharing, no readers", 1, true, false},
};

struct networked : caf::actor_system_config {
  explicit networked(const set_up& how) {
    load<caf::io::middleman>();
    set("scheduler.max-threads", static_cast<std::size_t>(how.threads));
    if (how.is_sharing) set("scheduler.policy", caf::atom("sharing"));
    if (!how.has_readers) set("middleman.workers", std::size_t{0});
  }
};

caf::behavior answers() {
  return {[](std::int64_t x) { return x; }};
}

// The other process: says its port, then serves until it is ended.
void serve(const set_up& how, int say) {
  networked with(how);
  caf::actor_system system(with);
  const auto port = system.middleman().publish(system.spawn(answers), 0, loopback);
  const std::uint16_t number = port ? *port : 0;
  static_cast<void>(write_all(say, reinterpret_cast<const char*>(&number), sizeof number));
  for (;;) pause();
}

class pair_of_systems {
 public:
  explicit pair_of_systems(const set_up& how) {
    int ends[2];
    check(pipe(ends) == 0, "a pipe");
    process_ = std::make_unique<forked>([&] { serve(how, ends[1]); });
    std::uint16_t port = 0;
    check(read_all(ends[0], reinterpret_cast<char*>(&port), sizeof port) && port != 0, "a port");
    close(ends[0]);
    close(ends[1]);
    // After the fork, which takes no thread along.
    settings_ = std::make_unique<networked>(how);
    system_ = std::make_unique<caf::actor_system>(*settings_);
    const auto found = system_->middleman().remote_actor(loopback, port);
    check(static_cast<bool>(found), "an actor elsewhere");
    far_ = *found;
  }
  ~pair_of_systems() { far_ = nullptr; }
  pair_of_systems(const pair_of_systems&) = delete;
  pair_of_systems& operator=(const pair_of_systems&) = delete;

  caf::actor_system& system() const { return *system_; }
  const caf::actor& far() const { return far_; }

 private:
  std::unique_ptr<forked> process_;
  std::unique_ptr<networked> settings_;
  std::unique_ptr<caf::actor_system> system_;
  caf::actor far_;
};

struct asker_state {
  std::size_t left = 0;
  std::size_t answered = 0;
  std::size_t total = 0;
  caf::actor far;
  std::atomic<std::int64_t>* done = nullptr;
};

void ask_next(caf::stateful_actor<asker_state>* self) {
  --self->state.left;
  self->request(self->state.far, caf::infinite, std::int64_t{1}).then([self](std::int64_t) {
    asker_state& now = self->state;
    if (now.left > 0) ask_next(self);
    if (++now.answered < now.total) return;
    now.done->store(static_cast<std::int64_t>(now.answered));
    now.done->notify_all();
    self->quit();
  });
}

void asker(caf::stateful_actor<asker_state>* self, caf::actor far, std::size_t total,
           std::size_t window, std::atomic<std::int64_t>* done) {
  self->state.left = self->state.total = total;
  self->state.far = std::move(far);
  self->state.done = done;
  for (std::size_t i = 0; i < window; ++i) ask_next(self);
}

contestant under_way(const set_up& how) {
  contestant c{cluster_calls, how.name};
  c.start = [=](const plan& p) -> body {
    constexpr std::size_t window = 1000;
    const std::size_t count = p.quick ? window : 100'000;
    const auto both = std::make_shared<pair_of_systems>(how);
    return [=](const turn&) {
      std::atomic<std::int64_t> done{0};
      const double before = now_s();
      both->system().spawn(asker, both->far(), count, window, &done);
      done.wait(0);
      check(done.load() == static_cast<std::int64_t>(count), "all answers");
      const auto n = static_cast<double>(count);
      return reading{.value = n / (now_s() - before), .operations = n};
    };
  };
  return c;
}

contestant one_at_a_time(const set_up& how) {
  contestant c{cluster_call_one, how.name};
  c.start = [=](const plan& p) -> body {
    const std::size_t count = p.quick ? 100 : 5000;
    const auto both = std::make_shared<pair_of_systems>(how);
    return [=](const turn&) {
      caf::scoped_actor self(both->system());
      return time_per_operation(unit::microseconds, count, [&] {
        for (std::size_t i = 0; i < count; ++i) {
          std::int64_t got = -1;
          self->request(both->far(), caf::infinite, static_cast<std::int64_t>(i))
              .receive([&](std::int64_t v) { got = v; }, [](caf::error&) {});
          check(got == static_cast<std::int64_t>(i), "answer of an actor");
        }
      });
    };
  };
  return c;
}

}  // namespace

void add_caf_far_actors(suite& s) {
  for (const set_up& how : set_ups) {
    s.add(under_way(how));
    s.add(one_at_a_time(how));
  }
}

}  // namespace bench
