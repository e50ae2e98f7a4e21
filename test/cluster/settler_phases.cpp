// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp in which a node is lost while it is given tasks or while their
// arguments and results are written, or comes back too late or in time. Each task ends once, with
// its value or typed, and ran no more often than its end says.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <manta/base/sanitizers.hpp>

#include "cluster/belongings.hpp"
#include "cluster/membership.hpp"
#include "cluster/settling.hpp"
#include "cluster/stopping.hpp"

namespace settling {
namespace phase_words {

// ---- tasks that are counted where they run

constexpr std::size_t most_tasks = 60'000;
// How often each has begun in this process.
std::array<std::atomic<std::uint8_t>, most_tasks> runs;

struct ran {
  int pid = 0;
  long value = 0;
};

ran note(long x) {
  ++runs[static_cast<std::size_t>(x)];
  return {getpid(), x * x};
}
// Now and then one that takes long enough for others to have their share. The sleep is its work.
ran quick(long x) {
  if (x % 16 == 0) std::this_thread::sleep_for(1ms);
  return note(x);
}
ran slow(long x) {
  const ran out = note(x);
  std::this_thread::sleep_for(100ms);  // the task's work
  return out;
}
std::vector<std::uint8_t> runs_of_first(std::size_t count) {
  std::vector<std::uint8_t> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(runs[i].load());
  return out;
}

// How a task was asked for: it has to run in the node that will be lost, should, or may.
enum class bond { hard, wish, none };
bond bond_of(long x) {
  constexpr std::array all{bond::hard, bond::wish, bond::none, bond::none};
  return all[static_cast<std::size_t>(x) % all.size()];
}

struct asked_task {
  bond how = bond::none;
  manta::future<ran> end;
};

/// The tasks of one program, and what became of them.
struct ledger_of_tasks {
  explicit ledger_of_tasks(manta::node_info to_be_lost) : lost(std::move(to_be_lost)) {}

  /// Nobody is bound to a node that is known to be lost: that is refused at the call.
  template <class Call>
  void ask(long x, const Call& call) {
    const bond how = is_known_lost && bond_of(x) == bond::hard ? bond::none : bond_of(x);
    try {
      if (how == bond::none) return all.push_back({how, call(manta::options())});
      return all.push_back({how, call(at(lost.name, how == bond::wish))});
    } catch (const manta::infeasible&) {
      expect(how == bond::hard, "who only wishes is not refused");
      is_known_lost = true;
    }
    all.push_back({bond::none, call(manta::options())});
  }

  /// Each ends with its value, or, where it was bound to it, with the node's loss. By whom the
  /// values were made: 0 is nobody.
  void hear_all() {
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string name = "task " + std::to_string(i);
      int by = 0;
      try {
        const ran got = all[i].end.get(long_enough);
        expect(got.value == static_cast<long>(i * i), name + ": its value");
        by = got.pid;
      } catch (const manta::node_lost& e) {
        expect(all[i].how == bond::hard, name + ": " + e.what());
        ++unended;
      } catch (const manta::exception& e) {
        expect(false, name + ": " + e.what());
      }
      by_whom.push_back(by);
    }
  }

  /// A node that lives runs what ends there once, and nothing else. Where nobody is lost that is so
  /// of all nodes.
  void check_runs(const std::vector<std::string>& living, bool is_lost = true) const {
    std::vector<int> sum(all.size());
    for (const std::string& node : living) {
      const auto its = manta::remote<runs_of_first>.with(at(node))(all.size()).get(long_enough);
      for (std::size_t i = 0; i < all.size(); ++i) sum[i] += its[i];
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool is_by_living = by_whom[i] != 0 && (!is_lost || by_whom[i] != lost.pid);
      expect(sum[i] == (is_by_living ? 1 : 0),
             "task " + std::to_string(i) + " ran " + std::to_string(sum[i]) + " times, and ended " +
                 (is_by_living ? "where somebody lives" : "with its node"));
    }
  }

