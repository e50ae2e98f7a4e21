// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <manta/exec/actor_core.hpp>

#include "cluster/settling.hpp"
#include "node/array_home.hpp"
#include "node/far_handles.hpp"
#include "node/task_records.hpp"

// What a node has, of which nothing is to be left when nobody has anything.

namespace settling {

// What a node has, which grows with nothing but what is alive.
struct belongings {
  std::string node;
  std::int64_t resident = 0;  // bytes
  std::int64_t descriptors = 0;
  std::uint64_t stored = 0;  // bytes of arrays
  std::uint64_t actors = 0;
  std::uint64_t lent = 0;
  std::uint64_t borrowed = 0;
  std::uint64_t records = 0;
};

inline belongings of_this_node() {
  belongings out;
  out.node = manta::this_task::node();
  std::int64_t total = 0;
  std::ifstream("/proc/self/statm") >> total >> out.resident;
  out.resident *= sysconf(_SC_PAGESIZE);
  out.descriptors = std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                  std::filesystem::directory_iterator());
  const auto in = manta::node::array_home::global().store_if_made();
  out.stored = in == nullptr ? 0 : in->measure().live;
  out.actors = manta::exec::actor_core::alive();
  const auto [lent, borrowed] = manta::node::far_handles::global().lent_and_borrowed();
  out.lent = lent;
  out.borrowed = borrowed;
  out.records = manta::node::task_records::global().count().units;
  return out;
}

// Another node is asked in a task, whose own record is there meanwhile.
inline bool has_nothing(const belongings& of) {
  const std::uint64_t own = of.node == manta::this_task::node() ? 0 : 1;
  return of.stored == 0 && of.actors == 0 && of.lent == 0 && of.borrowed == 0 && of.records <= own;
}

inline belongings at_rest(const std::string& node) {
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  for (;;) {
    const belongings is = manta::remote<of_this_node>.with(at(node))().get(long_enough);
    if (has_nothing(is) || std::chrono::steady_clock::now() > limit) return is;
    std::this_thread::sleep_for(1ms);  // it is told soon
  }
}

inline void expect_nothing(const belongings& is) {
  expect(has_nothing(is), is.node + " has left: stored " + std::to_string(is.stored) + ", actors " +
                              std::to_string(is.actors) + ", lent " + std::to_string(is.lent) +
                              ", borrowed " + std::to_string(is.borrowed) + ", records " +
                              std::to_string(is.records));
}
/// Nothing is left in any of these nodes.
inline void expect_nothing_left(const std::vector<std::string>& nodes) {
  for (const std::string& each : nodes) expect_nothing(at_rest(each));
}

}  // namespace settling
