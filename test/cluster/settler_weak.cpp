// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp in which weak handles of actors go from node to node.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/settling.hpp"

namespace settling {
namespace {

// Is read when its key is there.
struct late_text {
  std::string key;
};

}  // namespace
}  // namespace settling

namespace manta::codec {
template <>
struct custom<settling::late_text> {
  static void write(out_archive& out, const settling::late_text& of) { out(of.key); }
  static settling::late_text read(in_archive& in) {
    settling::late_text of{codec::read<std::string>(in)};
    settling::expect(settling::comes(of.key), of.key);
    return of;
  }
};
}  // namespace manta::codec

namespace settling {

namespace {

using weak_counter = manta::weak_actor<counter>;

// A value with some inside, an empty one among them.
struct hints {
  weak_counter to;
  std::vector<weak_counter> more;
  weak_counter none;
};

// Keeps a weak handle, and asks what it is good for.
struct watcher {
  void look_at(const weak_counter& other) { seen = other; }
  weak_counter shows() const { return seen; }
  bool sees() const { return seen.lock().valid(); }
  bool is(const manta::actor<counter>& other) const { return seen == weak_counter(other); }
  long adds(long x) const {
    const auto there = seen.lock();
    return there.valid() ? manta::remote<&counter::add>(there, x).get() : -1;
  }
  // Its own one, of which no other node knows.
  void makes(const std::string& note) { own = manta::spawn<counter>(0L, note); }
  weak_counter own_one() const { return own; }
  void drops() { own = {}; }
  void holds() { own = seen.lock(); }
  // Ends what others have, too, behind calls that wait to be read, lets go of it and asks.
  bool sees_after(manta::actor<counter> one, bool kills) {
    const std::vector<double> some(10000, 0.5);
    std::vector<manta::future<std::vector<double>>> calls;
    for (int i = 0; i < 20; ++i) calls.push_back(manta::remote<&counter::scaled>(one, some, 2.0));
    kills ? manta::kill(one) : manta::retire(one);
    one = {};
    const bool is = seen.lock().valid();
    for (const auto& each : calls) static_cast<void>(each.try_get(long_enough));
    return is;
  }
  weak_counter seen;
  manta::actor<counter> own;
};

long adds_to(const weak_counter& of, long x) {
  const auto there = of.lock();
  return there.valid() ? manta::remote<&counter::add>(there, x).get() : -1;
}
long adds_to_all(const hints& of, long x) {
  if (of.none.lock().valid()) return -2;
  long sum = adds_to(of.to, x);
  for (const weak_counter& one : of.more) sum += of.to == one ? adds_to(one, x) : -1000;
  return sum;
}
weak_counter weakens(const manta::actor<counter>& of) { return of; }
hints hints_of(const manta::actor<counter>& of) { return {of, {of, of}, {}}; }

manta::actor<watcher> watcher_at(const std::string& node) {
  return manta::spawn<watcher>.with({.where = manta::on_node(node)})();
}

// In tasks, results, objects and calls.
void goes_in_values(const std::vector<std::string>& nodes) {
  for (const std::string& home : nodes) {
    const auto one = one_at(home);
    const weak_counter weak = one;
    long sum = 0;
    for (const std::string& to : nodes) {
      const std::string way = home + " to " + to;
      expect(manta::remote<adds_to>.with(at(to))(weak, 1L).get(long_enough) == ++sum, way);
      const hints some{weak, {weak, weak}, {}};
      sum += 3;
      expect(manta::remote<adds_to_all>.with(at(to))(some, 1L).get(long_enough) == 3 * sum - 3,
             way + ", in a struct");
      const auto put = manta::put(some);
      sum += 3;
      expect(manta::remote<adds_to_all>.with(at(to))(put, 1L).get(long_enough) == 3 * sum - 3,
             way + ", in an object");
      const auto back = manta::remote<weakens>.with(at(to))(one).get(long_enough);
      expect(back == weak && back.lock() == one, way + ", as a result");
      const hints all = manta::remote<hints_of>.with(at(to))(one).get(long_enough);
      expect(all.to == weak && all.more.at(1) == weak && !all.none.lock().valid(),
             way + ", in a result's struct");
      const auto by = watcher_at(to);
      manta::remote<&watcher::look_at>(by, weak).get(long_enough);
      expect(manta::remote<&watcher::adds>(by, 1L).get(long_enough) == ++sum, way + ", in a call");
      expect(manta::remote<&watcher::is>(by, one).get(long_enough), way + ", and is the same");
      const weak_counter shown = manta::remote<&watcher::shows>(by).get(long_enough);
      expect(shown == weak && shown.lock() == one, way + ", as a call's result");
    }
  }
}

// From the node that made the actor through two others that never had a handle.
void goes_on(const std::vector<std::string>& nodes) {
  const auto first = watcher_at(nodes[1]);
  const auto second = watcher_at(nodes[2]);
  const auto third = watcher_at(nodes[3]);
  const std::string note = "weak/on";
  manta::remote<&watcher::makes>(first, note).get(long_enough);
  const weak_counter weak = manta::remote<&watcher::own_one>(first).get(long_enough);
  manta::remote<&watcher::look_at>(second, weak).get(long_enough);
  manta::remote<&watcher::look_at>(third, manta::remote<&watcher::shows>(second)).get(long_enough);
  expect(manta::remote<&watcher::adds>(third, 5L).get(long_enough) == 5, "through three nodes");
  expect(manta::remote<&watcher::adds>(second, 1L).get(long_enough) == 6, "in the second");
  expect(adds_to(weak, 1L) == 7, "in the first");
  expect(manta::remote<&watcher::shows>(third).get(long_enough) == weak, "back from the third");
  expect(!manta::kv::get<int>(note).get().has_value(), "it lives");
  // A handle that was made of a weak one keeps it.
  manta::remote<&watcher::holds>(third).get(long_enough);
  manta::remote<&watcher::drops>(first).get(long_enough);
  expect(manta::remote<&watcher::adds>(second, 1L).get(long_enough) == 8, "others have it");
  expect(!manta::kv::get<int>(note).get().has_value(), "it lives by that of a weak one");
  manta::remote<&watcher::drops>(third).get(long_enough);
  expect(comes(note), "weak handles keep nothing");
  for (const auto& by : {first, second, third}) {
    manta::remote<&watcher::look_at>(by, weak).get(long_enough);
    expect(!manta::remote<&watcher::sees>(by).get(long_enough), "it has ended");
    expect(manta::remote<&watcher::shows>(by).get(long_enough) == weak, "it was the same");
  }
  expect(!weak.lock().valid(), "it has ended, here");
}

// Who ends it and asks then hears no, and does so at once.
void ends_at_once(const std::vector<std::string>& nodes, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    const std::string& home = nodes[static_cast<std::size_t>(i) % nodes.size()];
    auto one = one_at(home);
    const weak_counter weak = one;
    expect(manta::remote<&counter::add>(one, 1L).get(long_enough) == 1, "it was made");
    // Of calls that wait to be read it lives on, and takes no more.
    std::vector<manta::future<long>> calls;
    for (int n = 0; n < 20; ++n) calls.push_back(manta::remote<&counter::add>(one, 1L));
    if (i % 3 == 1) manta::kill(one);
    if (i % 3 == 2) manta::retire(one);
    one = {};
    expect(!weak.lock().valid(), home + ": ended in way " + std::to_string(i % 3));
    for (const auto& each : calls) {
      expect(i % 3 == 1 || each.get(long_enough) > 1, "a call before its end");
      static_cast<void>(each.try_get(long_enough));
    }
    expect(!weak.lock().valid(), home + ": and stays so");
  }
}

struct late_reader {
  bool hears(const late_text& of) const { return !of.key.empty(); }
};
using weak_reader = manta::weak_actor<late_reader>;
struct asker {
  bool sees(const weak_reader& of) const { return of.lock().valid(); }
};

// The same, asked in the actor's own node, where a call before its end is being read.
void ends_at_home(const std::string& home) {
  const auto by = manta::spawn<asker>.with({.where = manta::on_node(home)})();
  for (const std::string way : {"dropped", "killed", "retired"}) {
    auto one = manta::spawn<late_reader>.with({.where = manta::on_node(home)})();
    const weak_reader weak = one;
    expect(manta::remote<&asker::sees>(by, weak).get(long_enough), "it lives");
    const std::string key = "weak/home/" + way;
    const auto call = manta::remote<&late_reader::hears>(one, late_text{key});
    if (way == "killed") manta::kill(one);
    if (way == "retired") manta::retire(one);
    one = {};
    expect(!manta::remote<&asker::sees>(by, weak).get(long_enough), "asked at home: " + way);
    manta::kv::put(key, 1).get();
    const bool was_run = call.try_get(long_enough).has_value();
    expect(was_run || way == "killed", "the call: " + way);
  }
}

void ends_elsewhere(const std::vector<std::string>& nodes, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    const std::size_t home = static_cast<std::size_t>(i) % nodes.size();
    const auto one = one_at(nodes[home]);
    const auto by = watcher_at(nodes[(home + 1) % nodes.size()]);
    manta::remote<&watcher::look_at>(by, weak_counter(one)).get(long_enough);
    const bool kills = i % 2 == 0;
    expect(!manta::remote<&watcher::sees_after>(by, one, kills).get(long_enough),
           nodes[home] + ": ended by another, " + (kills ? "killed" : "retired"));
  }
}

