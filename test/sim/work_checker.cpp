// SPDX-License-Identifier: Apache-2.0
#include "sim/work_checker.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/timeline.hpp"

namespace sim::work {

namespace {

using namespace std::chrono_literals;
using told = entry::what;

// Between the last handle and the end, with nothing that disturbs.
constexpr duration soon = 1s;
constexpr duration soon_with_losses = 2s;
// Since then everybody has heard of it.
constexpr duration long_known = 2s;

struct thing_story {
  std::map<node_number, int> holders;
  bool was_lent = false;
  bool was_in_doubt = false;
  time_point needed{};  // last
  std::optional<time_point> freed;
};

struct task_story {
  node_number owner = 0;
  time_point asked{};
  std::uint64_t cpus = 0;
  std::uint64_t retries = 0;
  std::uint64_t runs = 0;
  int ends = 0;
  bool is_stopped = false;
  bool is_probe = false;
};

struct call_story {
  node_number actor = 0;
  bool is_handled = false;
  int ends = 0;
};

struct group_story {
  node_number maker = 0;
  std::uint64_t amount = 0;
  std::map<node_number, std::uint64_t> has;  // by node
  int ends = 0;
};

// In a node's line.
struct in_line_story {
  node_number from = 0;  // who asks
  std::uint64_t cpus = 0;
  std::map<node_number, int> passed = {};  // by whom, since its node last had a turn
  // By each. One more since a group's turn: who of the same event came before it is not told.
  int most = 1;
};

struct node_story {
  time_point joined{};
  std::uint64_t cpus = 0;
  std::uint64_t used = 0;
  bool lives = true;
  std::map<std::uint64_t, std::uint64_t> runs;  // tasks, and what they use
  std::map<std::uint64_t, in_line_story> line;  // tasks
  time_point last_group_turn{};
};

class work_check {
 public:
  work_check(const run_settings& with, asked_times& asked) : with_(with), asked_(asked) {}

  std::vector<std::string> of(const outcome& run) {
    for (const entry& one : run.log) {
      at_ = one.at;
      look_at_node(one);
      look_at_thing(one);
      look_at_task(one);
      look_at_line(one);
      look_at_call(one);
      look_at_group(one);
    }
    at_ = run.end;
    for (const auto& [name, one] : things_) end_of_thing(name, one);
    for (const auto& [name, one] : tasks_) end_of_task(name, one);
    for (const auto& [name, one] : calls_) end_of_call(name, one);
    for (const auto& [name, one] : groups_) end_of_group(name, one);
    for (const auto& [number, what] : run.left) {
      if (nodes_[number].lives && !what.empty()) breach("node {} has left: {}", number, what);
    }
    return found_;
  }

 private:
  using call_name = std::tuple<std::uint64_t, node_number, std::uint64_t>;

  template <class... Args>
  void breach(fmt::format_string<Args...> text, Args&&... args) {
    if (found_.size() > 20) return;
    found_.push_back(fmt::format("at {} us: ", at_.time_since_epoch() / 1us) +
                     fmt::format(text, std::forward<Args>(args)...));
  }
  bool lives(node_number who) { return nodes_[who].lives; }
  static node_number maker_of(std::uint64_t name) { return name >> 32U; }

  void look_at_node(const entry& one) {
    switch (one.is) {
      case told::joined:
        nodes_[one.node].cpus = one.amount;
        nodes_[one.node].joined = at_;
        break;
      case told::crashed:
      case told::declared:
        if (lives(one.node)) die(one.node);
        break;
      case told::nonsense:
        breach("{} got nonsense from {}", one.node, one.other);
        break;
      case told::fault_began:
        if (faults_++ == 0) disturbed_.open(at_);
        break;
      case told::fault_over:
        if (--faults_ == 0) disturbed_.close(at_);
        break;
      default:
        break;
    }
  }
  void die(node_number who) {
    nodes_[who].lives = false;
    last_death_ = at_;
    for (auto& [name, one] : things_) {
      if (one.holders[who] == 0 || one.freed) continue;
      one.needed = at_;
      one.was_in_doubt = true;
    }
  }

  // ---- 1. and 2.

