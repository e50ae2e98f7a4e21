// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <manta/codec/codec.hpp>
#include <manta/exec/context.hpp>
#include <manta/exec/executor.hpp>
#include <manta/node/array_block.hpp>

#include "node/future_names.hpp"
#include "node/id_tray.hpp"
#include "wire/message.hpp"

// What making and reading a message takes, kept for the next one: one for each thread.

namespace manta::inline v0::node {

/// Of a value, and of a call's arguments, that go to another node: a message has other things, too.
inline constexpr std::size_t most_bytes_afar = std::size_t{480} << 20U;

struct workbench {
  codec::out_archive out;
  wire::message_writer writer;
  wire::message_reader reader{wire::largest_frame};
  wire::frame_buffer frame;
  std::vector<spec::reference> references;  ///< handles in the message that was written last
  future_tray named;                        ///< those of futures, at the node
  far_tray lent;                            ///< those of this node's, for another one
  // See large_ranges.hpp.
  std::vector<spec::segment_view> segments;  ///< of that message, when some are in the store
  std::vector<array_block*> packed;          ///< those, with a hold each
  std::uint64_t question = 0;                ///< the number of one that was written here last
  std::uint64_t goes_to = 0;                 ///< the other node that the message is for; 0: none
  bool packs = true;                         ///< large ranges may go through the store there

  /// Whether arrays in it may be those of many messages to one node: the arguments of calls.
  bool names_contents() const noexcept { return out.reader_waits(); }
  /// What is written from here on is for that node. Without `may_pack` all of it is in the message.
  void write_for(std::uint64_t node, bool may_pack = true) noexcept {
    goes_to = node;
    packs = may_pack;
    out.for_node(node);
    writer.limit(node != 0 ? wire::largest_frame : wire::default_frame_limit);
  }
};

/// A workbench for one message. A user's constructor may make calls while its value is read, so it
/// is taken out while it is in use.
class borrowed_workbench {
 public:
  borrowed_workbench();
  ~borrowed_workbench();
  borrowed_workbench(const borrowed_workbench&) = delete;
  borrowed_workbench& operator=(const borrowed_workbench&) = delete;
  workbench* operator->() const noexcept { return bench_.get(); }
  workbench& operator*() const noexcept { return *bench_; }

 private:
  std::unique_ptr<workbench> bench_;
};

/// What comes by wire is handled on whichever thread looks for it: not as a part of the task that
/// waits there, whose deadline and resources are its own. Who calls from another process is told
/// apart from other callers by its id, as it would be here: they are served in turn. All callers of
/// another node are one.
class neutral_caller {
 public:
  neutral_caller() noexcept : scope_(itself_) {
    itself_.deadline = exec::executor::without_deadline();
  }
  explicit neutral_caller(const base::id& calls) noexcept : neutral_caller() {
    constexpr std::uint64_t not_of_here = std::uint64_t{1} << 63U;
    itself_.serial = calls.low | not_of_here;
  }
  struct of_node {
    std::uint64_t node = 0;
  };
  explicit neutral_caller(of_node asks) noexcept : neutral_caller() {
    itself_.serial = asks.node | node_mark;
  }
  /// The node that a caller of that number is; 0: it is none.
  static constexpr std::uint64_t node_in(std::uint64_t serial) noexcept {
    return serial >> 62U == 1 ? serial & ~node_mark : 0;
  }

 private:
  static constexpr std::uint64_t node_mark = std::uint64_t{1} << 62U;
  exec::context itself_;
  exec::context_scope scope_;
};

}  // namespace manta::inline v0::node
