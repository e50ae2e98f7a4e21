// SPDX-License-Identifier: Apache-2.0
//
// The jobs of bench_cluster: this program several times, which be_a_node notices.
#pragma once

#include <manta/manta.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

namespace bench {

using bytes = manta::array<unsigned char>;

inline manta::config job_of(int nodes) {
  manta::config out;
  out.workers = 1;
  out.nodes = nodes;
  return out;
}

inline manta::config sharing_job(int nodes, int workers) {
  setenv("BENCH_SHARES", std::to_string(workers).c_str(), 1);  // for the nodes, see be_a_node
  manta::config with = job_of(nodes);
  with.workers = workers;
  return with;
}

// Nodes of one worker each, with room for arrays of so many bytes in all. Their settings come to
// the other nodes by the environment, which the rows after this one have as it was.
inline std::shared_ptr<manta::runtime> job_with_store(int nodes, std::size_t store, bool maps) {
  setenv("MANTA_STORE_BYTES", std::to_string(store).c_str(), 1);
  setenv("MANTA_MAP_ARRAYS", maps ? "yes" : "no", 1);
  auto rt = std::make_shared<manta::runtime>(sharing_job(nodes, 1));
  unsetenv("MANTA_STORE_BYTES");
  unsetenv("MANTA_MAP_ARRAYS");
  return rt;
}

// Bytes of an array that was written in this process.
inline constexpr unsigned char written = 7;

inline bytes written_bytes(std::size_t count) {
  auto room = manta::make_array<unsigned char>(manta::array_shape(count));
  std::ranges::fill(room.span(), written);
  return std::move(room).seal();
}

}  // namespace bench
