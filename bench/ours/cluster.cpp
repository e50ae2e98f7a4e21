// SPDX-License-Identifier: Apache-2.0
//
// manta's side of bench_cluster. The nodes are this program once more, which main notices.
#include <manta/manta.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "harness/measure.hpp"
#include "ours/cluster_jobs.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

enum class until { up, gone };

contestant starts(const char* row, int nodes, until when) {
  contestant c{row, "manta", side::ours};
  c.start = [=](const plan&) -> body {
    return [=](const turn&) {
      double up = 0;
      const double before = now_s();
      {
        const manta::runtime rt(job_of(nodes));
        up = now_s();
        check(rt.nodes().size() == static_cast<std::size_t>(nodes), "all nodes");
      }
      return reading{.value = ((when == until::up ? up : now_s()) - before) * 1e3};
    };
  };
  return c;
}

contestant deaths() {
  contestant c{cluster_death, "manta", side::ours};
  c.start = [](const plan& p) -> body {
    const std::size_t count = p.quick ? 2 : 10;
    return [=](const turn&) {
      std::vector<double> each;
      for (std::size_t i = 0; i < count; ++i) {
        const manta::runtime rt(job_of(4));
        const double before = now_s();
        kill(rt.nodes().back().pid, SIGKILL);
        while (rt.nodes().size() == 4) std::this_thread::yield();
        each.push_back((now_s() - before) * 1e3);
      }
      reading r{.value = quantile(each, 0.5), .operations = static_cast<double>(count)};
      r.p50 = r.value;
      r.p99 = quantile(each, 0.99);
      return r;
    };
  };
  return c;
}

// The work of the row's tasks.
void sleeps() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

// All tasks are the driver's; who runs them is found out by the nodes.
contestant spreads(const char* row, const char* name, int nodes, int workers, std::size_t tasks) {
  contestant c{row, name, side::ours};
  c.start = [=](const plan& p) -> body {
    const std::size_t count = p.quick ? tasks / 40 : tasks;
    const auto rt = std::make_shared<manta::runtime>(sharing_job(nodes, workers));
    return [=](const turn&) {
      const double before = now_s();
      std::vector<manta::future<void>> all;
      all.reserve(count);
      for (std::size_t i = 0; i < count; ++i) all.push_back(manta::remote<sleeps>());
      // Not by get of each, which would run some on this thread, too.
      static_cast<void>(manta::wait(all, {.count = count}));
      check(rt->nodes().size() == static_cast<std::size_t>(nodes), "all nodes");
      const auto n = static_cast<double>(count);
      return reading{.value = n / (now_s() - before), .operations = n};
    };
  };
  return c;
}

contestant spreads(const char* row, int nodes) {
  return spreads(row, "manta", nodes, 4, 4000 * static_cast<std::size_t>(nodes));
}

int process_after_1_ms() {
  sleeps();
  return getpid();
}

contestant first_task_of_a_new_node() {
  contestant c{cluster_new, "manta", side::ours};
  c.start = [](const plan&) -> body {
    return [](const turn&) {
      const double before = now_s();
      double there = 0;
      const manta::runtime rt(sharing_job(2, 1));
      std::vector<manta::future<int>> all;
      for (int i = 0; i < 500; ++i) all.push_back(manta::remote<process_after_1_ms>());
      for (manta::future<int>& one : manta::as_completed(all)) {
        if (one.get() == getpid()) continue;
        there = now_s();
        break;
      }
      check(there > 0, "a task that the other node has run");
      return reading{.value = (there - before) * 1e3};
    };
  };
  return c;
}

int sum(int a, int b) { return a + b; }
// Who has run it, and what it was given.
int process_of(int /*number*/) { return getpid(); }
struct sent_text {
  int process = 0;
  std::string text;
};
sent_text process_and(std::string text) { return {getpid(), std::move(text)}; }

// What the contestants are called whose nodes have that between them.
const char* name_over(line which) { return which == line::tcp ? "manta, TCP" : "manta"; }

bool is_far(int process) { return process != getpid(); }
bool is_far(const sent_text& one) { return is_far(one.process) && one.text.size() == 1024; }

