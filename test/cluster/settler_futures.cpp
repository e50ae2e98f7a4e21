// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp in which futures go from node to node inside of values.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/settling.hpp"

namespace settling {

namespace {

std::atomic<long> values_here{0};

// A value that this process counts.
struct weighed {
  weighed() { ++values_here; }
  explicit weighed(std::vector<double> of) : all(std::move(of)) { ++values_here; }
  weighed(const weighed& other) : all(other.all) { ++values_here; }
  weighed(weighed&& other) noexcept : all(std::move(other.all)) { ++values_here; }
  weighed& operator=(const weighed&) = default;
  weighed& operator=(weighed&&) = default;
  ~weighed() { --values_here; }
  template <class Archive>
  void serialize(Archive& with) {
    with(all);
  }
  double sum() const {
    double out = 0;
    for (const double one : all) out += one;
    return out;
  }
  std::vector<double> all;
};

struct box {
  manta::future<weighed> one;
  std::vector<manta::future<long>> many;
  manta::future<void> nothing;
};
struct letter {
  manta::future<box> inner;
};

weighed weighs(std::size_t count, double each) { return weighed(std::vector<double>(count, each)); }
long fails_late(const std::string& key) {
  if (!comes(key)) throw std::runtime_error("nobody put " + key);
  throw std::out_of_range("odd: " + key);
}
// Until it is asked to stop; a node may have one worker only.
manta::coroutine<long> waits_for_ever(std::string began) {
  co_await manta::kv::put(began, 1);
  auto puts = manta::kv::watch<int>("nothing");
  const auto change = co_await puts.next();
  co_return *change.value;
}
manta::coroutine<long> awaits(box of) {
  long out = 0;
  for (const auto& one : of.many) out += co_await one;
  co_return out;
}
box wraps(std::size_t count) {
  return {manta::remote<weighs>(count, 1.0), {manta::remote<squared>(4L)}, {}};
}
void does_nothing() {}

manta::coroutine<double> weighs_slowly(weighed what) {
  co_await value_of("slowly");
  co_return what.sum();
}

// Has futures of any node.
struct holder {
  void keep(const box& all) { kept = all; }
  void keep_letter(const letter& of) { mail = of; }
  void let_go() {
    kept = {};
    mail = {};
  }
  box give() const { return kept; }
  void pass(const manta::actor<holder>& to) {
    manta::remote<&holder::keep>(to, kept).get(long_enough);
  }
  double weigh() const { return kept.one.get(long_enough).sum(); }
  double weigh_inner() const { return mail.inner.get(long_enough).one.get(long_enough).sum(); }
  long sum() const {
    long out = 0;
    for (const auto& one : kept.many) out += one.get(long_enough);
    return out;
  }
  long sum_as_they_come() const {
    long out = 0;
    for (auto& one : manta::as_completed(kept.many)) out += one.get();
    return out;
  }
  long squares_first() const { return manta::remote<squared>(kept.many.front()).get(long_enough); }
  long awaits_all() const { return manta::remote<awaits>(kept).get(long_enough); }
  bool has_first(int ms) const {
    return kept.many.front().try_get(std::chrono::milliseconds(ms)).has_value();
  }
  // The value goes into the argument, and is used for a while.
  manta::future<double> begins_to_use() {
    return manta::remote<weighs_slowly>(std::move(kept.one));
  }
  manta::future<long> first() const { return kept.many.front(); }
  std::string error_of_first() const { return thrown_by<manta::task_error>(kept.many.front()); }
  bool loses_first() const {
    return has(thrown_by<manta::node_lost>(kept.many.front()), "is lost");
  }
  void waits_for_nothing() const { kept.nothing.get(long_enough); }
  bool cancels_first() const { return manta::cancel(kept.many.front()); }
  void makes(std::size_t count) {
    kept = {manta::remote<weighs>(count, 2.0), {manta::remote<squared>(6L)}, {}};
  }
  void makes_endless(const std::string& began) {
    kept.many = {manta::remote<waits_for_ever>(began)};
  }
  long values() const { return values_here.load(); }