  manta::node_info lost;
  bool is_known_lost = false;
  std::vector<asked_task> all;
  std::vector<int> by_whom;
  std::size_t unended = 0;
};

int signal_of(const std::string& how) { return how == "stop" ? SIGSTOP : SIGKILL; }

// Does something to a node when its turn has come, beside the thread that goes on meanwhile.
template <class Turn>
std::thread harm(const manta::node_info& node, const std::string& how, Turn has_come) {
  return std::thread([pid = static_cast<pid_t>(node.pid), signal = signal_of(how), has_come] {
    const auto limit = std::chrono::steady_clock::now() + long_enough;
    while (!has_come() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    kill(pid, signal);
  });
}

// ---- while tasks are submitted

int submits(const manta::runtime& rt, const std::string& how) {
  constexpr long count = manta::base::is_sanitized ? 3'000 : 30'000;
  ledger_of_tasks tasks(others(rt)[1]);
  const std::vector<std::string> living = all_but(rt, tasks.lost.name);
  tasks.ask(0, [](const manta::options& with) { return manta::remote<quick>.with(with)(0L); });
  expect(tasks.all.front().end.get(long_enough).pid == tasks.lost.pid, "the first one runs there");
  std::atomic<long> submitted{0};
  std::thread by = harm(tasks.lost, how, [&] { return submitted.load() > count / 3; });
  for (long i = 1; i < count; ++i) {
    tasks.ask(i, [&](const manta::options& with) { return manta::remote<quick>.with(with)(i); });
    ++submitted;
  }
  by.join();
  tasks.hear_all();
  expect(is_out_soon(rt, tasks.lost.name), "it is known to be lost");
  tasks.check_runs(living);
  kill(static_cast<pid_t>(tasks.lost.pid), SIGKILL);
  std::printf("%zu of %ld ended with their node\n", tasks.unended, count);
  return say("submits");
}

// ---- while arguments, or results, are written

std::atomic<int> begun_writing{0};

// Takes long to be written, which is its work; the test hears of it by a file, if there is one.
struct slow_to_write {
  template <class Archive>
  void save(Archive& to) const {
    ++begun_writing;
    if (tells) std::ofstream(std::getenv("SETTLER_MARK")) << getpid() << "\n";
    std::this_thread::sleep_for(60ms);
    to(value, tells);
  }
  template <class Archive>
  void load(Archive& from) {
    from(value, tells);
  }
  long value = 0;
  bool tells = false;
};
struct slow_ran {
  slow_to_write first;
  int pid = 0;
};

ran takes_slow(const slow_to_write& of) { return note(of.value); }
slow_ran gives_slow(long x) {
  const ran is = note(x);
  return {{is.value, true}, is.pid};
}
ran plain_of(const slow_ran& of) { return {of.pid, of.first.value}; }

int encodes(const manta::runtime& rt, const std::string& how) {
  constexpr long count = 24;
  ledger_of_tasks tasks(others(rt)[1]);
  const std::vector<std::string> living = all_but(rt, tasks.lost.name);
  // In the midst of one that is bound to it: the first is written without haste.
  std::thread by = harm(tasks.lost, how, [] { return begun_writing.load() >= 2; });
  for (long i = 0; i < count; ++i) {
    tasks.ask(i, [&](const manta::options& with) {
      return manta::remote<takes_slow>.with(with)(slow_to_write{i});
    });
  }
  by.join();
  tasks.hear_all();
  expect(is_out_soon(rt, tasks.lost.name), "it is known to be lost");
  tasks.check_runs(living);
  kill(static_cast<pid_t>(tasks.lost.pid), SIGKILL);
  return say("encodes");
}

// Of a result, by the node that is lost.
int writes_back(const manta::runtime& rt, const std::string& how) {
  constexpr long count = 24;
  ledger_of_tasks tasks(others(rt)[1]);
  const std::vector<std::string> living = all_but(rt, tasks.lost.name);
  std::thread by = harm(tasks.lost, how, [pid = tasks.lost.pid] {
    int is = 0;
    return (std::ifstream(std::getenv("SETTLER_MARK")) >> is) && is == pid;
  });
  for (long i = 0; i < count; ++i) {
    tasks.ask(i, [&](const manta::options& with) {
      return manta::remote<plain_of>(manta::remote<gives_slow>.with(with)(i));
    });
  }
  by.join();
  tasks.hear_all();
  expect(is_out_soon(rt, tasks.lost.name), "it is known to be lost");
  tasks.check_runs(living);
  kill(static_cast<pid_t>(tasks.lost.pid), SIGKILL);
  return say("writes-back");
}

// ---- while it stands still

// Ends as its process goes on again: its result is ready to be sent then.
ran stands_still(long x) {
  const ran out = note(x);
  raise(SIGSTOP);
  return out;
}

// What is there as it stands still: one that is over as soon as it goes on, others that run, others
// that wait there, and what the driver has not sent yet.
void ask_before_it_stops(ledger_of_tasks& tasks) {
  constexpr long few = 8;
  constexpr long count = manta::base::is_sanitized ? 200 : 2'000;
  for (long i = 0; i < few; ++i) {
    tasks.ask(i, [&](const manta::options& with) { return manta::remote<slow>.with(with)(i); });
  }
  const auto there = at(tasks.lost.name);
  tasks.all.push_back({bond::hard, manta::remote<stands_still>.with(there)(few)});
  for (long i = few + 1; i < count; ++i) {
    tasks.ask(i, [&](const manta::options& with) { return manta::remote<quick>.with(with)(i); });
  }
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (!cluster_test::is_stopped(static_cast<pid_t>(tasks.lost.pid)) &&
         std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);  // when its turn has come
  }
  expect(std::chrono::steady_clock::now() < limit, "it stands still");
}

// For less than a member may be silent.
int thaws_in_time(const manta::runtime& rt) {
  ledger_of_tasks tasks(others(rt)[1]);
  ask_before_it_stops(tasks);
  std::this_thread::sleep_for(500ms);  // the fault itself
  kill(static_cast<pid_t>(tasks.lost.pid), SIGCONT);
  tasks.hear_all();
  expect(tasks.unended == 0, std::to_string(tasks.unended) + " ended with their node");
  std::vector<std::string> all;
  for (const manta::node_info& one : rt.nodes()) all.push_back(one.name);
  expect(all.size() == 4, "nobody is lost");
  tasks.check_runs(all, false);
  return say("thaws-in-time");
}

// For longer: what it has for others runs again elsewhere, and what it tells then is not heard.
int thaws_too_late(const manta::runtime& rt) {
  ledger_of_tasks tasks(others(rt)[1]);
  const std::vector<std::string> living = all_but(rt, tasks.lost.name);
  ask_before_it_stops(tasks);
  expect(is_out_soon(rt, tasks.lost.name), "it is known to be lost");
  tasks.hear_all();
  expect(tasks.unended > 0, "some ended with it");
  tasks.check_runs(living);
  kill(static_cast<pid_t>(tasks.lost.pid), SIGCONT);
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  const auto pid = static_cast<pid_t>(tasks.lost.pid);
  while (cluster_test::is_there(pid) && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);  // it ends itself soon
  }
  expect(!cluster_test::is_there(pid), "it has ended itself");
  const std::vector<int> before = std::exchange(tasks.by_whom, {});
  tasks.unended = 0;
  tasks.hear_all();
  expect(tasks.by_whom == before, "each end is told once");
  tasks.check_runs(living);
  return say("thaws-too-late");
}

