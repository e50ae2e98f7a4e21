// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>

#include "control/store.hpp"

// The calls of an actor whose answers must survive it and its callers: written before the answers
// go out, dropped when a checkpoint covers them.
//
// Idea. Calls that gather while a batch is written go out with the next one, in one value. Numbers
// of executions only grow, so what a checkpoint covers is the front of a list.
//
// Invariant: the log has at most `most_bytes`. In a full one a call is refused: its actor makes a
// checkpoint first. A value goes when all of its calls are covered, so a checkpoint that covers the
// last call frees everything.
//
// Pure: what is decided is in the batches of write(), to be committed in their order. When one
// can't be committed the log is loaded again.
//
// Threads: one at a time.

namespace manta::inline v0::control {

struct call_row {
  base::id caller;
  std::uint64_t number = 0;     ///< which call of its caller
  std::uint64_t execution = 0;  ///< which call of the actor; grows
  std::string request;          ///< an encoded message
};

class call_log {
 public:
  explicit call_log(const base::id& actor, std::size_t most_bytes = std::size_t{64} << 20U);

  /// Forgets what it knew, and gives what the store has, in the order of executions. Waits.
  result<std::vector<call_row>> load(store& in);

  /// invalid_argument: its execution is not after the last one's. store_full: the log is, or the
  /// call has more than 8 MiB.
  result<void> add(call_row row);
  /// A checkpoint has what happened up to this execution.
  void cover(std::uint64_t execution);
  /// What has changed since the last call, as batches of 32 MiB at most, buffered.
  std::vector<batch> write();

  std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct value {
    std::uint64_t number = 0;
    std::uint64_t last = 0;  // execution
    std::size_t bytes = 0;
  };

  std::string prefix_;
  std::size_t most_bytes_;
  std::size_t bytes_ = 0;
  std::uint64_t last_ = 0;  // execution
  std::uint64_t next_ = 0;  // value
  std::vector<call_row> added_;
  std::deque<value> written_;
  std::vector<std::string> over_;  // keys
};

}  // namespace manta::inline v0::control
