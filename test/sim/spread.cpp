// SPDX-License-Identifier: Apache-2.0
#include "sim/spread.hpp"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <queue>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include "life/membership.hpp"
#include "sched/overflow.hpp"
#include "sched/resting_nodes.hpp"

namespace manta_test::spread {

namespace {

using namespace std::chrono_literals;
using namespace manta;  // NOLINT: the words of this file
using base::time_point;

// As in trade_overflow.cpp.
constexpr duration between_looks = 1ms;

constexpr time_point start{1h};

// This thread's, so that what else the machine does is not in it.
double processor_time_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct task {
  duration length{};
  std::vector<int> way = {};  // who has given it; the first has made it
};

struct message {
  enum class kind : std::uint8_t { given, answered, refused };
  time_point at;
  kind is = kind::given;
  int to = 0;
  int from = 0;
  task what;
  duration wait{};
  bool operator<(const message& other) const { return at > other.at; }  // the earliest on top
};

struct told_load {
  std::uint32_t queued = 0;
  duration task_time{};
};

struct node {
  std::deque<task> own;
  std::deque<task> guests;
  std::vector<time_point> free_at;
  duration worked{};
  std::uint64_t ran = 0;
  sched::service_pace pace;
  sched::overflow_window window;
  std::uint64_t given = 0;
  std::uint64_t refused = 0;
  std::unordered_map<int, std::uint32_t> sent;
  sched::resting_nodes full;
  time_point next_look;
  time_point next_beat;
  time_point told_at{};
  told_load told;
  std::vector<told_load> view;  // what it was told last

  std::uint64_t queued() const { return own.size() + guests.size(); }
};

class world {
 public:
  explicit world(const settings& with) : with_(with), random_(with.seed) {
    nodes_.resize(static_cast<std::size_t>(with.nodes));
    const membership_beat beat;
    for (node& one : nodes_) {
      one.free_at.assign(static_cast<std::size_t>(with.workers), start);
      one.window = sched::overflow_window(static_cast<std::uint32_t>(with.workers));
      one.next_look = start + up_to(between_looks);
      one.next_beat = start + up_to(beat.every);
      one.view.resize(nodes_.size());
    }
    std::exponential_distribution<double> length(1.0 / static_cast<double>(with.task_time.count()));
    for (int maker = 0; maker < with.makers; ++maker) {
      for (int i = 0; i < with.tasks_a_maker; ++i) {
        const duration takes(1 + static_cast<duration::rep>(length(random_)));
        at(maker).own.push_back({takes});
        work_ += takes;
        ++out_.tasks;
      }
    }
  }

  outcome run() {
    const duration step = std::clamp<duration>(with_.task_time, 1us, 100us);
    for (; ran_ < out_.tasks; now_ += step) {
      while (!wire_.empty() && wire_.top().at <= now_) {
        const message came = wire_.top();
        wire_.pop();
        arrive(came);
      }
      for (int i = 0; i < with_.nodes; ++i) {
        work(i, now_ + step);
        if (now_ >= at(i).next_beat) beat(i);
        if (with_.gives && now_ >= at(i).next_look) look(i);
      }
    }
    return sum();
  }

 private:
  struct membership_beat {
    duration every = life::membership_settings{}.heartbeat;
    std::size_t loads_told = life::membership_settings{}.loads_told;
  };

  node& at(int i) { return nodes_[static_cast<std::size_t>(i)]; }
  duration up_to(duration most) {
    return duration(std::uniform_int_distribution<duration::rep>(0, most.count())(random_));
  }
  sched::overflow_queue queue_of(const node& n) const {
    return {n.queued(), static_cast<std::uint32_t>(with_.workers), n.pace.task_time()};
  }

  void spend(node& n, duration cost) const {
    n.free_at.front() = std::max(n.free_at.front(), now_ + cost);
  }

  void arrive(const message& came) {
    node& n = at(came.to);
    if (came.is == message::kind::given) {
      if (!sched::refuses({}, queue_of(n))) return n.guests.push_back(came.what);
      spend(n, with_.cost.refusing);
      wire_.push({now_ + with_.cost.trip, message::kind::refused, came.from, came.to, came.what,
                  sched::wait_of(queue_of(n))});
      return;
    }
    --n.sent[came.from];
    task back = came.what;
    back.way.pop_back();
    if (came.is == message::kind::answered) {
      if (back.way.empty()) return;
      spend(n, with_.cost.giving);
      const int to = back.way.back();
      return wire_.push({now_ + with_.cost.trip, message::kind::answered, to, came.to, back, {}});
    }
    ++n.refused;
    ++out_.refused;
    n.full.rest(static_cast<std::uint64_t>(came.from), now_ + sched::rest_after(came.wait));
    (back.way.empty() ? n.own : n.guests).push_back(back);
  }

