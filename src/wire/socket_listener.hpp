// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "wire/endpoint.hpp"
#include "wire/greeting.hpp"
#include "wire/link.hpp"
#include "wire/loop.hpp"
#include "wire/socket_link.hpp"

// Accepts connections, at a unix socket or over TCP.
//
// Problem: KJ's own accept loop ends with the first EMFILE; and who connects and says nothing must
// neither take memory nor the place of those who do.
// Idea: an accept loop of our own that waits 20 ms when the kernel has no descriptor, a check of
// the peer's user at once, and a cap on connections that have not greeted. At the cap the one that
// has waited longest goes: an honest process greets as soon as it has connected, so a crowd of
// silent ones can't keep it out.
// Threads: any, but for the loop's own, which must not destroy it.

namespace manta::inline v0::wire {

/// What came of connections so far. Each is counted once, but for `no_descriptor`.
struct listener_counts {
  std::uint64_t accepted = 0;
  std::uint64_t other_user = 0;     ///< refused at once
  std::uint64_t bad_greeting = 0;   ///< other bytes, another cluster or protocol, closed before
  std::uint64_t silent = 0;         ///< no greeting within the limit
  std::uint64_t crowded_out = 0;    ///< gone to make room at the cap
  std::uint64_t no_descriptor = 0;  ///< times that accepting had to wait for one
};

class socket_listener {
 public:
  /// Connections that have not greeted.
  static constexpr std::size_t most_unknown = 64;
  /// What to do with a new link: on the loop's thread, so it must not block.
  using taker = std::function<void(std::unique_ptr<link>, const greeting& peer)>;

  /// Listens at `where`. A path's folder is made with mode 0700, or is so. Over TCP who connects
  /// has to prove that it has the token (settings.trusts, without which this is invalid_argument).
  /// Errors as prepare_folder, resolve and socket_place::bind; cancelled: the loop has ended. Waits
  /// for the loop, and for the machine's resolver when the host is a name.
  static result<std::unique_ptr<socket_listener>> open(loop& at, const endpoint& where,
                                                       const greeting& self, taker take,
                                                       const socket_settings& how = {});
  socket_listener(const socket_listener&) = delete;
  socket_listener& operator=(const socket_listener&) = delete;
  /// Waits until `take` runs no more. The socket's file is removed; links stay.
  ~socket_listener();

  listener_counts counts() const;
  /// Where it listens: with its port, when any was asked for.
  const socket_address& address() const noexcept;

 private:
  class part;
  struct shared;
  explicit socket_listener(std::shared_ptr<shared> with) noexcept : shared_(std::move(with)) {}

  std::shared_ptr<shared> shared_;
};

}  // namespace manta::inline v0::wire
