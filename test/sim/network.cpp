// SPDX-License-Identifier: Apache-2.0
#include "sim/network.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <optional>

#include <manta/spec/error.hpp>

namespace sim {

using manta::errc;
using manta::error;
using manta::wire::frame_buffer;
using manta::wire::link;
using manta::wire::link_state;

struct network::end {
  std::deque<std::vector<std::byte>> came;
  bool is_closed = false;  // here
  bool has_ended = false;  // nothing more comes
  bool was_reset = false;
  std::function<void()> tell;
  time_point last_arrival{};

  void ring() const {
    if (!is_closed && tell) tell();
  }
};

struct network::connection {
  std::array<std::string, 2> hosts;
  std::array<end, 2> ends;
  std::vector<std::function<void()>> held;  // while the way is cut
  caller by;
  bool is_greeted = false;                          // as the one that dialled knows it
  std::vector<std::vector<std::byte>> before = {};  // sent by it until then
};

class sim_link final : public link {
 public:
  sim_link(network& in, std::shared_ptr<network::connection> on, int side)
      : in_(in), on_(std::move(on)), side_(side) {}
  ~sim_link() override { close(); }

  manta::result<void> send(std::span<const std::span<const std::byte>> pieces,
                           std::size_t size) override {
    if (mine().is_closed || mine().has_ended) return error(errc::node_lost, "the link has ended");
    std::vector<std::byte> bytes;
    bytes.reserve(size);
    for (const auto piece : pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
    in_.transmit(on_, side_, std::move(bytes));
    return {};
  }
  got take(frame_buffer& to) override {
    network::end& here = mine();
    if (here.is_closed) return got::ended;
    if (here.came.empty()) return here.has_ended ? got::ended : got::nothing;
    const std::vector<std::byte>& bytes = here.came.front();
    std::memcpy(to.reset(bytes.size()).data(), bytes.data(), bytes.size());
    here.came.pop_front();
    return got::message;
  }
  bool wait(std::chrono::nanoseconds /*time*/) override { return false; }
  void on_arrival(std::function<void()> tell) override { mine().tell = std::move(tell); }
  void close() override {
    if (mine().is_closed) return;
    mine().is_closed = true;
    mine().came.clear();
    mine().tell = nullptr;
    in_.shut(on_, side_);
  }
  link_state state() const override {
    link_state out;
    const network::end& here = on_->ends[static_cast<std::size_t>(side_)];
    if (here.is_closed) {
      out.ended = error(errc::cancelled, "closed here");
    } else if (here.has_ended && here.came.empty()) {
      out.ended = error(errc::node_lost, "closed there");
      out.was_reset = here.was_reset;
    }
    return out;
  }

 private:
  network::end& mine() { return on_->ends[static_cast<std::size_t>(side_)]; }

  network& in_;
  std::shared_ptr<network::connection> on_;
  int side_;
};

network::link_ptr network::dial(const std::string& from, const std::string& to, const caller& by) {
  const auto made = std::make_shared<connection>();
  made->hosts = {from, to};
  all_.push_back(made);
  made->by = by;
  greet(made, 1, &network::hello);
  world_.after(faults.greeting_limit, [this, weak = std::weak_ptr(made)] {
    const auto late = weak.lock();
    if (late != nullptr && !late->is_greeted) end_both(*late);
  });
  return std::make_unique<sim_link>(*this, made, 0);
}

// The next step of a greeting, at that side when its process is awake.
void network::greet(const std::shared_ptr<connection>& on, int side, step next) {
  carry(on, 1 - side, [this, on, side, next] {
    const auto at = static_cast<std::size_t>(side);
    auto go = [this, on, at, next] {
      if (on->ends[at].is_closed || on->ends[at].has_ended) return;
      (this->*next)(on);
    };
    // The machine answers for a process that is stopped, and not for one that is none.
    if (side == 1 && !listening_.contains(on->hosts[1])) return end_both(*on);
    if (!asleep_.contains(on->hosts[at])) return go();
    until_awake_[on->hosts[at]].emplace_back(std::move(go));
  });
}

void network::hello(const std::shared_ptr<connection>& on) { greet(on, 0, &network::proof); }

void network::proof(const std::shared_ptr<connection>& on) {
  on->is_greeted = true;
  greet(on, 1, &network::welcome);
  for (std::vector<std::byte>& one : std::exchange(on->before, {})) {
    transmit(on, 0, std::move(one));
  }
}

void network::welcome(const std::shared_ptr<connection>& on) {
  const auto there = listening_.find(on->hosts[1]);
  if (there == listening_.end()) return end_both(*on);
  there->second(std::make_unique<sim_link>(*this, on, 1), on->by);
}

void network::wake(const std::string& host) {
  asleep_.erase(host);
  const auto waits = until_awake_.find(host);
  if (waits == until_awake_.end()) return;
  const auto all = std::move(waits->second);
  until_awake_.erase(waits);
  for (const auto& one : all) one();
}

// Runs `arrive` at the other end when what was sent here would get there.
void network::carry(const std::shared_ptr<connection>& on, int side, std::function<void()> arrive,
                    duration more) {
  end& there = on->ends[static_cast<std::size_t>(1 - side)];
  const duration latency =
      faults.least_latency + world_.any(faults.most_latency - faults.least_latency);
  time_point when = world_.now() + latency + more;
  if (more == duration::zero()) {  // in order
    when = std::max(when, there.last_arrival);
    there.last_arrival = when;
  }
  world_.at(when, [this, on, arrive = std::move(arrive)] {
    if (is_cut(on->hosts[0], on->hosts[1])) {
      on->held.push_back(arrive);
    } else {
      arrive();
    }
  });
}

void network::transmit(const std::shared_ptr<connection>& on, int side,
                       std::vector<std::byte> bytes) {
  if (!on->is_greeted) return on->before.push_back(std::move(bytes));
  ++has.messages;
  has.bytes += bytes.size();
  if (happens(faults.lose)) {
    ++has.lost;
    return;
  }
  const bool is_late = happens(faults.delay);
  const bool comes_twice = happens(faults.repeat);
  has.delayed += is_late ? 1 : 0;
  has.repeated += comes_twice ? 1 : 0;
  const auto shared = std::make_shared<std::vector<std::byte>>(std::move(bytes));
  const auto arrive = [this, on, side, shared] { deliver(on, side, *shared); };
  if (comes_twice) carry(on, side, arrive, world_.any(faults.most_delay) + duration(1));
  carry(on, side, arrive, is_late ? world_.any(faults.most_delay) + duration(1) : duration::zero());
}

void network::deliver(const std::shared_ptr<connection>& on, int side,
                      const std::vector<std::byte>& bytes) {
  end& there = on->ends[static_cast<std::size_t>(1 - side)];
  if (there.is_closed || there.has_ended) return;
  there.came.push_back(bytes);
  there.ring();
}

// One end was closed: the other one hears of it behind what was sent before.
void network::shut(const std::shared_ptr<connection>& on, int side) {
  carry(on, side, [on, side] {
    end& there = on->ends[static_cast<std::size_t>(1 - side)];
    if (std::exchange(there.has_ended, true)) return;
    there.ring();
  });
}

void network::end_both(connection& of) {
  for (end& one : of.ends) {
    if (!std::exchange(one.has_ended, true)) one.ring();
  }
}

void network::end_host(const std::string& host) {
  listening_.erase(host);
  asleep_.erase(host);
  until_awake_.erase(host);
  std::erase_if(all_, [](const std::weak_ptr<connection>& one) { return one.expired(); });
  const std::vector<std::weak_ptr<connection>> all = all_;
  for (const std::weak_ptr<connection>& weak : all) {
    const auto one = weak.lock();
    if (one == nullptr) continue;
    for (int side = 0; side < 2; ++side) {
      end& here = one->ends[static_cast<std::size_t>(side)];
      if (one->hosts[static_cast<std::size_t>(side)] != host || here.is_closed) continue;
      here.is_closed = true;
      here.tell = nullptr;
      shut(one, side);
    }
  }
}

void network::reset(const std::string& a, const std::string& b) {
  const std::vector<std::weak_ptr<connection>> all = all_;
  for (const std::weak_ptr<connection>& weak : all) {
    const auto one = weak.lock();
    if (one == nullptr || way(one->hosts[0], one->hosts[1]) != way(a, b)) continue;
    ++has.resets;
    for (end& side : one->ends) side.was_reset = faults.resets && !side.has_ended;
    end_both(*one);
  }
}

void network::heal(const std::string& a, const std::string& b) {
  cuts_.erase(way(a, b));
  const std::vector<std::weak_ptr<connection>> all = all_;
  for (const std::weak_ptr<connection>& weak : all) {
    const auto one = weak.lock();
    if (one == nullptr || way(one->hosts[0], one->hosts[1]) != way(a, b)) continue;
    for (auto& late : std::exchange(one->held, {})) {
      // Sent again by a timer that has grown meanwhile, all at about the same time.
      world_.after(std::chrono::milliseconds(50), std::move(late));
    }
  }
}

void network::heal_all() {
  const auto cuts = cuts_;
  for (const auto& [a, b] : cuts) heal(a, b);
}

}  // namespace sim
