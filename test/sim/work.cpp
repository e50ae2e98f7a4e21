// SPDX-License-Identifier: Apache-2.0
#include "sim/work.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "sim/work_node.hpp"

namespace sim::work {

namespace {

using namespace std::chrono_literals;
using told = entry::what;

constexpr duration silent_too_long = 1s;  // then the head declares a node dead
constexpr duration slow_news = 500ms;

/// The head's list of who has joined and ended, and the nodes.
class crew {
 public:
  explicit crew(const run_settings& with) : in_(with) {
    if (!with.has_bad_network) return;
    in_.net.faults.lose = 60;
    in_.net.faults.repeat = 40;
    in_.net.faults.delay = 40;
  }

  outcome run(const std::vector<fault>& faults) {
    const time_point begin = in_.time.now();
    for (std::size_t i = 0; i < in_.with.nodes; ++i) join();
    for (const fault& one : faults) {
      in_.time.at(begin + one.at, [this, one] { apply(one); });
    }
    const time_point calm = begin + in_.with.storm;
    in_.time.at(calm, [this] { calm_down(); });
    in_.time.at(calm + in_.with.calm / 2, [this] { let_go(); });
    in_.time.at(calm + in_.with.calm - 500ms, [this] {
      for (const auto& [number, one] : nodes_) one->probe();
    });
    in_.time.run_until(calm + in_.with.calm);
    outcome out{.log = std::move(in_.log), .end = in_.time.now()};
    for (const auto& [number, one] : nodes_) out.left[number] = one->left();
    out.carried = in_.net.has;
    out.events = in_.time.events();
    return out;
  }

 private:
  struct news {
    node_number who = 0;
    bool has_joined = false;
  };

  void join() {
    const node_number self = ++last_;
    heard_[self] = list_.size() + 1;
    nodes_.emplace(self, std::make_unique<node>(in_, self, members_));
    members_.insert(self);
    publish({self, true});
  }

  void declare_dead(node_number who) {
    if (members_.erase(who) == 0) return;
    in_.note({.is = told::declared, .node = who});
    publish({who, false});
  }

  // Each hears it some time later, and all in the same order.
  void publish(const news& one) {
    list_.push_back(one);
    for (const auto& [number, each] : nodes_) {
      if (heard_[number] >= list_.size()) continue;
      const duration most = in_.time.random().one_in(4) ? slow_news : 40ms;
      hear_soon(number, in_.time.any(most));
    }
  }
  // Who is stopped meanwhile hears it some time after it goes on.
  void hear_soon(node_number self, duration wait) {
    in_.time.after(wait, [this, self] {
      const auto found = nodes_.find(self);
      if (found == nodes_.end()) return;
      if (found->second->is_stopped()) {
        ++missed_[self];
      } else {
        hear_next(self);
      }
    });
  }
  void go_on(node_number who, duration most) {
    const auto found = nodes_.find(who);
    if (found == nodes_.end()) return;
    found->second->go_on();
    if (found->second->is_stopped()) return;
    for (int& left = missed_[who]; left > 0; --left) hear_soon(who, in_.time.any(most));
  }
  void hear_next(node_number self) {
    node& one = *nodes_.at(self);
    const news next = list_[heard_[self]++];
    if (next.has_joined) return one.joined(next.who);
    if (next.who != self) return one.gone(next.who);
    in_.time.after(duration(1), [this, self] { remove(self); });  // it has ended itself
  }

  void remove(node_number who) {
    if (nodes_.erase(who) != 0) in_.net.end_host(host_of(who));
  }

  // ---- faults

  void apply(const fault& of) {
    if (of.is == fault::what::join) {
      if (members_.size() < in_.with.most_nodes) join();
      return;
    }
    if (members_.empty()) return;
    const auto at = [&](std::size_t n) {
      return *std::next(members_.begin(), static_cast<long>(n % members_.size()));
    };
    const node_number whom = at(of.whom);
    const node_number other = at(of.other);
    if (!nodes_.contains(whom)) return;  // it has crashed, and the head does not know yet
    in_.note({.is = told::fault_began});
    switch (of.is) {
      case fault::what::crash:
        return crash(whom, of);
      case fault::what::stop:
        return stop(whom, of.lasts);
      case fault::what::slow:
        return slow(whom, of.lasts);
      case fault::what::cut:
        if (whom != other) in_.net.cut(host_of(whom), host_of(other));
        return over_after(of.lasts,
                          [this, whom, other] { in_.net.heal(host_of(whom), host_of(other)); });
      default:
        if (whom != other) in_.net.reset(host_of(whom), host_of(other));
        return over_after(200ms, [] {});
    }
  }