// Locks it until it is gone: so many handles it had, each of which was one.
long locks_until_gone(const weak_counter& of) {
  long sum = 0;
  for (;;) {
    const auto there = of.lock();
    if (!there.valid()) return sum;
    if (manta::remote<&counter::add>(there, 1L).get() <= 0) return -1;
    ++sum;
  }
}

// The same of one whose node is lost, with the call that it is at.
long locks_until_lost(const weak_counter& of, const std::string& has_one) {
  long sum = 0;
  for (;;) {
    const auto there = of.lock();
    if (!there.valid()) return sum;
    if (!manta::remote<&counter::add>(there, 1L).try_get(long_enough).has_value()) continue;
    if (++sum == 1) manta::kv::put(has_one, getpid()).get();
  }
}

// The last handle goes while all nodes ask.
void races(const std::vector<std::string>& nodes, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    const std::string note = "weak/race" + std::to_string(i);
    auto one = one_at(nodes[static_cast<std::size_t>(i) % nodes.size()], 0, note);
    const weak_counter weak = one;
    std::vector<manta::future<long>> all;
    for (const std::string& to : nodes) {
      all.push_back(manta::remote<locks_until_gone>.with(at(to))(weak));
    }
    while (manta::remote<&counter::add>(one, 0L).get(long_enough) < 5) {
    }
    one = {};
    long sum = 0;
    for (const auto& each : all) {
      const long some = each.get(long_enough);
      expect(some >= 0, "a handle that was none");
      sum += some;
    }
    expect(sum >= 5, "handles of weak ones: " + std::to_string(sum));
    expect(comes(note), "it ends with the last of them");
    expect(!weak.lock().valid(), "and is not to be had");
  }
}

