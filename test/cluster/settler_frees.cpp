// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp in which a node is lost while references are let go of, or on their
// way: nothing is left at the others.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <manta/base/sanitizers.hpp>

#include "cluster/belongings.hpp"
#include "cluster/membership.hpp"
#include "cluster/settling.hpp"
#include "cluster/stopping.hpp"

namespace settling {
namespace free_words {

constexpr std::size_t scale = manta::base::is_sanitized ? 10 : 1;
constexpr std::size_t many_futures = 1'000 / scale;
constexpr std::size_t many_arrays = 100 / scale;
constexpr std::size_t many_actors = 100 / scale;
constexpr std::size_t words_each = 8'192;  // 64 KiB: large enough to be read where it lies

// Many things of one node, of each kind.
struct cargo {
  std::vector<manta::future<long>> futures;
  std::vector<counted_words> arrays;
  std::vector<manta::actor<counter>> actors;

  std::size_t size() const { return futures.size() + arrays.size() + actors.size(); }
  bool drop_one() {
    if (!futures.empty()) futures.pop_back();
    if (futures.size() % 10 == 0 && !arrays.empty()) arrays.pop_back();
    if (futures.size() % 10 == 0 && !actors.empty()) actors.pop_back();
    return size() > 0;
  }
};
cargo many_made() {
  cargo out;
  for (std::size_t i = 0; i < many_futures; ++i) {
    out.futures.push_back(manta::remote<squared>(static_cast<long>(i)));
  }
  for (std::size_t i = 0; i < many_arrays; ++i) out.arrays.push_back(counted_from(words_each, i));
  for (std::size_t i = 0; i < many_actors; ++i) {
    out.actors.push_back(manta::spawn<counter>(static_cast<long>(i)));
  }
  return out;
}
long sum_of_first(const cargo& of) {
  return of.futures[3].get(long_enough) + static_cast<long>(of.arrays[4][0]) +
         manta::remote<&counter::add>(of.actors[5], 0L).get(long_enough);
}

// Has them until it is told to let go, one after the other.
struct hold {
  void keep(const cargo& of) { all.push_back(of); }
  long looks() const {
    long sum = 0;
    for (const cargo& one : all) sum += sum_of_first(one);
    return sum;
  }
  void let_go() {
    for (cargo& one : all) {
      while (one.drop_one()) {
      }
    }
    all.clear();
  }
  std::vector<cargo> all;
};
using hold_ref = manta::actor<hold>;

// Until it is no member any more; then what is left of it is ended.
void await_end(const manta::runtime& rt, const manta::node_info& lost) {
  expect(is_out_soon(rt, lost.name), "it is known to be lost");
  kill(static_cast<pid_t>(lost.pid), SIGKILL);
}

// Each node has things of all nodes, and all let go at once.
int lets_go(const manta::runtime& rt, const std::string& how) {
  const manta::node_info lost = others(rt)[1];
  const std::vector<std::string> living = all_but(rt, lost.name);
  std::vector<cargo> mine;
  std::vector<hold_ref> holds;
  for (const manta::node_info& one : rt.nodes()) {
    mine.push_back(manta::remote<many_made>.with(at(one.name))().get(long_enough));
  }
  for (const manta::node_info& one : rt.nodes()) {
    holds.push_back(manta::spawn<hold>.with({.where = manta::on_node(one.name)})());
    for (const cargo& each : mine) {
      manta::remote<&hold::keep>(holds.back(), each).get(long_enough);
    }
  }
  for (const hold_ref& one : holds) {
    expect(manta::remote<&hold::looks>(one).get(long_enough) == 4 * (9 + 4 + 5), "what it has");
  }
  // The fault comes when a third has gone here; the others are at it as well.
  std::vector<manta::future<void>> gone;
  for (const hold_ref& one : holds) gone.push_back(manta::remote<&hold::let_go>(one));
  holds.clear();
  std::size_t dropped = 0;
  for (cargo& one : mine) {
    while (one.drop_one()) {
      if (++dropped == 4 * many_futures / 3) {
        kill(static_cast<pid_t>(lost.pid), how == "stop" ? SIGSTOP : SIGKILL);
      }
    }
  }
  mine.clear();
  std::size_t ended_with_it = 0;
  for (const manta::future<void>& one : gone) {
    try {
      one.get(long_enough);
    } catch (const manta::actor_lost&) {
      ++ended_with_it;
    }
  }
  expect(ended_with_it <= 1, std::to_string(ended_with_it) + " could not let go");
  gone.clear();
  await_end(rt, lost);
  expect_nothing_left(living);
  std::printf("%zu ended with its node\n", ended_with_it);
  return say("lets-go");
}

// ---- handles that are on their way as who lends them is lost

// What a node has made and another one is lent: a value that is there, one that never comes, and an
// actor.
struct loan {
  manta::future<long> known;
  manta::future<long> unended;
  manta::actor<counter> actor;
};
manta::coroutine<long> never_ends(std::string began) {
  co_await manta::kv::put(began, 1);
  auto puts = manta::kv::watch<int>("nothing");
  const auto change = co_await puts.next();
  co_return *change.value;
}

// How each of it ends, where this runs: nothing is what has a value.
std::string ends_in_place(const manta::future<long>& of) { return thrown_by<manta::node_lost>(of); }
std::vector<std::string> ends_of(const loan& of) {
  return {ends_in_place(of.known), ends_in_place(of.unended),
          thrown_by<manta::actor_lost>(manta::remote<&counter::add>(of.actor, 1L))};
}
long takes_value(long of) { return of; }
// In isolated workers of its node, which are lent it once more, or wait for its value.
std::vector<std::string> ends_apart(const loan& of) {
  const manta::options with{.isolation = manta::isolation_mode::processes};
  const auto known = manta::remote<ends_in_place>.with(with)(of.known);
  const auto unended = manta::remote<ends_in_place>.with(with)(of.unended);
  return {known.get(long_enough), unended.get(long_enough),
          thrown_by<manta::node_lost>(manta::remote<takes_value>.with(with)(of.unended))};
}

struct borrower {
  void keep(const loan& of) { kept = of; }
  std::vector<std::string> looks() const {
    return kept.has_value() ? ends_of(*kept) : std::vector<std::string>();
  }
  std::optional<loan> kept;
};
// Has some of its own, and lends them to others.
struct lender {
  void makes(const std::string& began) {
    own.known = manta::remote<squared>(6L);
    own.unended = manta::remote<never_ends>(began);
    own.actor = manta::spawn<counter>(1L);
  }
  loan gives() const { return own; }
  // Does not wait until it is taken.
  void passes(const manta::actor<borrower>& to) const {
    const auto unheard = manta::remote<&borrower::keep>(to, own);
  }
  loan own;
};

// By the lender itself, or by the driver, which was lent it: all are in the third one's queue of
// messages as the lender is lost.
int lost_on_its_way(const manta::runtime& rt) {
  const auto all = others(rt);
  const manta::node_info& third = all[0];
  const manta::node_info& lost = all[1];
  const std::vector<std::string> living = all_but(rt, lost.name);
  const std::string began = "on-its-way";
  std::size_t came = 0;
  {
    // A worker that isolates has to be there before: it is a process that has to be started.
    const manta::options apart{.isolation = manta::isolation_mode::processes};
    expect(manta::remote<takes_value>.with(apart)(7L).get(long_enough) == 7, "a worker here");
    const auto from = manta::spawn<lender>.with({.where = manta::on_node(lost.name)})();
    const auto to = manta::spawn<borrower>.with({.where = manta::on_node(third.name)})();
    manta::remote<&lender::makes>(from, began).get(long_enough);
    expect(comes(began), "it has begun");
    expect(manta::remote<&borrower::looks>(to).get(long_enough).empty(), "nothing is lent yet");
    const loan ours = manta::remote<&lender::gives>(from).get(long_enough);
    cluster_test::stop(static_cast<pid_t>(third.pid));
    manta::remote<&lender::passes>(from, to).get(long_enough);
    const auto in_threads = manta::remote<ends_of>.with(at(third.name))(ours);
    const auto in_workers = manta::remote<ends_apart>.with(at(third.name))(ours);
    const auto as_argument = manta::remote<takes_value>.with(at(third.name))(ours.unended);
    std::this_thread::sleep_for(100ms);  // the fault's schedule: they are on their way
    kill(static_cast<pid_t>(lost.pid), SIGKILL);
    kill(static_cast<pid_t>(third.pid), SIGCONT);
    for (const auto& ends :
         {in_threads.get(long_enough), in_workers.get(long_enough), ends_of(ours)}) {
      expect(ends.size() == 3, std::to_string(ends.size()) + " ends");
      for (const std::string& one : ends) expect(has(one, "lost"), "lent by the driver: " + one);
    }
    const std::string waited = thrown_by<manta::node_lost>(as_argument);
    expect(has(waited, "lost"), "an argument: " + waited);
    // What it has sent itself is there, or is lost with it.
    const auto ends = manta::remote<&borrower::looks>(to).get(long_enough);
    came = ends.size();
    for (const std::string& one : ends) expect(has(one, "lost"), "lent by itself: " + one);
  }
  expect_nothing_left(living);
  std::printf("%zu came of what the lost one has sent\n", came);
  return say("lost-on-its-way");
}

}  // namespace free_words

program_list free_programs() {
  using namespace free_words;  // NOLINT: the words of these programs
  return {
      {"lets-go", [](const manta::runtime& rt, const asked& of) { return lets_go(rt, of.how); }},
      {"lost-on-its-way", lost_on_its_way}};
}

}  // namespace settling