  box kept;
  letter mail;
};

using holding = manta::actor<holder>;

holding holder_at(const std::string& node) {
  return manta::spawn<holder>.with({.where = manta::on_node(node)})();
}
void give(const holding& to, const box& all) {
  manta::remote<&holder::keep>(to, all).get(long_enough);
}

// Soon behind the last handle. That this is within a second is for a quiet machine to show: here a
// node may be kept from its core for longer.
bool are_freed(long how_many = 0, manta::duration within = long_enough) {
  const auto limit = std::chrono::steady_clock::now() + within;
  while (values_here.load() > how_many && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);
  }
  return values_here.load() <= how_many;
}

void check_reading(const holding& by, const std::string& who) {
  const auto read = [&](auto of) { return of.get(long_enough); };
  expect(read(manta::remote<&holder::weigh>(by)) == 500, who + ": a value");
  expect(read(manta::remote<&holder::sum>(by)) == 30, who + ": several");
  expect(read(manta::remote<&holder::sum_as_they_come>(by)) == 30, who + ": as they come");
  expect(read(manta::remote<&holder::squares_first>(by)) == 1, who + ": as an argument");
  expect(read(manta::remote<&holder::awaits_all>(by)) == 30, who + ": in a coroutine");
  expect(read(manta::remote<&holder::first>(by)) == 1, who + ": returned");
  read(manta::remote<&holder::waits_for_nothing>(by));
}

box some_of_here() {
  box out{manta::remote<weighs>(std::size_t{1000}, 0.5), {}, manta::remote<does_nothing>()};
  for (long i = 1; i <= 4; ++i) out.many.push_back(manta::remote<squared>(i));
  return out;
}

// Before the work has ended, and while it does.
void check_early(const holding& one, const holding& two) {
  box early{{}, {manta::remote<value_of>(std::string("early"))}, {}};
  give(one, early);
  expect(!manta::remote<&holder::has_first>(one, 20).get(long_enough), "not there yet");
  manta::remote<&holder::pass>(one, two).get(long_enough);
  std::vector<manta::future<long>> readers;
  for (int i = 0; i < 3; ++i) readers.push_back(manta::remote<&holder::sum>(i == 0 ? two : one));
  manta::kv::put(std::string("early"), 12).get();
  for (const auto& each : readers) expect(each.get(long_enough) == 12, "a value to come");
  give(one, {{}, {manta::remote<fails_late>(std::string("late"))}, {}});
  const auto error = manta::remote<&holder::error_of_first>(one);
  manta::kv::put(std::string("late"), 1).get();
  expect(has(error.get(long_enough), "odd: late"), "an error to come");
}

// Who has a value alone may have it moved out; who gets the future once more gets the value.
void check_using(const holding& by) {
  const box all = some_of_here();
  give(by, all);
  expect(manta::remote<&holder::weigh>(by).get(long_enough) == 500, "it has come");
  const auto used = manta::remote<&holder::begins_to_use>(by);
  for (int i = 0; i < 5; ++i) {
    give(by, all);
    expect(manta::remote<&holder::weigh>(by).get(long_enough) == 500, "it is used meanwhile");
  }
  manta::kv::put(std::string("slowly"), 1).get();
  expect(used.get(long_enough) == 500, "what was used");
}

void check_cancelling(const holding& by) {
  box endless{{}, {manta::remote<waits_for_ever>(std::string("endless"))}, {}};
  give(by, endless);
  expect(comes("endless"), "it runs");
  expect(manta::remote<&holder::cancels_first>(by).get(long_enough), "it can be cancelled");
  expect(has(thrown_by<manta::cancelled>(endless.many.front()), "cancelled"), "it was");
  expect(!manta::remote<&holder::has_first>(by, 5000).get(long_enough), "it was there, too");
  expect(!manta::remote<&holder::cancels_first>(by).get(long_enough), "it has ended");
}

// What others have and nobody reads does not travel; what nobody has goes.
void check_ends(const holding& one, const holding& two) {
  box kept = some_of_here();
  expect(kept.one.get(long_enough).sum() == 500, "its value");
  give(one, kept);
  kept = {};
  // Nothing tells that it stays: it would have gone by then, most of the times.
  // Once who made it has dropped what it was moved from; that may have lost its core before.
  expect(are_freed(1) && !are_freed(0, 20ms) && values_here.load() == 1,
         "it stays for another node");
  expect(manta::remote<&holder::values>(one).get(long_enough) == 0, "it has not travelled");
  manta::remote<&holder::pass>(one, two).get(long_enough);
  manta::remote<&holder::let_go>(one).get(long_enough);
  expect(manta::remote<&holder::weigh>(two).get(long_enough) == 500, "passed on");
  {
    const box again = manta::remote<&holder::give>(two).get(long_enough);
    expect(again.one.get(long_enough).sum() == 500, "back at home");
    manta::remote<&holder::let_go>(two).get(long_enough);
    expect(are_freed(1) && values_here.load() == 1, "it is here, once");
  }
  expect(are_freed(), std::to_string(values_here.load()) + " values are left");
  expect(manta::remote<&holder::values>(two).get(long_enough) == 0, "nor are there any elsewhere");
}

}  // namespace

