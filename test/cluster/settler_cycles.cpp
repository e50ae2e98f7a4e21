// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp that make one runtime after the other, and that end early: by a
// cancel while an array is fetched.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <manta/base/sanitizers.hpp>

#include "cluster/belongings.hpp"
#include "cluster/membership.hpp"
#include "cluster/settling.hpp"
#include "cluster/stopping.hpp"
#include "node/array_home.hpp"

namespace settling {
namespace cycle_words {

// ---- what a process has without a runtime

struct estate_of_process {
  std::int64_t resident = 0;  // bytes
  std::int64_t descriptors = 0;
  std::int64_t threads = 0;
  std::int64_t maps = 0;
  std::int64_t children = 0;  // those that have ended and were not waited for, too
};

std::int64_t entries_of(const std::string& folder) {
  return std::distance(std::filesystem::directory_iterator(folder),
                       std::filesystem::directory_iterator());
}

estate_of_process of_this_process() {
  estate_of_process out;
  std::int64_t total = 0;
  std::ifstream("/proc/self/statm") >> total >> out.resident;
  out.resident *= sysconf(_SC_PAGESIZE);
  out.descriptors = entries_of("/proc/self/fd");
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++out.maps;
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/task")) {
    ++out.threads;
    std::ifstream file(one.path() / "children");
    out.children += std::distance(std::istream_iterator<int>(file), std::istream_iterator<int>());
  }
  return out;
}

std::string shown(const estate_of_process& of) {
  return std::to_string(of.resident >> 10) + " KiB, " + std::to_string(of.descriptors) +
         " descriptors, " + std::to_string(of.threads) + " threads, " + std::to_string(of.maps) +
         " maps, " + std::to_string(of.children) + " children";
}

// One runtime with all that is made when it is first needed: tasks, an actor and an array of
// another node.
void live_once(int argc, char** argv) {
  const manta::runtime rt(argc, argv);
  const std::string other = others(rt).front().name;
  const auto one = one_at(other, 1);
  expect(manta::remote<squared>.with(at(other))(7L).get(long_enough) == 49, "a task there");
  expect(manta::remote<&counter::add>(one, 1L).get(long_enough) == 2, "an actor there");
  const auto words =
      manta::remote<counted_from>.with(at(other))(std::size_t{10'000}, std::uint64_t{3});
  expect(are_counted(words.get(long_enough), 10'000, 3), "an array from there");
}

}  // namespace cycle_words

int cycles(int argc, char** argv, int times) {
  using namespace cycle_words;  // NOLINT: the words of this program
  const int warm = std::max(times / 5, 2);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < warm; ++i) live_once(argc, argv);
  const estate_of_process before = of_this_process();
  for (int i = warm; i < times; ++i) live_once(argc, argv);
  const estate_of_process after = of_this_process();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%d times in %.3f s\nbefore: %s\nafter: %s\n", times, took.count(),
              shown(before).c_str(), shown(after).c_str());
  expect(after.descriptors == before.descriptors, "descriptors are left");
  expect(after.children == 0, "processes are left");
  expect(after.threads == before.threads, "threads are left");
  // The allocator's heaps of threads come and go.
  expect(after.maps <= before.maps + 20, "maps are left");
  constexpr std::int64_t growth_allowed = std::int64_t{8} << 20U;
  expect(manta::base::is_sanitized || after.resident <= before.resident + growth_allowed,
         "memory is left");
  return say("cycles");
}

namespace cycle_words {

// ---- a cancel while a large array is fetched

constexpr std::size_t large_count = std::size_t{1} << 22U;  // 32 MiB

bool reads_large(const counted_words& all) { return are_counted(all, large_count, 5, 4'096); }
// Fetches it as it looks at it, or takes it.
bool reads_handle(const manta::future<counted_words>& of, const std::string& began) {
  manta::kv::put(began, 1).get();
  manta::future<counted_words> own = of;
  return reads_large(of.get(long_enough)) && reads_large(std::move(own).get());
}
bool takes_handle(const manta::future<counted_words>& of, const std::string& began) {
  manta::kv::put(began, 1).get();
  manta::future<counted_words> own = of;
  return reads_large(std::move(own).get());
}
enum class reading { argument, looks, takes };
manta::future<bool> read_in(const std::string& node, const manta::future<counted_words>& of,
                            reading how, const std::string& began) {
  switch (how) {
    case reading::argument:
      return manta::remote<reads_large>.with(at(node))(of);
    case reading::looks:
      return manta::remote<reads_handle>.with(at(node))(of, began);
    case reading::takes:
      break;
  }
  return manta::remote<takes_handle>.with(at(node))(of, began);
}

// Stops the one that has it in the midst of a fetch, and cancels who waits for it: one that has it
// as an argument has not begun, and ends at once; one that looks at it by itself is asked to stop,
// and goes on to its end.
void check_cancel(const std::string& reader, const manta::node_info& maker, reading how) {
  const bool has_begun = how != reading::argument;
  const std::string who = reader + (has_begun ? ", begun: " : ": ");
  const std::string began = "began/" + reader + std::to_string(static_cast<int>(how));
  const auto made = manta::remote<counted_from>.with(at(maker.name))(large_count, std::uint64_t{5});
  static_cast<void>(manta::wait(std::vector{made}, {.count = 1, .timeout = long_enough}));
  cluster_test::stop(static_cast<pid_t>(maker.pid));
  auto reads = read_in(reader, made, how, began);
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (has_begun && !manta::kv::get<int>(began).get() &&
         std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);  // it begins soon
  }
  std::this_thread::sleep_for(200ms);  // the fault's schedule: it has been asked for
  manta::cancel(reads);
  std::string why;
  if (!has_begun) {
    // A member may be silent for longer.
    expect(ends_within(reads, 8s), who + "it waited for the array");
    why = thrown_by<manta::cancelled>(reads);
  }
  kill(static_cast<pid_t>(maker.pid), SIGCONT);
  if (has_begun) why = thrown_by<manta::cancelled>(reads);
  expect(has_begun ? why == "nothing" : has(why, "cancel"), who + why);
  const auto again = manta::remote<reads_large>.with(at(reader))(made);
  const std::string end = thrown_by<manta::exception>(again);
  expect(end == "nothing" && again.get(), who + "who asks again has it: " + end);
}

int cancels_fetch(const manta::runtime& rt) {
  const auto all = others(rt);
  for (const reading how : {reading::argument, reading::looks, reading::takes}) {
    for (const std::string& reader : {all[0].name, manta::this_task::node()}) {
      check_cancel(reader, all[1], how);
    }
  }
  expect_nothing_left(all_but(rt, ""));
  return say("cancels-fetch");
}

// Busy in all nodes until it is interrupted; tasks look whether they are to stop, or never do.
bool looks_to_stop(const std::string& began) {
  const auto told = manta::kv::put(began, 1);
  while (!manta::this_task::is_cancelled()) std::this_thread::sleep_for(1ms);
  return true;
}
bool never_stops(const std::string& began) {
  const auto told = manta::kv::put(began, 1);
  std::this_thread::sleep_for(60s);  // as one that computes
  return true;
}
enum class stubborn : std::uint8_t { nobody, the_driver, all };
int interrupted(const manta::runtime& rt, stubborn who) {
  std::vector<manta::actor<counter>> actors;
  for (const manta::node_info& one : others(rt)) {
    actors.push_back(one_at(one.name));
    expect(manta::remote<&counter::add>(actors.back(), 1L).get(long_enough) == 1, "an actor");
  }
  std::vector<manta::future<bool>> all;
  for (const manta::node_info& one : rt.nodes()) {
    const bool is_driver = one.name == manta::this_task::node();
    const bool is_stubborn = who == stubborn::all || (who == stubborn::the_driver && is_driver);
    for (int i = 0; i < 4; ++i) {
      const std::string began = "began/" + one.name;
      all.push_back(is_stubborn ? manta::remote<never_stops>.with(at(one.name))(began)
                                : manta::remote<looks_to_stop>.with(at(one.name))(began));
    }
  }
  for (const manta::node_info& one : rt.nodes()) expect(comes("began/" + one.name), one.name);
  say_pids(rt);
  std::puts("busy");
  std::fflush(stdout);
  for (const auto& one : all) static_cast<void>(one.get());
  return say("interrupted");
}

}  // namespace cycle_words

program_list cycle_programs() {
  using namespace cycle_words;  // NOLINT: the words of these programs
  return {{"cancels-fetch", cancels_fetch},
          {"interrupted", [](const auto& rt) { return interrupted(rt, stubborn::nobody); }},
          {"detained", [](const auto& rt) { return interrupted(rt, stubborn::the_driver); }},
          {"stubborn", [](const auto& rt) { return interrupted(rt, stubborn::all); }}};
}

}  // namespace settling
