// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>

// The nouns of a cluster: the processes that are its members, and what they say of themselves.
//
// Threads: plain values.

namespace manta::inline v0::spec {

/// The longest name of a member; the shortest has one byte.
inline constexpr std::size_t most_node_name = 64;

/// What a process is in its cluster.
enum class node_role : std::uint8_t {
  driver,   ///< runs main, and tasks
  node,     ///< runs tasks
  head,     ///< has the control store, and runs nothing
  observer  ///< looks
};

/// How a member stands, as its head sees it.
enum class node_state : std::uint8_t {
  alive,
  suspected,  ///< has said nothing for a while: gets no new work
  draining,   ///< ends what it has: gets no new work
  ended       ///< is no member any more, and never again under this epoch
};

/// What a member wants to become of itself.
enum class node_wish : std::uint8_t {
  stay,
  drain,  ///< no new work
  leave   ///< it has nothing left that others need
};

/// How much a member has to do.
struct node_load {
  std::uint32_t queued = 0;   ///< tasks that wait
  std::uint32_t running = 0;  ///< tasks that run
  duration task_time{0};      ///< how long one takes, on average

  friend bool operator==(const node_load&, const node_load&) = default;
};

/// Who a process is, by its own word.
struct node_introduction {
  std::string name = {};     ///< its place in the cluster: one living member at a time has it
  std::string address = {};  ///< where others reach it; empty: they don't
  std::string host = {};
  std::uint32_t pid = 0;
  node_role as = node_role::node;
  std::uint64_t functions = 0;  ///< hash of those that others can call; 0: it does not say
  std::uint32_t workers = 0;    ///< how many tasks it runs at a time; its cpus
  // What else its tasks may ask for, and what it is; texts as settings have them.
  std::uint32_t gpus = 0;
  std::uint64_t memory_bytes = 0;
  std::string resources = {};  ///< "license:3,disk:0.5"
  std::string labels = {};     ///< "zone=a,kind=big"
  /// Those that say the same may read each other's arrays where they lie (node/neighbour.hpp); 0:
  /// others can't.
  std::uint64_t machine = 0;
  std::string bulk = {};  ///< where others connect to for the bytes of objects; empty: they don't

  friend bool operator==(const node_introduction&, const node_introduction&) = default;
};

/// A member as others know it.
struct node_member {
  node_introduction who = {};
  base::id process = {};    ///< drawn by it when it began
  std::uint64_t epoch = 0;  ///< given by the head: larger than any before, whoever had it
  node_state is = node_state::alive;
  node_load load = {};
  std::string cause = {};  ///< of its end

  friend bool operator==(const node_member&, const node_member&) = default;
};

/// A member's load, by itself.
struct node_share {
  std::uint64_t epoch = 0;
  node_load load = {};

  friend bool operator==(const node_share&, const node_share&) = default;
};

/// What a head answers to who speaks to it.
enum class node_verdict : std::uint8_t {
  member,    ///< it is one
  refused,   ///< it can't be one
  ended,     ///< it has been one: it left, or was declared dead
  waits,     ///< it will be one when its name is free: who has that may be dead, or not
  dissolved  ///< there is no cluster any more: its work is done
};

}  // namespace manta::inline v0::spec