  void look_at_thing(const entry& one) {
    if (one.thing == 0) return;
    thing_story& of = things_[one.thing];
    switch (one.is) {
      case told::made:
      case told::copied:
      case told::got:
        ++of.holders[one.node];
        if (!lives(one.node) || !lives(maker_of(one.thing))) break;
        of.needed = at_;
        if (of.freed) breach("{:x} comes to {}, and was freed before", one.thing, one.node);
        break;
      case told::lent:
        of.was_lent = true;
        break;
      case told::dropped:
        --of.holders[one.node];
        if (lives(one.node)) of.needed = at_;
        break;
      case told::freed:
        if (lives(one.node)) free(one, of);
        break;
      default:
        break;
    }
  }
  void free(const entry& one, thing_story& of) {
    for (const auto& [who, count] : of.holders) {
      if (count > 0 && lives(who)) breach("{:x} is freed, and {} has it", one.thing, who);
    }
    if (of.freed) breach("{:x} is freed twice", one.thing);
    of.freed = at_;
    if (!of.was_lent) return;
    ++asked_.freed;
    if (of.was_in_doubt) ++asked_.freed_in_doubt;
    check_soon(one.thing, of.needed);
  }
  void check_soon(std::uint64_t name, time_point since) {
    const duration wait = sum(parts_of({&disturbed_}, since, at_).free);
    if (wait <= (with_.has_bad_network ? soon_with_losses : soon)) return;
    breach("{:x} is kept for {} ms without a handle", name, wait / 1ms);
  }
  void end_of_thing(std::uint64_t name, const thing_story& of) {
    if (lives(maker_of(name)) && !of.freed) check_soon(name, of.needed);
  }

  // ---- 3. to 5.

  void look_at_task(const entry& one) {
    switch (one.is) {
      case told::asked:
        tasks_[one.number] = {
            .owner = one.node, .asked = at_, .cpus = one.cpus, .retries = one.amount};
        break;
      case told::stop_asked:
        tasks_[one.number].is_stopped = true;
        break;
      case told::probed:
        tasks_[one.number].is_probe = true;
        break;
      case told::began:
        begin(one, tasks_[one.number]);
        break;
      case told::over: {
        node_story& at = nodes_[one.node];
        at.used -= at.runs[one.number];
        at.runs.erase(one.number);
        break;
      }
      case told::ended:
        end(one, tasks_[one.number]);
        break;
      default:
        break;
    }
  }
  void use(node_number who, std::uint64_t amount) {
    node_story& at = nodes_[who];
    at.used += amount;
    if (at.used == at.cpus) ++asked_.full;
    if (at.used > at.cpus) breach("{} has {} cpus and uses {}", who, at.cpus, at.used);
  }
  void begin(const entry& one, task_story& of) {
    node_story& at = nodes_[one.node];
    at.runs[one.number] = one.amount;
    use(one.node, one.amount);
    if (++of.runs > 1) ++asked_.ran_again;
    if (of.runs > of.retries + 1) {
      breach("{:x} runs for the {}th time, of {}", one.number, of.runs, of.retries + 1);
    }
  }
  void end(const entry& one, task_story& of) {
    if (++of.ends > 1 && lives(one.node)) breach("{:x} ends twice", one.number);
    bool is_true = false;
    switch (one.how) {
      case ending::value:
      case ending::failed:
        is_true = of.runs > 0;
        break;
      case ending::cancelled:
        is_true = of.is_stopped;
        ++asked_.cancelled;
        break;
      case ending::infeasible:
        is_true = !can_be_given(of.cpus);
        break;
      case ending::lost:
        is_true = last_death_ && *last_death_ >= of.asked - long_known;
        ++asked_.lost;
        break;
    }
    if (!is_true) breach("{:x} ends as {}", one.number, static_cast<int>(one.how));
  }
  // By one that all others know of.
  bool can_be_given(std::uint64_t cpus) const {
    return std::ranges::any_of(nodes_, [&](const auto& one) {
      const node_story& of = one.second;
      return of.lives && of.cpus >= cpus && of.joined + long_known < at_;
    });
  }
  void end_of_task(std::uint64_t name, const task_story& of) {
    if (!lives(of.owner)) return;
    if (of.ends == 0) breach("{:x} has not ended", name);
    if (of.is_probe && of.runs == 0) breach("{} has not got back all that it had", of.owner);
  }

  // ---- 8.