  // Its own and others' in turn, as they mix in its queues.
  task next_of(node& n) {
    const bool is_guest = !n.guests.empty() && (n.own.empty() || (random_() & 1U) != 0);
    std::deque<task>& from = is_guest ? n.guests : n.own;
    const task out = from.front();
    from.pop_front();
    return out;
  }

  void work(int i, time_point until) {
    node& n = at(i);
    for (time_point& free : n.free_at) {
      free = std::max(free, now_);
      while (free < until && n.queued() > 0) {
        const task next = next_of(n);
        const bool is_guest = !next.way.empty();
        const duration takes =
            next.length + with_.cost.own + (is_guest ? with_.cost.guest : duration());
        free += takes;
        n.worked += takes;
        ++n.ran;
        ++ran_;
        if (!is_guest) continue;
        const int to = next.way.back();
        wire_.push({free + with_.cost.trip, message::kind::answered, to, i, next, {}});
      }
    }
  }

  // Says its load, and hears those of the others.
  void beat(int i) {
    const membership_beat with;
    node& n = at(i);
    n.next_beat += with.every;
    const auto share = static_cast<duration::rep>(nodes_.size() / with.loads_told);
    if (share == 0 || now_ - n.told_at >= share * with.every - with.every / 2) {
      n.told = {static_cast<std::uint32_t>(n.queued()), n.pace.task_time()};
      n.told_at = now_;
    }
    for (std::size_t j = 0; j < nodes_.size(); ++j) n.view[j] = nodes_[j].told;
  }

  std::vector<sched::overflow_peer> others(int i, std::size_t most) {
    node& n = at(i);
    n.full.look(now_);
    std::vector<sched::overflow_peer> out;
    const int first = std::uniform_int_distribution<int>(0, with_.nodes - 1)(random_);
    for (int k = 0; k < with_.nodes && out.size() < most; ++k) {
      const int peer = (first + k) % with_.nodes;
      if (peer == i || n.full.is_resting(static_cast<std::uint64_t>(peer), now_)) continue;
      const auto sent = n.sent.find(peer);
      const told_load& load = n.view[static_cast<std::size_t>(peer)];
      out.push_back({.node = static_cast<std::uint64_t>(peer),
                     .workers = static_cast<std::uint32_t>(with_.workers),
                     .waiting = load.queued,
                     .sent = sent == n.sent.end() ? 0 : sent->second,
                     .task_time = load.task_time});
    }
    return out;
  }

  // Its own first; then the oldest of others' that may be sent on.
  std::optional<task> next_to_give(node& n) const {
    const auto may_go = [this](const task& one) {
      return static_cast<int>(one.way.size()) < with_.hops;
    };
    std::deque<task>& from = n.own.empty() ? n.guests : n.own;
    if (from.empty() || !may_go(from.front())) return std::nullopt;
    std::optional<task> out = std::move(from.front());
    from.pop_front();
    return out;
  }

  void look(int i) {
    node& n = at(i);
    const double begun = processor_time_s();
    n.pace.look(now_, n.ran, n.queued(), static_cast<std::uint32_t>(with_.workers));
    n.window.look(now_, n.given, n.refused);
    const sched::overflow_settings rules{.most = n.window.left(n.given)};
    std::vector<sched::overflow_share> shares;
    if (n.queued() > 0 && rules.most > 0) {
      shares = sched::spread_overflow(rules, queue_of(n),
                                      others(i, sched::worth_looking_at(rules.most)));
    }
    out_.deciding_s += processor_time_s() - begun;
    ++out_.looks;
    duration spent{};
    for (const sched::overflow_share& one : shares) {
      for (std::uint64_t k = 0; k < one.tasks; ++k) {
        std::optional<task> next = next_to_give(n);
        if (!next) break;
        spent += with_.cost.giving;
        const int to = static_cast<int>(one.node);
        if (!next->way.empty()) ++out_.sent_on;
        next->way.push_back(i);
        wire_.push({now_ + spent + with_.cost.trip, message::kind::given, to, i, *next, {}});
        ++n.sent[to];
        ++n.given;
        ++out_.given;
      }
    }
    n.next_look = now_ + std::max(between_looks, spent);
  }

  outcome sum() {
    duration longest{};
    duration all{};
    time_point end = start;
    for (const node& n : nodes_) {
      longest = std::max(longest, n.worked);
      all += n.worked;
      end = std::max(end, *std::ranges::max_element(n.free_at));
    }
    const auto seconds = [](duration of) { return std::chrono::duration<double>(of).count(); };
    out_.took_s = seconds(end - start);
    out_.best_s = seconds(work_) / with_.nodes / with_.workers;
    out_.busiest = seconds(longest) / (seconds(all) / with_.nodes);
    return out_;
  }

  const settings with_;
  std::mt19937_64 random_;
  std::vector<node> nodes_;
  std::priority_queue<message> wire_;
  time_point now_ = start;
  duration work_{};
  std::uint64_t ran_ = 0;
  outcome out_;
};

}  // namespace

outcome run(const settings& with) { return world(with).run(); }

}  // namespace manta_test::spread
