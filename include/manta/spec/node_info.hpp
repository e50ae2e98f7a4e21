// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <manta/spec/config.hpp>
#include <manta/spec/resources.hpp>

// What is known of a process of the job.

namespace manta::inline v0 {

/// How it stands, as the head of the cluster sees it.
enum class node_standing : std::uint8_t {
  alive,
  suspected,  ///< has said nothing for a while
  draining    ///< ends what it has, and leaves then
};

/// A node of the job: this process or another one.
struct node_info {
  std::string name = {};                          ///< rank-N, or config::member_name
  std::string host = {};                          ///< the name of its machine
  int pid = 0;                                    ///< there
  role_mode role = role_mode::driver;             ///< what it is in the job
  node_standing standing = node_standing::alive;  ///< as the head sees it
  /// of its membership: larger than of those that joined before; 0: alone
  std::uint64_t epoch = 0;
  std::uint32_t queued = 0;  ///< tasks that wait there or run, as it said last
  bundle has = {};           ///< what tasks there may ask for, all in all; cpus are its workers
  label_list labels = {};    ///< what it is, for with_labels
};

}  // namespace manta::inline v0
