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

#include "harness/folder.hpp"
#include "rivals/tcp.hpp"

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

// What lies between the nodes: the sockets of one machine, or TCP, by which they go when neither
// finds those of the other: unencrypted, as what the rivals say is, or as by default. Then what
// goes by the loopback is not encrypted either, and the bytes of arrays, which go by another
// address, are.
enum class line { machine, tcp, tls };

// Two nodes that share no folder with sockets, as on two machines. The other one is a rank.
class tcp_job {
 public:
  tcp_job(manta::config with, bool is_encrypted)
      : is_encrypted_(is_encrypted),
        address_("127.0.0.1:" + std::to_string(free_tcp_port())),
        other_([this] { be_the_other(); }),
        runtime_(as_first(std::move(with))) {}
  manta::runtime& runtime() { return runtime_; }

 private:
  void be_the_other() const {
    setenv("MANTA_RANK", "1", 1);
    setenv("MANTA_WORLD_SIZE", "2", 1);
    setenv("MANTA_ADDRESS", address_.c_str(), 1);
    setenv("MANTA_TOKEN_FILE", folder_.file("token").c_str(), 1);
    setenv("XDG_RUNTIME_DIR", folder_.file("").c_str(), 1);
    setenv("MANTA_INSECURE_PLAINTEXT", is_encrypted_ ? "no" : "yes", 1);
    execl("/proc/self/exe", "bench_cluster", nullptr);
  }
  manta::config as_first(manta::config with) const {
    with.nodes = -1;
    with.rank = 0;
    with.world_size = 2;
    with.address = address_;
    with.token_file = folder_.file("token");
    with.insecure_plaintext = !is_encrypted_;
    return with;
  }

  bool is_encrypted_;
  temporary_folder folder_;
  std::string address_;
  forked other_;
  manta::runtime runtime_;
};

inline std::shared_ptr<manta::runtime> job_over(line which, const manta::config& with) {
  if (which == line::machine) return std::make_shared<manta::runtime>(with);
  const auto job = std::make_shared<tcp_job>(with, which == line::tls);
  return {job, &job->runtime()};
}

// Nodes of one worker each, with room for arrays of so many bytes in all. Their settings come to
// the other nodes by the environment, which the rows after this one have as it was.
inline std::shared_ptr<manta::runtime> job_with_store(int nodes, std::size_t store, bool maps,
                                                      line over = line::machine) {
  setenv("MANTA_STORE_BYTES", std::to_string(store).c_str(), 1);
  setenv("MANTA_MAP_ARRAYS", maps ? "yes" : "no", 1);
  auto rt = job_over(over, sharing_job(nodes, 1));
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
