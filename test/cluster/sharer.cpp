// SPDX-License-Identifier: Apache-2.0
// A program whose tasks may run in other nodes of its cluster, for the tests of this folder. What
// it does is its first argument; each prints one line that begins with it, and "right"
// when all came out as it has to.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <manta/manta.hpp>

#include "cluster/sharing.hpp"

using namespace sharing;  // NOLINT: its words

namespace {

// The sleeps of this file are the tasks' work.
done square(long x, int ms) {
  note_run(x);
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  return {getpid(), x * x};
}

std::vector<double> scaled(const std::vector<double>& all, double by) {
  std::this_thread::sleep_for(2ms);
  std::vector<double> out = all;
  for (double& one : out) one *= by;
  return out;
}

done nested(long x) {
  const auto one = manta::remote<square>(x, 1);
  const auto two = manta::remote<square>(x + 1, 1);
  return {getpid(), one.get().value + two.get().value};
}

manta::future<done> delegating(long x) { return manta::remote<square>(x, 2); }

manta::coroutine<done> suspending(long x) {
  const done one = co_await manta::remote<square>(x, 1);
  co_return done{getpid(), one.value};
}

struct with_future {
  manta::future<int> inside;
};
int seven() { return 7; }
with_future giving() {
  std::this_thread::sleep_for(2ms);
  return {manta::remote<seven>()};
}
int taking(const with_future& one) {
  std::this_thread::sleep_for(2ms);
  return one.inside.get();
}

done throwing(long x) {
  std::this_thread::sleep_for(2ms);
  if (x % 2 == 1) throw std::out_of_range("odd: " + std::to_string(x));
  return {getpid(), x};
}

// Until it is asked to stop.
int waiting() {
  while (!manta::this_task::is_cancelled()) std::this_thread::sleep_for(1ms);
  return getpid();
}

// Each notes that it ran, and finds what the driver has said.
done noting(long x) {
  std::this_thread::sleep_for(3ms);
  manta::kv::put("ran/" + std::to_string(x), getpid()).get();
  const auto base = manta::kv::get<long>("base").get();
  return {getpid(), base.has_value() ? base->value + x : -1};
}

struct named {};
// 1: it was made, where the driver is; 2: it was refused, typed, elsewhere.
done naming(long x) {
  std::this_thread::sleep_for(3ms);
  try {
    static_cast<void>(manta::spawn<named>.with({.name = "n" + std::to_string(x)})());
    return {getpid(), 0};
  } catch (const manta::unsupported&) {
    return {getpid(), 0};
  }
}

// The work of each item is a sleep.
manta::stream<done> generating(long x) {
  for (long i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(3ms);
    co_yield done{getpid(), x + i};
  }
}

// Stays where its stream is, which is found out when somebody looks whether it can go.
long sum_of(manta::stream<done> s) {
  long sum = 0;
  for (auto& item : s) sum += item.get().value;
  return sum;
}

int arrays() {
  std::vector<double> all(20000);
  std::iota(all.begin(), all.end(), 0.0);
  const auto source = manta::put(all);
  std::vector<manta::future<std::vector<double>>> out;
  for (int i = 0; i < 200; ++i) out.push_back(manta::remote<scaled>(source, i));
  bool is_right = true;
  for (int i = 0; i < 200; ++i) {
    const std::vector<double>& one = out[static_cast<std::size_t>(i)].get();
    is_right = is_right && one.size() == all.size() && one[19999] == 19999.0 * i;
  }
  return say("arrays", is_right, {}, 0);
}

std::size_t measured(const std::vector<double>& all) {
  std::this_thread::sleep_for(30ms);
  return all.size();
}
std::vector<double> made(std::size_t n) {
  std::this_thread::sleep_for(30ms);
  return std::vector<double>(n, 1.0);
}

// More than one message has, there and back.
int too_large() {
  constexpr std::size_t n = std::size_t{5} << 20U;
  const auto source = manta::put(std::vector<double>(n));
  std::vector<manta::future<std::size_t>> there;
  std::vector<manta::future<std::vector<double>>> back;
  for (int i = 0; i < 4; ++i) {
    there.push_back(manta::remote<measured>(source));
    back.push_back(manta::remote<made>(n));
  }
  bool is_right = true;
  for (auto& one : there) is_right = is_right && one.get() == n;
  for (auto& one : back) is_right = is_right && one.get().size() == n;
  return say("too-large", is_right, {}, 0);
}

int generators(long count) {
  std::vector<manta::stream<done>> all;
  for (long i = 0; i < count; ++i) all.push_back(manta::remote<generating>(i));
  std::vector<manta::future<long>> sums;
  for (long i = 0; i < count / 4; ++i) {
    sums.push_back(manta::remote<sum_of>(manta::remote<generating>(i)));
  }
  std::map<int, int> by_process;
  bool is_right = true;
  for (long i = 0; i < count; ++i) {
    long next = i;
    for (auto& item : all[static_cast<std::size_t>(i)]) {
      const done& one = item.get();
      ++by_process[one.pid];
      is_right = is_right && one.value == next++;
    }
    is_right = is_right && next == i + 3;
  }
  for (long i = 0; i < count / 4; ++i) {
    is_right = is_right && sums[static_cast<std::size_t>(i)].get() == 3 * i + 3;
  }
  return say("generating", is_right, by_process, 0);
}

int handles() {
  std::vector<manta::future<with_future>> given;
  std::vector<manta::future<int>> taken;
  for (int i = 0; i < 100; ++i) {
    given.push_back(manta::remote<giving>());
    taken.push_back(manta::remote<taking>(with_future{manta::remote<seven>()}));
  }
  bool is_right = true;
  for (auto& one : given) is_right = is_right && one.get().inside.get() == 7;
  for (auto& one : taken) is_right = is_right && one.get() == 7;
  return say("handles", is_right, {}, 0);
}

int failures() {
  std::vector<manta::future<done>> all;
  for (long i = 0; i < 400; ++i) all.push_back(manta::remote<throwing>(i));
  int right = 0;
  std::map<int, int> by_process;
  for (long i = 0; i < 400; ++i) {
    try {
      ++by_process[all[static_cast<std::size_t>(i)].get().pid];
      right += i % 2 == 0 ? 1 : 0;
    } catch (const manta::task_error& thrown) {
      const bool tells =
          std::string(thrown.what()).find("odd: " + std::to_string(i)) != std::string::npos;
      right += i % 2 == 1 && tells ? 1 : 0;
    }
  }
  return say("failures", right == 400, by_process, 0);
}

int cancels() {
  std::vector<manta::future<int>> all;
  for (int i = 0; i < 40; ++i) all.push_back(manta::remote<waiting>());
  std::this_thread::sleep_for(300ms);  // until some run elsewhere
  int ended = 0;
  for (auto& one : all) manta::cancel(one);
  for (auto& one : all) {
    try {
      static_cast<void>(one.get(20s));
      ++ended;
    } catch (const manta::cancelled&) {
      ++ended;
    }
  }
  return say("cancels", ended == 40, {}, 0);
}

// Each is asked to stop with its children as it runs.
void time_out(int count) {
  for (int i = 0; i < count; ++i) {
    static_cast<void>(manta::remote<square>.with({.timeout = 1ms})(i, 3).try_get(20s));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "spread";
  const long count = argc > 2 ? std::atol(argv[2]) : 400;
  const int ms = argc > 3 ? std::atoi(argv[3]) : 5;
  const std::size_t bytes = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 0;
  manta::runtime rt(argc, argv);
  const auto squared = [](long i) { return i * i; };
  if (what == "nested") {
    return spread(
        "nested", count, [](long i) { return manta::remote<nested>(i); },
        [](long i) { return i * i + (i + 1) * (i + 1); });
  }
  if (what == "delegating") {
    return spread(
        "delegating", count, [](long i) { return manta::remote<delegating>(i); }, squared);
  }
  if (what == "suspending") {
    return spread(
        "suspending", count, [](long i) { return manta::remote<suspending>(i); }, squared);
  }
  if (what == "keys") {
    manta::kv::put("base", 1000L).get();
    const int code = spread(
        "keys", count, [](long i) { return manta::remote<noting>(i); },
        [](long i) { return 1000 + i; });
    std::set<int> by;
    for (long i = 0; i < count; ++i) {
      const auto ran = manta::kv::get<int>("ran/" + std::to_string(i)).get();
      by.insert(ran.has_value() ? ran->value : 0);
    }
    std::printf("keys written by %zu processes\n", by.count(0) == 0 ? by.size() : 0);
    return code;
  }
  if (what == "names") {
    return spread(
        "names", count, [](long i) { return manta::remote<naming>(i); }, [](long) { return 0; });
  }
  if (what == "early" && rt.rank() == 0) return 0;  // while others have work
  if (what == "arrays") return arrays();
  if (what == "too-large") return too_large();
  if (what == "generating") return generators(count);
  if (what == "handles") return handles();
  if (what == "failures") return failures();
  if (what == "cancels") return cancels();
  if (what == "slow-writer") return slow_writer(rt);
  if (what == "late") time_out(300);
  for (const manta::node_info& one : rt.nodes()) {
    std::printf("pid %s %d\n", one.name.c_str(), one.pid);
  }
  std::fflush(stdout);
  const int code = run_with_arrays(rt, {what, count, ms, bytes});
  if (code >= 0) return code;
  return spread(
      "spread", count, [ms](long i) { return manta::remote<square>(i, ms); }, squared);
}