// Futures go from any node to any, and back.
int futures(const manta::runtime& rt, int rounds) {
  const auto all = others(rt);
  const holding one = holder_at(all[0].name);
  const holding two = holder_at(all[1].name);
  const holding near = manta::spawn<holder>();
  for (const auto& [by, who] :
       {std::pair(one, "far"), std::pair(two, "farther"), std::pair(near, "near")}) {
    give(by, some_of_here());
    check_reading(by, who);
  }
  // Made in one node, read in a second and a third.
  manta::remote<&holder::makes>(one, std::size_t{300}).get(long_enough);
  manta::remote<&holder::pass>(one, two).get(long_enough);
  box made = manta::remote<&holder::give>(one).get(long_enough);
  expect(made.one.get(long_enough).sum() == 600, "made elsewhere");
  expect(made.many.front().get(long_enough) == 36, "made elsewhere, too");
  expect(manta::remote<&holder::weigh>(two).get(long_enough) == 600, "of a third");
  made = {};
  // Futures in futures' values.
  manta::remote<&holder::keep_letter>(two, letter{manta::remote<wraps>(std::size_t{70})})
      .get(long_enough);
  expect(manta::remote<&holder::weigh_inner>(two).get(long_enough) == 70, "inside of another one");
  for (const holding& each : {one, two, near})
    manta::remote<&holder::let_go>(each).get(long_enough);
  check_early(one, two);
  check_cancelling(one);
  check_using(two);
  box many;
  long sum = 0;
  for (long i = 0; i < 10'000; ++i) {
    many.many.push_back(manta::remote<squared>(i));
    sum += i * i;
  }
  give(one, many);
  // All asked for at once: one after the other is a round trip each.
  expect(manta::remote<&holder::sum_as_they_come>(one).get(long_enough) == sum, "many");
  for (const holding& each : {one, two}) manta::remote<&holder::let_go>(each).get(long_enough);
  for (int i = 0; i < rounds; ++i) check_ends(one, two);
  return say("futures");
}

// Ranks that each run main, and end apart: who asks for what the first one had is told so.
int partings(const manta::runtime& rt) {
  manta::actor_options shared;
  shared.name = "shared";
  shared.get_if_exists = true;
  const auto between = manta::spawn<holder>.with(shared)();
  if (rt.rank() == 0) {
    give(between, {{}, {manta::remote<squared>(5L)}, {}});
    manta::kv::put(std::string("given"), 1).get();
    return comes("taken") ? 0 : 1;
  }
  expect(comes("given"), "the first rank's future");
  const box had = manta::remote<&holder::give>(between).get(long_enough);
  manta::kv::put(std::string("taken"), 1).get();
  // A schedule of the fault, nothing tells it: the first one's runtime ends, unless the machine is
  // busy.
  std::this_thread::sleep_for(500ms);
  const std::string why = thrown_by<manta::object_lost>(had.many.front());
  expect(has(why, "has let go") || why == "nothing", why);
  return say("partings");
}