template <auto F, class... Args>
contestant far_tasks(const char* row, line over, const Args&... args) {
  contestant c{row, name_over(over), side::ours};
  c.start = [=](const plan& p) -> body {
    const std::size_t count = p.quick ? 1000 : 100'000;
    manta::config with = sharing_job(2, 1);
    with.check = manta::check_mode::far;
    const auto rt = job_over(over, with);
    return [=](const turn&) {
      static_cast<void>(rt);
      const double before = now_s();
      std::vector<decltype(manta::remote<F>(args...))> all;
      all.reserve(count);
      for (std::size_t i = 0; i < count; ++i) all.push_back(manta::remote<F>(args...));
      static_cast<void>(manta::wait(all, {.count = count}));
      const double took = now_s() - before;
      const auto far = std::ranges::count_if(all, [](auto& one) { return is_far(one.get()); });
      check(static_cast<std::size_t>(far) * 100 >= count * 99, "tasks that the other node has run");
      const auto n = static_cast<double>(count);
      return reading{.value = n / took, .operations = n};
    };
  };
  return c;
}

contestant one_far_task(line over) {
  contestant c{cluster_far_one, name_over(over), side::ours};
  c.start = [=](const plan& p) -> body {
    const std::size_t count = p.quick ? 100 : 5000;
    manta::config with = sharing_job(2, 1);
    with.check = manta::check_mode::far;
    const auto rt = job_over(over, with);
    return [=](const turn&) {
      static_cast<void>(rt);
      const double before = now_s();
      for (std::size_t i = 0; i < count; ++i) check(manta::remote<sum>(1, 2).get() == 3, "a sum");
      const auto n = static_cast<double>(count);
      return reading{.value = (now_s() - before) / n * 1e6, .operations = n};
    };
  };
  return c;
}

struct far_actor {
  int process_of(int /*number*/) { return getpid(); }
  sent_text process_and(std::string text) { return {getpid(), std::move(text)}; }
};

manta::actor<far_actor> one_elsewhere(const manta::runtime& rt) {
  const std::string node = rt.nodes().back().name;
  const auto made = manta::spawn<far_actor>.with({.where = manta::on_node(node)})();
  check(is_far(manta::remote<&far_actor::process_of>(made, 1).get()), "an actor elsewhere");
  return made;
}

template <auto F, class... Args>
contestant far_calls(const char* row, line over, const Args&... args) {
  contestant c{row, name_over(over), side::ours};
  c.start = [=](const plan& p) -> body {
    const std::size_t count = p.quick ? 1000 : 100'000;
    const auto rt = job_over(over, sharing_job(2, 1));
    const auto to = one_elsewhere(*rt);
    return [=](const turn&) {
      const double before = now_s();
      std::vector<decltype(manta::remote<F>(to, args...))> all;
      all.reserve(count);
      for (std::size_t i = 0; i < count; ++i) all.push_back(manta::remote<F>(to, args...));
      static_cast<void>(manta::wait(all, {.count = count}));
      const double took = now_s() - before;
      const auto far = std::ranges::count_if(all, [](auto& one) { return is_far(one.get()); });
      check(static_cast<std::size_t>(far) == count, "calls in the other node");
      const auto n = static_cast<double>(count);
      static_cast<void>(rt);
      return reading{.value = n / took, .operations = n};
    };
  };
  return c;
}

contestant one_far_call(line over) {
  contestant c{cluster_call_one, name_over(over), side::ours};
  c.start = [=](const plan& p) -> body {
    const std::size_t count = p.quick ? 100 : 5000;
    const auto rt = job_over(over, sharing_job(2, 1));
    const auto to = one_elsewhere(*rt);
    return [=](const turn&) {
      const double before = now_s();
      for (std::size_t i = 0; i < count; ++i) {
        check(is_far(manta::remote<&far_actor::process_of>(to, 1).get()), "its process");
      }
      const auto n = static_cast<double>(count);
      static_cast<void>(rt);
      return reading{.value = (now_s() - before) / n * 1e6, .operations = n};
    };
  };
  return c;
}

struct keeper {
  explicit keeper(std::size_t count) : kept(written_bytes(count)) {}
  bytes gives() const { return kept; }
  double last_of(const std::vector<double>& all) const { return all.back(); }
  bytes kept;
};

std::shared_ptr<manta::runtime> two_with_store(bool is_quick, bool maps, line over) {
  return job_with_store(2, std::size_t{is_quick ? 256U : 2200U} << 20U, maps, over);
}

manta::actor<keeper> keeper_elsewhere(const manta::runtime& rt, std::size_t count) {
  const auto where = manta::on_node(rt.nodes().back().name);
  return manta::spawn<keeper>.with({.where = where})(count);
}

