// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <manta/manta.hpp>

#include "cluster/settling.hpp"

// Who is a member, as a node sees it. Whoever joins or is lost is known to be so soon.

namespace settling {

inline bool is_member(const manta::runtime& rt, const std::string& name) {
  for (const manta::node_info& one : rt.nodes()) {
    if (one.name == name) return true;
  }
  return false;
}

/// The names of all members that are there now, but of that one.
inline std::vector<std::string> all_but(const manta::runtime& rt, const std::string& lost) {
  std::vector<std::string> out;
  for (const manta::node_info& one : rt.nodes()) {
    if (one.name != lost) out.push_back(one.name);
  }
  return out;
}

/// False: it is not so for long.
inline bool is_soon_member(const manta::runtime& rt, const std::string& name, bool is_in) {
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (is_member(rt, name) != is_in) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(1ms);  // it is seen soon
  }
  return true;
}
inline bool has_joined(const manta::runtime& rt, const std::string& name) {
  return is_soon_member(rt, name, true);
}
inline bool is_out_soon(const manta::runtime& rt, const std::string& name) {
  return is_soon_member(rt, name, false);
}

}  // namespace settling
