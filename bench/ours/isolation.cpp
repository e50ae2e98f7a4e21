// SPDX-License-Identifier: Apache-2.0
//
// manta's side of bench_isolation. Workers are told apart from their zygote, and found, in /proc.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <dirent.h>
#include <sys/mman.h>
#include <unistd.h>

#include <manta/manta.hpp>

#include "harness/measure.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

using namespace std::chrono_literals;

std::uint64_t echo(std::uint64_t i) { return i; }
std::vector<double> halves(std::vector<double> v) {
  for (double& x : v) x /= 2;
  return v;
}
std::uint64_t fib(std::uint64_t n) {
  if (n < 2) return n;
  const auto a = manta::remote<fib>(n - 1);
  const auto b = manta::remote<fib>(n - 2);
  return a.get() + b.get();
}
std::uint64_t spin(std::uint64_t i) {
  const auto end = std::chrono::steady_clock::now() + 50us;
  while (std::chrono::steady_clock::now() < end) {
  }
  return i;
}
struct adder {
  std::uint64_t next(std::uint64_t i) { return i + 1; }
};
// Waits to be killed, the first time.
pid_t* shared_pid = nullptr;
int waits(int /*unused*/) {
  if (*shared_pid != 0) return 1;
  *shared_pid = getpid();
  for (;;) pause();
}

manta::config on(manta::isolation_mode how) {
  manta::config c;
  c.workers = 2;
  c.isolation = how;
  return c;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> found;
  DIR* const folder = opendir("/proc");
  while (const dirent* const one = folder != nullptr ? readdir(folder) : nullptr) {
    const auto pid = static_cast<pid_t>(std::atol(one->d_name));
    if (pid <= 0) continue;
    std::FILE* const file = std::fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "re");
    if (file == nullptr) continue;
    char text[512] = {};
    const std::size_t n = std::fread(text, 1, sizeof text - 1, file);
    std::fclose(file);
    const char* const after = n > 0 ? std::strrchr(text, ')') : nullptr;
    int ppid = 0;
    char state = 0;
    if (after != nullptr && std::sscanf(after + 1, " %c %d", &state, &ppid) == 2 &&
        ppid == parent) {
      found.push_back(pid);
    }
  }
  if (folder != nullptr) closedir(folder);
  return found;
}

