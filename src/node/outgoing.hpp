// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include <manta/codec/out_buffer.hpp>

// Messages to other nodes that are being read from arguments of calls and tasks.
//
// Problem. Large arrays are not copied into a message: it is read from the arguments themselves,
// and a long one waits for room between its parts. Its call is listed before it goes, so that an
// answer finds it; who ends what is listed, for its node is lost, would free what is read.
//
// Idea. Who sends says so before it lists the call; who ends calls takes them from the list, and
// waits for those that send to that node before it touches their arguments. An answer needs no such
// wait: it comes when all was read.
//
// Threads: any. Cost: nothing for messages without large arrays; else a mutex, twice.

namespace manta::inline v0::node {

class outgoing {
 public:
  static outgoing& global();

  /// While it lives, a message of so many bytes is read. Throws std::bad_alloc.
  class [[nodiscard]] scope {
   public:
    scope(std::uint64_t node, std::size_t bytes) : node_(bytes < codec::segment_from ? 0 : node) {
      if (node_ != 0) global().begin(node_);
    }
    ~scope() {
      if (node_ != 0) global().end(node_);
    }
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;

   private:
    const std::uint64_t node_;
  };

  /// Until none is read that was when this was called, or began meanwhile, for that node; 0: for
  /// any. Not under a lock, and not by who sends. The node is lost, so that nobody waits there for
  /// long; else until it has room.
  void wait(std::uint64_t node) noexcept;

 private:
  void begin(std::uint64_t node);
  void end(std::uint64_t node) noexcept;

  std::mutex mutex_;
  std::condition_variable has_ended_;
  std::vector<std::uint64_t> nodes_;  // one entry for each message
};

}  // namespace manta::inline v0::node
