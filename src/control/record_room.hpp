// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

// How much of a store the task records of all nodes take together.
//
// Problem. Each node keeps to a budget, but there may be many of them, and the records of one that
// was lost stay, for those who make again what it had. A store that is full of records has no room
// for what users put there.
//
// Idea. Who has the store counts each value that it writes for others. Where one has no room, all
// of the node that was lost first go, then those of the next; where none is left it is refused.
//
// A node is its keys' prefix.
//
// Pure. Threads: one at a time. Memory: about 50 bytes for each value.

namespace manta::inline v0::control {

class record_room {
 public:
  explicit record_room(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// A value that a node wants to write, with all that it takes; deleted: 0.
  struct wish {
    std::uint64_t number = 0;
    std::size_t bytes = 0;
  };
  struct verdict {
    bool has_room = true;
    std::vector<std::string> go;  ///< all of these is to be deleted first, and forgotten
  };
  /// Whether a batch has room; each number is there once.
  verdict ask(const std::string& by, const std::vector<wish>& all);
  /// It is written.
  void wrote(const std::string& by, const std::vector<wish>& all);
  /// The node is lost; what it has stays as long as there is room.
  void lost(const std::string& who);
  /// All that it has is deleted.
  void forget(const std::string& who) noexcept;

  std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct node {
    std::unordered_map<std::uint64_t, std::size_t> values;
    std::size_t bytes = 0;
    std::uint64_t lost = 0;  // which one it was; 0: it lives
  };
  void set(node& of, std::uint64_t number, std::size_t bytes);

  const std::size_t most_bytes_;
  std::size_t bytes_ = 0;
  std::uint64_t last_lost_ = 0;
  std::map<std::string, node> nodes_;
};

}  // namespace manta::inline v0::control
