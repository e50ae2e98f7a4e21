// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "bulk/guard.hpp"
#include "bulk/reactor.hpp"
#include "bulk/readers.hpp"
#include "bulk/station.hpp"

// The end that has objects and is asked for them.
//
// Who connects and says nothing takes the place of nobody: of most_unknown that are not open yet
// the oldest goes for the next one, and each has a time. Where the kernel has no descriptor,
// accepting waits 20 ms. A request is checked, then its bytes are written from where they lie,
// pinned until they are.
//
// What this process fetches itself it gives on, too. A chunk that is about to come is waited for:
// who asked is told that it is late only when it has not come for soon_limit. One request waits
// so on a connection, and those behind it; a reader uses a helper's for one object alone, so nobody
// waits for what has nothing to do with it, and trees of several objects can't wait in a ring.
//
// Limits: most_unknown, most_served; most_asked requests of a connection wait, the others in its
// socket. Who takes nothing for slow_limit is dropped, and who asks nothing for long is closed.
//
// Threads: the bulk thread only.

namespace manta::inline v0::bulk {

class client;

class server {
 public:
  static constexpr std::size_t most_unknown = 64;
  static constexpr std::size_t most_served = 4096;
  static constexpr std::size_t most_asked = 16;

  /// `also` has what is being fetched; it lives longer.
  server(reactor& at, const station_settings& with, const client& also);
  server(const server&) = delete;
  server& operator=(const server&) = delete;
  ~server();

  /// Takes a listening socket over, that never waits.
  void listen(int file);
  std::size_t lines() const noexcept { return lines_.size(); }
  /// A chunk of that object has come here, or none does any more.
  void look_again(const base::id& object);
  std::uint64_t told_of_others() const noexcept { return told_of_others_; }
  /// Any thread.
  std::uint64_t sent_bytes() const noexcept { return sent_bytes_.load(); }

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
  const client& client_;
  readers readers_;
  std::set<std::uint64_t> waiting_;  // of lines_, for what is about to come here
  std::uint64_t told_of_others_ = 0;
  std::atomic<std::uint64_t> sent_bytes_{0};
  std::vector<std::unique_ptr<place>> places_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, std::unique_ptr<line>> lines_;
  std::set<std::uint64_t> unknown_;  // of lines_, the oldest first
  reactor::timer looks_;
  bool is_looking_ = false;
};

}  // namespace manta::inline v0::bulk
