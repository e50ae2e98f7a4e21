// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <manta/node/kv_bytes.hpp>

#include "control/record_room.hpp"
#include "control/store.hpp"

// Task records of all nodes, in the store of the process that has it: task_records.hpp writes them.
//
// They have a limit of their own there (control/record_room.hpp), so that users' keys have room.
// Those of a lost node stay while there is room, for who makes again what it had; those of one that
// leaves in order go; when the job is over, or no node is left, all go.
//
// Threads: any; it waits for the store.

namespace manta::inline v0::node {

/// question::task_records: values to be written and deleted, by number; or the sender's end.
struct written_value {
  std::uint64_t number = 0;
  std::string bytes;
};
struct records_question {
  std::string node;  ///< the sender's name
  std::vector<written_value> puts = {};
  std::vector<std::uint64_t> dels = {};
  bool leaves = false;  ///< all of it goes
};

class record_keeper {
 public:
  static record_keeper& global();

  /// `from`: the member's number. Answers when it is written. store_full: there is no room for it.
  result<void> keep(std::uint64_t from, const records_question& what) noexcept;
  /// One asks: from now on it is to hear which are gone.
  void note_asker() noexcept { knows_any_.store(true); }
  /// Whether any node has asked.
  bool knows_any() const noexcept { return knows_any_.load(std::memory_order_relaxed); }
  /// That member is lost, or has left.
  void gone(std::uint64_t from) noexcept;
  /// The job is over, and no other node writes any more.
  void end_job() noexcept;

 private:
  record_keeper() = default;
  result<void> write(std::uint64_t from, const records_question& what);
  result<void> load(control::store& in);
  static result<void> delete_all(control::store& in, const std::string& prefix);

  std::atomic<bool> knows_any_{false};
  std::mutex mutex_;  // one at a time
  std::optional<control::record_room> room_;
  struct member {
    std::string prefix;
    bool has_left = false;  // what it has sent before may come later
  };
  std::map<std::uint64_t, member> members_;
};

}  // namespace manta::inline v0::node