// A node that is lost takes its futures along, and what it has had of others' is free.
int estates(const manta::runtime& rt) {
  const auto all = others(rt);
  const holding waiting = holder_at(all[0].name);
  const holding living = holder_at(all[0].name);
  const holding lost = holder_at(all[1].name);
  // What it has made: never to end, and read before.
  manta::remote<&holder::makes>(lost, std::size_t{10}).get(long_enough);
  const box read = manta::remote<&holder::give>(lost).get(long_enough);
  expect(read.one.get(long_enough).sum() == 20, "read before");
  manta::remote<&holder::makes_endless>(lost, std::string("endless")).get(long_enough);
  const box endless = manta::remote<&holder::give>(lost).get(long_enough);
  manta::remote<&holder::pass>(lost, waiting).get(long_enough);
  expect(comes("endless"), "it runs there");
  const auto told = manta::remote<&holder::loses_first>(waiting);
  const auto asked = endless.many.front();
  // What it has had, alone and for others.
  box ours = some_of_here();
  static_cast<void>(ours.one.get(long_enough));
  give(lost, ours);
  manta::remote<&holder::pass>(lost, living).get(long_enough);
  box its = some_of_here();
  static_cast<void>(its.one.get(long_enough));
  give(lost, its);
  ours = its = {};
  say_pids(rt);
  expect(has(thrown_by<manta::node_lost>(asked), "is lost"), "its future is lost");
  expect(told.get(long_enough), "and so it is elsewhere");
  expect(has(thrown_by<manta::node_lost>(endless.many.front()), "is lost"), "and once more");
  expect(read.one.get().sum() == 20, "what was read before stays");
  // The lost one's value here is for nobody; `living` has the other.
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (values_here.load() > 2 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);
  }
  expect(values_here.load() == 2, std::to_string(values_here.load()) + " values are left");
  expect(manta::remote<&holder::weigh>(living).get(long_enough) == 500, "passed on before");
  manta::remote<&holder::let_go>(living).get(long_enough);
  expect(are_freed(1), std::to_string(values_here.load()) + " values are left at the end");
  return say("estates");
}

namespace {

// Passes them on at random; what is read is right.
long roams(const std::vector<holding>& all, const box& with, std::uint32_t seed, int steps) {
  std::mt19937 dice(seed);
  box mine = with;
  long wrong = 0;
  for (int i = 0; i < steps; ++i) {
    const holding& to = all[dice() % all.size()];
    if (dice() % 3 == 0) manta::remote<&holder::keep>(to, mine).get(long_enough);
    box came = manta::remote<&holder::give>(to).get(long_enough);
    if (came.many.empty()) continue;
    if (dice() % 2 == 0) wrong += came.one.get(long_enough).sum() == 500 ? 0 : 1;
    if (dice() % 2 == 0) wrong += came.many.back().get(long_enough) == 16 ? 0 : 1;
    if (dice() % 2 == 0) mine = std::move(came);
    if (dice() % 7 == 0) mine = some_of_here();
  }
  return wrong;
}

}  // namespace

// Many, made and passed on in all nodes at once: all values are right, and none is left.
int nomads(const manta::runtime& rt, int rounds) {
  std::vector<holding> all;
  for (const manta::node_info& one : rt.nodes()) all.push_back(holder_at(one.name));
  for (int round = 0; round < std::max(rounds / 10, 1); ++round) {
    std::vector<manta::future<long>> walks;
    const box first = some_of_here();
    for (std::uint32_t i = 0; i < 8; ++i) {
      const auto seed = static_cast<std::uint32_t>(round) * 100 + i;
      walks.push_back(manta::remote<roams>(all, first, seed, 30));
    }
    for (const auto& one : walks) expect(one.get(long_enough) == 0, "a wrong value");
  }
  for (const holding& one : all) manta::remote<&holder::let_go>(one).get(long_enough);
  const auto limit = std::chrono::steady_clock::now() + long_enough;  // as are_freed
  long left = 1;
  while (left > 0 && std::chrono::steady_clock::now() < limit) {
    left = 0;
    for (const holding& one : all) left += manta::remote<&holder::values>(one).get(long_enough);
  }
  expect(left == 0, std::to_string(left) + " values are left");
  return say("nomads");
}

}  // namespace settling
