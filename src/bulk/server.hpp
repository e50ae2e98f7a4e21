// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "bulk/guard.hpp"
#include "bulk/reactor.hpp"
#include "bulk/station.hpp"

// The end that has objects and is asked for them.
//
// Who connects and says nothing takes the place of nobody: of most_unknown that are not open yet
// the oldest goes for the next one, and each has a time. Where the kernel has no descriptor,
// accepting waits 20 ms. A request is checked, then its bytes are written from where they lie,
// pinned until they are.
//
// Limits: most_unknown, most_served; most_asked requests of a connection wait, the others in its
// socket. Who takes nothing for slow_limit is dropped, and who asks nothing for long is closed.
//
// Threads: the bulk thread only.

namespace manta::inline v0::bulk {

class server {
 public:
  static constexpr std::size_t most_unknown = 64;
  static constexpr std::size_t most_served = 4096;
  static constexpr std::size_t most_asked = 16;

  server(reactor& at, const station_settings& with);
  server(const server&) = delete;
  server& operator=(const server&) = delete;
  ~server();

  /// Takes a listening socket over, that never waits.
  void listen(int file);
  std::size_t lines() const noexcept { return lines_.size(); }

 private:
  class line;
  struct place;

  void accept(place& at);
  void wait(place& at);
  void take(int file);
  void drop(std::uint64_t which);
  void look();

  reactor& reactor_;
  const station_settings with_;
  std::vector<std::unique_ptr<place>> places_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, std::unique_ptr<line>> lines_;
  std::set<std::uint64_t> unknown_;  // of lines_, the oldest first
  reactor::timer looks_;
  bool is_looking_ = false;
};

}  // namespace manta::inline v0::bulk