contestant many(const char* name, manta::isolation_mode how, side who) {
  contestant c{isolated_many, name, who};
  c.start = [how](const plan& p) -> body {
    auto rt = std::make_shared<manta::runtime>(on(how));
    const std::size_t count = p.count(100'000);
    return [=](const turn& t) {
      keep(rt);
      return rate(t, static_cast<double>(count), 1, [&] {
        std::vector<manta::future<std::uint64_t>> all;
        all.reserve(count);
        for (std::uint64_t i = 0; i < count; ++i) all.push_back(manta::remote<echo>(i));
        std::uint64_t sum = 0;
        for (auto& f : all) sum += f.get();
        check(sum == count * (count - 1) / 2, "sum of results");
      });
    };
  };
  return c;
}

contestant large(const char* name, manta::isolation_mode how, side who) {
  contestant c{isolated_large, name, who};
  c.start = [how](const plan& p) -> body {
    auto rt = std::make_shared<manta::runtime>(on(how));
    const std::size_t count = p.count(5'000);
    return [=](const turn& t) {
      keep(rt);
      return rate(t, static_cast<double>(count), 1, [&] {
        std::vector<manta::future<std::vector<double>>> all;
        for (std::size_t i = 0; i < count; ++i) {
          all.push_back(manta::remote<halves>(std::vector<double>(1000, 2.0)));
        }
        double sum = 0;
        for (auto& f : all) sum += f.get().back();
        check(sum == static_cast<double>(count), "sum of results");
      });
    };
  };
  return c;
}

contestant calls(const char* name, manta::isolation_mode how, side who) {
  contestant c{isolated_calls, name, who};
  c.start = [how](const plan& p) -> body {
    auto rt = std::make_shared<manta::runtime>(on(how));
    const std::size_t count = p.count(100'000);
    auto sums = std::make_shared<manta::actor<adder>>(manta::spawn<adder>());
    return [=](const turn& t) {
      keep(rt);
      return rate(t, static_cast<double>(count), 1, [&] {
        std::vector<manta::future<std::uint64_t>> all;
        all.reserve(count);
        for (std::uint64_t i = 0; i < count; ++i)
          all.push_back(manta::remote<&adder::next>(*sums, i));
        for (std::uint64_t i = 0; i < count; ++i) check(all[i].get() == i + 1, "each result");
      });
    };
  };
  return c;
}

contestant single(const char* row, const char* name, manta::isolation_mode how, side who,
                  bool rests) {
  contestant c{row, name, who};
  c.start = [how, rests](const plan& p) -> body {
    auto rt = std::make_shared<manta::runtime>(on(how));
    const std::size_t count = rests ? (p.quick ? 5 : 300) : p.count(100'000);
    return [=](const turn&) {
      keep(rt);
      const auto one = [](std::size_t i) {
        check(manta::remote<echo>(i).get() == i, "echo of a number");
      };
      return rests ? latency_after_pause(unit::microseconds, count, 2ms, one)
                   : latency(unit::microseconds, count, one);
    };
  };
  return c;
}

contestant nested(const char* name, manta::isolation_mode how, side who) {
  contestant c{isolated_nested, name, who};
  c.start = [how](const plan&) -> body {
    auto rt = std::make_shared<manta::runtime>(on(how));
    return [=](const turn&) {
      keep(rt);
      return time_per_operation(unit::microseconds, 1973, [] {
        check(manta::remote<fib>(std::uint64_t{15}).get() == 610, "fib(15)");
      });
    };
  };
  return c;
}

contestant death() {
  contestant c{isolated_death, "manta", side::ours};
  c.start = [](const plan& p) -> body {
    shared_pid = static_cast<pid_t*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    auto rt = std::make_shared<manta::runtime>(on(manta::isolation_mode::processes));
    const std::size_t count = p.quick ? 2 : 20;
    return [=](const turn&) {
      keep(rt);
      std::vector<double> each;
      for (std::size_t i = 0; i < count; ++i) {
        auto& pid = reinterpret_cast<std::atomic<pid_t>&>(*shared_pid);
        pid = 0;
        const auto f = manta::remote<waits>(1);
        const double limit = now_s() + 60;
        while (pid == 0 && now_s() < limit) std::this_thread::yield();
        check(pid != 0, "a task that began");
        const double before = now_s();
        kill(pid, SIGKILL);
        check(f.get() == 1, "the second run");
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

// A million tasks of 50 us and a kill every 500 ms, of which at least 50 land.
contestant kills(const char* name, bool does_kill) {
  contestant c{isolated_kills, name, side::ours};
  c.start = [does_kill](const plan& p) -> body {
    auto rt = std::make_shared<manta::runtime>(on(manta::isolation_mode::processes));
    const std::size_t count = p.count(1'000'000);
    const int fewest = p.quick || !does_kill ? 0 : 50;
    return [=](const turn&) {
      keep(rt);
      std::atomic<bool> ends{false};
      std::atomic<int> landed{0};
      const auto before = rt->stats().isolated_workers;
      std::thread killer([&] {
        if (!does_kill) return;
        // A schedule of faults, so it sleeps; in short pieces, to end with the tasks, and a little
        // more often than twice a second, so that 50 land in 25 s.
        const pid_t zygote = children_of(getpid()).front();
        for (std::size_t i = 0; !ends; ++i) {
          for (int k = 0; k < 48 && !ends; ++k) std::this_thread::sleep_for(10ms);
          const auto workers = children_of(zygote);
          if (ends || workers.empty()) continue;
          if (kill(workers[i % workers.size()], SIGKILL) == 0) ++landed;
        }
      });
      const reading r = time_per_operation(unit::microseconds, count, [&] {
        std::vector<manta::future<std::uint64_t>> all;
        all.reserve(count);
        for (std::uint64_t i = 0; i < count; ++i) {
          all.push_back(manta::remote<spin>.with({.max_retries = 100})(i));
        }
        for (std::uint64_t i = 0; i < count; ++i) check(all[i].get() == i, "each result");
      });
      ends = true;
      killer.join();
      check(landed >= fewest, "kills that landed");
      // Each took a worker away, in whose place there is another one.
      const auto made = rt->stats().isolated_workers - before;
      check(made + 2 >= static_cast<std::uint64_t>(landed), "workers in place of the killed");
      return r;
    };
  };
  return c;
}

}  // namespace

void add_our_isolation(suite& s) {
  constexpr auto processes = manta::isolation_mode::processes;
  constexpr auto threads = manta::isolation_mode::threads;
  s.add(many("manta", processes, side::ours));
  s.add(many("manta on 2 threads", threads, side::reference));
  s.add(large("manta", processes, side::ours));
  s.add(large("manta on 2 threads", threads, side::reference));
  s.add(calls("manta", processes, side::ours));
  s.add(calls("manta on 2 threads", threads, side::reference));
  s.add(single(isolated_awake, "manta", processes, side::ours, false));
  s.add(single(isolated_awake, "manta on 2 threads", threads, side::reference, false));
  s.add(single(isolated_asleep, "manta", processes, side::ours, true));
  s.add(single(isolated_asleep, "manta on 2 threads", threads, side::reference, true));
  s.add(nested("manta", processes, side::ours));
  s.add(nested("manta on 2 threads", threads, side::reference));
  s.add(death());
  s.add(kills("manta, no kills", false));
  s.add(kills("manta, kills", true));
}

}  // namespace bench