  void over_after(duration wait, std::function<void()> what) {
    in_.time.after(wait, [this, what = std::move(what)] {
      what();
      in_.note({.is = told::fault_over});
    });
  }

  // kill -9. What it has said may come still, or not all of it.
  void crash(node_number whom, const fault& of) {
    if (std::min(members_.size(), nodes_.size()) <= 2) return in_.note({.is = told::fault_over});
    in_.note({.is = told::crashed, .node = whom});
    if (of.other % 2 == 0) {
      for (const auto& [number, one] : nodes_) in_.net.reset(host_of(whom), host_of(number));
    }
    remove(whom);
    const duration until = 20ms + in_.time.any(150ms);
    in_.time.after(until, [this, whom] { declare_dead(whom); });
    over_after(until + slow_news, [] {});
  }

  void stop(node_number whom, duration lasts) {
    nodes_.at(whom)->stop();
    in_.net.sleep(host_of(whom));
    if (lasts > silent_too_long) {
      in_.time.after(silent_too_long, [this, whom] {
        if (members_.size() > 2) declare_dead(whom);  // else nobody would be left to see
      });
    }
    over_after(lasts + slow_news, [] {});
    in_.time.after(lasts, [this, whom] {
      in_.net.wake(host_of(whom));
      go_on(whom, 100ms);
    });
  }

  // It gets a seventh of the time.
  void slow(node_number whom, duration lasts) {
    for (duration at{0}; at < lasts; at += 35ms) {
      in_.time.after(at, [this, whom] {
        if (const auto found = nodes_.find(whom); found != nodes_.end()) found->second->stop();
      });
      in_.time.after(at + 30ms, [this, whom] { go_on(whom, 4ms); });
    }
    over_after(lasts + slow_news, [] {});
  }

  // ---- the end

  void calm_down() {
    in_.note({.is = told::quiet});
    in_.net.faults.lose = in_.net.faults.repeat = in_.net.faults.delay = 0;
    for (const auto& [number, one] : nodes_) one->be_quiet();
  }
  void let_go() {
    in_.note({.is = told::all_let_go});
    for (const auto& [number, one] : nodes_) one->let_go();
  }

  stage in_;
  node_number last_ = 0;
  std::set<node_number> members_;  // as the head knows it
  std::vector<news> list_;
  std::map<node_number, std::size_t> heard_;
  std::map<node_number, int> missed_;                   // news that came while it was stopped
  std::map<node_number, std::unique_ptr<node>> nodes_;  // that live
};

}  // namespace

std::string show(const fault& of) {
  static constexpr std::array names = {"crash", "join", "stop", "slow", "cut", "reset"};
  return fmt::format("at {} ms: {} {} {} for {} ms", of.at / 1ms,
                     names.at(static_cast<std::size_t>(of.is)), of.whom, of.other, of.lasts / 1ms);
}

std::vector<fault> faults_of(const run_settings& with) {
  dice random(with.seed);
  static constexpr std::array most = {fault::what::crash, fault::what::join, fault::what::stop};
  const fault::what mostly = most.at(with.seed % most.size());
  std::vector<fault> out;
  for (std::size_t i = 0; i < with.faults; ++i) {
    fault one;
    one.is = static_cast<fault::what>(random.below(fault::kinds));
    if (random.one_in(2)) one.is = mostly;
    one.at = duration(random.below(static_cast<std::size_t>(with.storm.count())));
    one.whom = random.below(64);
    one.other = random.below(64);
    const bool is_stop = one.is == fault::what::stop;
    one.lasts = 1ms * (100 + static_cast<int>(random.below(is_stop ? 1800 : 600)));
    out.push_back(one);
  }
  std::ranges::sort(out, {}, &fault::at);
  return out;
}

outcome run(const run_settings& with, const std::vector<fault>& faults) {
  return crew(with).run(faults);
}

}  // namespace sim::work