  void look_at_line(const entry& one) {
    auto& line = nodes_[one.node].line;
    if (one.is == told::waits) line[one.number] = {.from = one.other, .cpus = one.cpus};
    const bool is_through = one.is == told::let_through;
    const bool has_waited = (is_through || one.is == told::left_line) && line.erase(one.number) > 0;
    const bool is_group = one.is == told::group_turn;
    const bool is_turn = is_group || (is_through && has_waited);
    if (!is_turn && !is_through) return;
    // A group's turn is told at the pass's begin, wherever in it that was.
    time_point& group_turn = nodes_[one.node].last_group_turn;
    if (is_group) group_turn = one.at;
    const int most = group_turn == one.at ? 2 : 1;
    for (auto& [number, of] : line) {
      if (is_turn && of.from == one.other) {
        of.passed.clear();
        of.most = most;
      }
      if (!is_through) continue;
      // What it got would have been enough.
      if (of.from == one.other || one.amount < of.cpus) continue;
      ++asked_.turns;
      if (++of.passed[one.other] <= of.most) continue;
      breach("{:x} of {} waits at {}, and {} is let through twice", number, of.from, one.node,
             one.other);
    }
  }

  void look_at_group(const entry& one) {
    switch (one.is) {
      case told::grouped:
        groups_[one.number].maker = one.node;
        groups_[one.number].amount = one.amount;
        break;
      case told::set_aside:
        groups_[one.number].has[one.node] += one.amount;
        use(one.node, one.amount);
        break;
      case told::given_back:
        groups_[one.number].has[one.node] -= one.amount;
        nodes_[one.node].used -= one.amount;
        break;
      case told::group_placed:
        if (lives(one.node)) place(one.number, groups_[one.number]);
        break;
      case told::group_ended:
        if (++groups_[one.number].ends > 1) breach("group {:x} ends twice", one.number);
        break;
      default:
        break;
    }
  }
  void place(std::uint64_t name, const group_story& of) {
    std::uint64_t has = 0;
    bool is_hit = false;
    for (const auto& [who, amount] : of.has) {
      has += amount;
      is_hit = is_hit || (amount > 0 && !lives(who));
      if (amount > 0 && who != of.maker) ++asked_.placed;
    }
    // What was set aside for an earlier try may not be given back yet.
    if (has >= of.amount || is_hit) return;
    breach("group {:x} has its place, and {} of {} cpus are set aside", name, has, of.amount);
  }
  void end_of_group(std::uint64_t name, const group_story& of) {
    if (lives(of.maker) && of.ends == 0) breach("group {:x} has not ended", name);
    for (const auto& [who, amount] : of.has) {
      if (amount > 0 && lives(who)) breach("{} keeps {} cpus for group {:x}", who, amount, name);
    }
  }

  // ---- 6. and 7.

  void look_at_call(const entry& one) {
    const bool is_handled = one.is == told::handled;
    const node_number actor = is_handled ? one.node : one.other;
    const call_name name{one.caller, actor, one.number};
    if (one.is == told::called) calls_[name].actor = actor;
    if (is_handled) {
      ++asked_.handled;
      std::uint64_t& last = handled_[{one.caller, actor}];
      if (one.number != last + 1) {
        breach("call {} of {:x} is handled at {} after call {}", one.number, one.caller, actor,
               last);
      }
      last = one.number;
      calls_[name].is_handled = true;
    }
    if (one.is != told::answered) return;
    call_story& of = calls_[name];
    if (++of.ends > 1) breach("call {} of {:x} ends twice", one.number, one.caller);
    const bool is_lost = one.how == ending::lost;
    if (is_lost) ++asked_.lost;
    if (is_lost ? lives(actor) : !of.is_handled) {
      breach("call {} of {:x} ends as {}", one.number, one.caller, static_cast<int>(one.how));
    }
  }
  void end_of_call(const call_name& name, const call_story& of) {
    const auto& [caller, actor, number] = name;
    if (lives(caller >> 8U) && of.ends == 0) {
      breach("call {} of {:x} at {} has not ended", number, caller, actor);
    }
  }

  const run_settings with_;
  asked_times& asked_;
  time_point at_{};
  std::vector<std::string> found_;
  std::map<node_number, node_story> nodes_;
  std::optional<time_point> last_death_;
  int faults_ = 0;
  timeline disturbed_;
  std::map<std::uint64_t, thing_story> things_;
  std::map<std::uint64_t, task_story> tasks_;
  std::map<call_name, call_story> calls_;
  std::map<std::uint64_t, group_story> groups_;
  std::map<std::pair<std::uint64_t, node_number>, std::uint64_t> handled_;
};

}  // namespace

std::vector<std::string> breaches(const outcome& of, const run_settings& with, asked_times* asked) {
  asked_times nobody;
  return work_check(with, asked == nullptr ? nobody : *asked).of(of);
}

}  // namespace sim::work