// ---- what is told of a run that was lost

// With its node it is lost, and at home it ends.
long outlives(const std::string& home) {
  if (manta::this_task::node() != home) {
    manta::kv::put("began/" + manta::this_task::node(), 1).get();
    std::this_thread::sleep_for(60s);  // as one that computes
  }
  std::this_thread::sleep_for(100ms);  // its work
  return 1;
}

std::string told_of(const std::string& name) {
  std::string out;
  for (const manta::event_record& e : manta::history::events(manta::history::this_job()).get()) {
    constexpr const char* kinds[] = {"start", "end", "retry", "failure"};
    if (!has(e.name, name)) continue;
    out += kinds[static_cast<std::size_t>(e.kind)] + (' ' + std::to_string(e.attempt)) + ", ";
  }
  return out;
}
std::size_t times(const std::string& what, const std::string& in) {
  std::size_t n = 0;
  for (auto at = in.find(what); at != std::string::npos; at = in.find(what, at + 1)) ++n;
  return n;
}

// One that was to be there, and would also be elsewhere; and one of many that went of themselves.
int retold(const manta::runtime& rt) {
  const auto all = others(rt);
  const std::string home = manta::this_task::node();
  manta::options wish = at(all[0].name, true);
  wish.name = "wished";
  const auto wished = manta::remote<outlives>.with(wish)(home);
  expect(comes("began/" + all[0].name), "it began");
  kill(static_cast<pid_t>(all[0].pid), SIGKILL);
  expect(wished.get(long_enough) == 1, "a task that was lost");
  const std::string of_one = told_of("wished");
  expect(of_one == "start 0, retry 0, start 1, end 1, ", "one that was wished there: " + of_one);
  manta::options given;
  given.name = "given";
  std::vector<manta::future<long>> many;
  for (int i = 0; i < 8; ++i) many.push_back(manta::remote<outlives>.with(given)(home));
  expect(comes("began/" + all[1].name), "none of many went there");
  kill(static_cast<pid_t>(all[1].pid), SIGKILL);
  for (const auto& one : many) expect(one.get(long_enough) == 1, "one of many");
  const std::string of_many = told_of("given");
  const std::size_t retries = times("retry", of_many);
  expect(retries > 0, "no retry of many: " + of_many);
  expect(times("end", of_many) == many.size() && times("start", of_many) == many.size() + retries,
         "many that went of themselves: " + of_many);
  return say("retold");
}