contestant far_arrays(const char* row, const char* name, std::size_t count, bool maps,
                      line over = line::machine) {
  contestant c{row, name, side::ours};
  c.start = [=](const plan& p) -> body {
    const std::size_t size = p.quick ? count / 16 : count;
    const int rounds = p.quick ? 2 : 20;
    const auto rt = two_with_store(p.quick, maps, over);
    const auto from = keeper_elsewhere(*rt, size);
    check(manta::remote<&keeper::gives>(from).get().size() == size, "its size");
    return [=](const turn&) {
      static_cast<void>(rt);
      return median_ms(rounds, [&] {
        const double before = now_s();
        const bytes came = manta::remote<&keeper::gives>(from).get();
        check(came[0] == written && came[size - 1] == written, "what it has");
        return now_s() - before;
      });
    };
  };
  return c;
}

contestant far_vectors(const char* name, std::size_t count, bool maps, line over = line::machine) {
  contestant c{cluster_vector, name, side::ours};
  c.start = [=](const plan& p) -> body {
    const std::size_t size = (p.quick ? count / 16 : count) / sizeof(double);
    const int rounds = p.quick ? 2 : 20;
    const auto rt = two_with_store(p.quick, maps, over);
    const auto to = keeper_elsewhere(*rt, 1);
    check(manta::remote<&keeper::gives>(to).get().size() == 1, "it is made");
    return [=](const turn&) {
      static_cast<void>(rt);
      return median_ms(rounds, [&] {
        std::vector<double> all(size, 7);
        const double before = now_s();
        check(manta::remote<&keeper::last_of>(to, std::move(all)).get() == 7, "what it read");
        return now_s() - before;
      });
    };
  };
  return c;
}

contestant home_tasks(const char* name, int nodes) {
  contestant c{cluster_home, name, side::ours};
  c.start = [=](const plan& p) -> body {
    const std::size_t count = p.quick ? 10'000 : 1'000'000;
    const auto rt = std::make_shared<manta::runtime>(sharing_job(nodes, 1));
    return [=](const turn&) {
      static_cast<void>(rt);
      const double before = now_s();
      std::vector<manta::future<int>> all;
      all.reserve(count);
      for (std::size_t i = 0; i < count; ++i) all.push_back(manta::remote<sum>(1, 2));
      static_cast<void>(manta::wait(all, {.count = count}));
      const auto n = static_cast<double>(count);
      return reading{.value = n / (now_s() - before), .operations = n};
    };
  };
  return c;
}

}  // namespace

void be_a_node() {
  if (std::getenv("MANTA_RANK") == nullptr) return;
  manta::config with;
  with.workers = 1;
  if (const char* const shares = std::getenv("BENCH_SHARES"); shares != nullptr) {
    with.workers = std::atoi(shares);
  }
  const manta::runtime rt(with);  // does not return
}

void add_our_clusters(suite& s) {
  s.add(starts(cluster_life, 8, until::gone));
  s.add(starts(cluster_up, 8, until::up));
  s.add(starts(cluster_join, 2, until::up));
  s.add(deaths());
  s.add(spreads(cluster_spread_1, 1));
  s.add(spreads(cluster_spread_2, 2));
  s.add(spreads(cluster_spread_4, 4));
  s.add(spreads(cluster_spread_8, 8));
  s.add(spreads(cluster_busy, "manta, 1 node", 1, 1, 2000));
  s.add(spreads(cluster_busy, "manta, 5 nodes", 5, 1, 10'000));
  s.add(first_task_of_a_new_node());
  for (const line over : {line::machine, line::tcp}) {
    const std::string text(1024, 'x');
    s.add(far_tasks<process_of>(cluster_far, over, 1));
    s.add(far_tasks<process_and>(cluster_far_text, over, text));
    s.add(one_far_task(over));
    s.add(far_calls<&far_actor::process_of>(cluster_calls, over, 1));
    s.add(far_calls<&far_actor::process_and>(cluster_calls_text, over, text));
    s.add(one_far_call(over));
  }
  constexpr std::size_t large = 100'000'000;
  s.add(far_arrays(cluster_array, "manta", large, true));
  s.add(far_arrays(cluster_array, "manta, copied", large, false));
  s.add(far_arrays(cluster_array, "manta, TCP", large, false, line::tcp));
  s.add(far_arrays(cluster_array, "manta, TLS", large, false, line::tls));
  s.add(far_vectors("manta", large, true));
  s.add(far_vectors("manta, by socket", large, false));
  s.add(far_vectors("manta, TCP", large, false, line::tcp));
  s.add(far_vectors("manta, TLS", large, false, line::tls));
  s.add(far_arrays(cluster_array_gib, "manta", std::size_t{1} << 30U, true));
  s.add(home_tasks("manta, alone", 1));
  s.add(home_tasks("manta, 3 nodes beside", 4));
}

}  // namespace bench
