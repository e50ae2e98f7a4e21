// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <manta/base/id.hpp>

#include "sim/world.hpp"
#include "wire/link.hpp"

// Simulated connections between hosts: wire::link as sockets have it, in simulated time. What is
// sent comes in its order after a while; where the way is cut it waits until that is healed, as TCP
// would send it again. When a process ends its connections do, and the other ends hear of it unless
// the way is cut. A connection is greeted before anything else goes over it: a word there and one
// back, and the answer to that; both ends have to be awake for it. On top of that, as
// a bad proxy on the way would: messages are lost, come twice, or behind later ones, and
// connections are reset.

namespace sim {

struct network_faults {
  // One message in so many; 0: none.
  std::size_t lose = 0;
  std::size_t repeat = 0;
  std::size_t delay = 0;
  duration least_latency = std::chrono::microseconds(50);
  duration most_latency = std::chrono::milliseconds(2);
  duration most_delay = std::chrono::milliseconds(300);
  duration greeting_limit = std::chrono::seconds(3);
  bool resets = true;  ///< what reset() does looks so, and not like the end of a process
};

/// Who dialled whom, as a greeting says it. An address may be another process's by now.
struct caller {
  manta::base::id process;
  std::uint64_t epoch = 0;
  manta::base::id wanted = {};  // zero: whoever is there
};

class network {
 public:
  using link_ptr = std::unique_ptr<manta::wire::link>;
  using acceptor = std::function<void(link_ptr, const caller&)>;

  struct counts {
    int messages = 0;
    std::uint64_t bytes = 0;
    int lost = 0;
    int repeated = 0;
    int delayed = 0;
    int resets = 0;
  };

  explicit network(world& in) : world_(in) {}

  network_faults faults;
  counts has;

  void listen(const std::string& host, acceptor accept) { listening_[host] = std::move(accept); }
  /// The process there is gone: nobody listens, and its connections end.
  void end_host(const std::string& host);
  /// The process there is stopped: connections to and from it are made, but not greeted. What is
  /// sent over those that are waits for it.
  void sleep(const std::string& host) { asleep_.insert(host); }
  void wake(const std::string& host);
  link_ptr dial(const std::string& from, const std::string& to, const caller& by);

  void cut(const std::string& a, const std::string& b) { cuts_.insert(way(a, b)); }
  void heal(const std::string& a, const std::string& b);
  void heal_all();
  bool is_cut(const std::string& a, const std::string& b) const {
    return cuts_.contains(way(a, b));
  }
  /// Ends all connections between the two, for both.
  void reset(const std::string& a, const std::string& b);

 private:
  struct connection;
  struct end;
  friend class sim_link;

  static std::pair<std::string, std::string> way(const std::string& a, const std::string& b) {
    return a < b ? std::pair(a, b) : std::pair(b, a);
  }
  bool happens(std::size_t one_in) { return one_in != 0 && world_.random().one_in(one_in); }
  using step = void (network::*)(const std::shared_ptr<connection>&);
  void greet(const std::shared_ptr<connection>& on, int side, step next);
  void hello(const std::shared_ptr<connection>& on);
  void proof(const std::shared_ptr<connection>& on);
  void welcome(const std::shared_ptr<connection>& on);
  void transmit(const std::shared_ptr<connection>& on, int side, std::vector<std::byte> bytes);
  void carry(const std::shared_ptr<connection>& on, int side, std::function<void()> arrive,
             duration more = duration::zero());
  void deliver(const std::shared_ptr<connection>& on, int side,
               const std::vector<std::byte>& bytes);
  void shut(const std::shared_ptr<connection>& on, int side);
  void end_both(connection& of);

  world& world_;
  std::map<std::string, acceptor> listening_;
  std::set<std::pair<std::string, std::string>> cuts_;
  std::vector<std::weak_ptr<connection>> all_;
  std::set<std::string> asleep_;
  std::map<std::string, std::vector<std::function<void()>>> until_awake_;
};

}  // namespace sim
