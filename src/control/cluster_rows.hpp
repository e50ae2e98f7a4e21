// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>
#include <manta/spec/history.hpp>
#include <manta/spec/resources.hpp>

#include "control/rows.hpp"
#include "spec/cluster.hpp"

// What a cluster knows of its nodes and of what lives on them: rows of the tables of nodes, actors,
// placement groups, owners and objects' places. The head writes the first four; places are written
// by the owner, for who has to take over when it dies. Small objects travel in messages and have no
// place.
//
// Threads: any. Errors of reading: decode_failed.

namespace manta::inline v0::control {

/// One for each life of a node: its name is in the key together with the epoch, so that the next
/// one of that name does not write over it.
struct node_row {
  enum class state : std::uint8_t { alive, draining, ended };
  std::string name = {};
  std::uint64_t epoch = 0;  ///< what comes from a smaller one is from before its last end
  state is = state::alive;
  std::string address = {};
  std::string host = {};
  std::uint32_t pid = 0;
  spec::demand has = {};  ///< its resources
  label_list labels = {};
  wall_time joined{};
  std::optional<wall_time> ended = {};
  std::string cause = {};  ///< of its end
  base::id process = {};
  spec::node_role as = spec::node_role::node;
};

struct actor_row {
  enum class state : std::uint8_t { pending, alive, restarting, ended };
  base::id id = {};
  std::string name = {};
  std::string name_space = {};
  std::string type = {};
  std::string job = {};
  std::string node = {};  ///< empty while it is nowhere
  std::uint64_t incarnation = 0;
  std::uint32_t restarts_left = 0;
  state is = state::pending;
  std::optional<wall_time> ended = {};
  std::string cause = {};   ///< of its end
  std::string recipe = {};  ///< how it is made: an encoded message
};

struct group_row {
  std::uint64_t id = 0;
  std::string job = {};
  strategy how = strategy::pack;
  std::vector<spec::demand> bundles = {};
  std::vector<std::string> nodes = {};  ///< one for each bundle; empty while it has no place
};

/// A node in one of its epochs, as who owns futures.
struct owner_id {
  std::string node = {};
  std::uint64_t epoch = 0;
  friend bool operator==(const owner_id&, const owner_id&) = default;
};

struct owner_row {
  owner_id id = {};
  std::string job = {};
  std::string adopter = {};             ///< the node that took over; empty: nobody had to
  std::optional<wall_time> ended = {};  ///< when its node was
};

/// Where an object lies.
struct place_row {
  owner_id owner = {};
  base::id object = {};
  std::uint64_t bytes = 0;
  std::vector<std::string> nodes = {};  ///< those that have it whole
  std::string spilled = {};             ///< the file; empty: none
};

std::string key_of(const node_row& row);
std::string key_of(const actor_row& row);
std::string key_of(const group_row& row);
std::string key_of(const owner_row& row);
std::string key_of(const place_row& row);
/// Where an owner's places begin, and its task records.
std::string places_of(const owner_id& owner);
std::string tasks_of(const owner_id& owner);
/// 32 digits.
std::string digits(const base::id& of);

std::string to_bytes(const node_row& row);
std::string to_bytes(const actor_row& row);
std::string to_bytes(const group_row& row);
std::string to_bytes(const owner_row& row);
std::string to_bytes(const place_row& row);

template <>
result<node_row> read_row(std::string_view key, std::string_view bytes);
template <>
result<actor_row> read_row(std::string_view key, std::string_view bytes);
template <>
result<group_row> read_row(std::string_view key, std::string_view bytes);
template <>
result<owner_row> read_row(std::string_view key, std::string_view bytes);
template <>
result<place_row> read_row(std::string_view key, std::string_view bytes);

}  // namespace manta::inline v0::control