// Ends there for what its node is, as it leaves or has no room, and at home with a value.
long runs_at_home(const std::string& home, const std::string& until) {
  if (manta::this_task::node() == home) return 1;
  manta::kv::put("began/" + until, 1).get();
  if (until.empty()) manta::error(manta::errc::store_full, "no room").raise();
  expect(comes(until), "it may end");
  throw std::runtime_error("it was cut off");
}

bool is_draining(const manta::runtime& rt, const std::string& name) {
  const auto all = rt.nodes();
  return std::ranges::any_of(all, [&name](const manta::node_info& one) {
    return one.name == name && one.standing == manta::node_standing::draining;
  });
}

int told_at_home(const manta::runtime& rt) {
  const manta::node_info other = others(rt).front();
  const std::string home = manta::this_task::node();
  manta::options wish = at(other.name, true);
  wish.name = "starved";
  expect(manta::remote<runs_at_home>.with(wish)(home, "").get(long_enough) == 1, "without room");
  const std::string again = "start 0, retry 0, start 0, end 0, ";
  expect(told_of("starved") == again, "one that had no room: " + told_of("starved"));
  wish.name = "parted";
  const auto parted = manta::remote<runs_at_home>.with(wish)(home, "over");
  expect(comes("began/over"), "it began");
  kill(static_cast<pid_t>(other.pid), SIGTERM);
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (!is_draining(rt, other.name) && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);  // it says so soon
  }
  manta::kv::put("over", 1).get();
  expect(parted.get(long_enough) == 1, "a task of a node that leaves");
  expect(told_of("parted") == again, "one whose node left: " + told_of("parted"));
  return say("told-at-home");
}

}  // namespace phase_words

program_list phase_programs() {
  using namespace phase_words;  // NOLINT: the words of these programs
  return {
      {"retold", retold},
      {"told-at-home", told_at_home},
      {"submits", [](const manta::runtime& rt, const asked& of) { return submits(rt, of.how); }},
      {"encodes", [](const manta::runtime& rt, const asked& of) { return encodes(rt, of.how); }},
      {"writes-back",
       [](const manta::runtime& rt, const asked& of) { return writes_back(rt, of.how); }},
      {"thaws-in-time", thaws_in_time},
      {"thaws-too-late", thaws_too_late}};
}

}  // namespace settling