long actors_here() { return static_cast<long>(manta::exec::actor_core::alive()); }

// What stands for actors elsewhere included.
void leaves_nothing(const std::vector<std::string>& nodes) {
  for (const std::string& where : nodes) {
    long left = 0;
    const auto limit = std::chrono::steady_clock::now() + long_enough;
    do {
      left = manta::remote<actors_here>.with(at(where))().get(long_enough);
    } while (left != 0 && std::chrono::steady_clock::now() < limit);
    expect(left == 0, where + " has " + std::to_string(left) + " actors left");
  }
}

std::vector<std::string> names_of_all(const manta::runtime& rt) {
  std::vector<std::string> out{manta::this_task::node()};
  for (const manta::node_info& one : others(rt)) out.push_back(one.name);
  return out;
}

}  // namespace

int weak_handles(const manta::runtime& rt) {
  const std::vector<std::string> nodes = names_of_all(rt);
  goes_in_values(nodes);
  goes_on(nodes);
  ends_at_once(nodes, 60);
  ends_at_home(nodes[1]);
  ends_elsewhere(nodes, 40);
  races(nodes, 12);
  leaves_nothing(nodes);
  return say("weak-handles");
}

// Their actor's node is lost, by some while it is asked: they have nothing then.
int weak_lost(const manta::runtime& rt) {
  const std::vector<std::string> nodes = names_of_all(rt);
  const auto lost = one_at(nodes[2]);
  const weak_counter weak = lost;
  const auto first = watcher_at(nodes[1]);
  manta::remote<&watcher::look_at>(first, weak).get(long_enough);
  std::vector<manta::future<long>> all;
  std::vector<std::string> keys;
  for (const std::size_t where : {1U, 3U, 1U, 3U}) {
    keys.push_back("weak/has" + std::to_string(all.size()));
    all.push_back(manta::remote<locks_until_lost>.with(at(nodes[where]))(weak, keys.back()));
  }
  for (const std::string& each : keys) expect(comes(each), each);
  say_pids(rt);
  for (const auto& each : all) expect(each.get(long_enough) > 0, "they had it, and then nothing");
  expect(!manta::remote<&watcher::sees>(first).get(long_enough), "who asks later");
  // This node may hear of it last.
  expect(manta::monitor(lost).try_get(long_enough).has_value(), "its end is told");
  expect(!weak.lock().valid(), "who had a handle");
  // What came of it goes on, and is the same.
  const auto second = watcher_at(nodes[3]);
  manta::remote<&watcher::look_at>(second, manta::remote<&watcher::shows>(first)).get(long_enough);
  expect(!manta::remote<&watcher::sees>(second).get(long_enough), "who hears of it later");
  expect(manta::remote<&watcher::shows>(second).get(long_enough) == weak, "its name goes on");
  return say("weak-lost");
}

}  // namespace settling
