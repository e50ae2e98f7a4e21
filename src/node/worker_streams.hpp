// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include <manta/exec/job.hpp>
#include <manta/exec/stream_core.hpp>
#include <manta/spec/error.hpp>

#include "node/workbench.hpp"

// Generators whose reader is in another process than they are.
//
// Problem. A generator hands its items over one by one, and is suspended when its reader is too far
// behind. In another process the reader sees none of its memory, and the node that lies between
// them must neither look into the items nor keep them.
//
// Idea. A stream has a core (exec/stream_core.hpp) on both sides. In the generator's process an
// outlet stands where a consumer would wait: what is yielded is written into the ring on the spot,
// on the generator's own thread, and does not count as taken. In the reader's process the items are
// put into the core there, by who hears the ring; what is taken goes back as a count, each time
// when half of the credits are free again. The node passes items and counts on between two workers
// and looks only whether there are more than was allowed.
//
//   generator --yield--> outlet --Item--> ring --> core here --> reader
//       ^-- flow(taken, credits) <-- socket <----------'          a worker's reader: Flow, by ring
//   end: the Result of the call, behind all items; also the error, which is the last item
//   the reader goes: the order `abandon`, by the socket; the frame is destroyed there
//
// Counts go to a worker by the socket, since nobody reads its ring while it runs a task. They are
// sums, so one that comes late or twice does no harm. Those of a generator that has not come yet
// are kept.
//
// Invariants. Items of a stream come in the order of the ring: both sides handle the messages of
// such a line in their order. A generator whose items came is never run again.
//
// Limits: most_early counts and orders for generators that have not come; the oldest go.

namespace manta::inline v0::node {

/// In the number of a request that calls a generator, and in no other's.
constexpr std::uint64_t stream_mark = std::uint64_t{1} << 61U;

/// The generators that run in this worker. Threads: any.
class worker_streams {
 public:
  static constexpr std::size_t most_early = 4096;

  /// `sends` sends the message that was written there.
  worker_streams(std::uint64_t worker, void (*sends)(void* to, workbench& on) noexcept,
                 void* to) noexcept
      : worker_(worker), send_(sends), to_(to) {}

  /// A generator that came and does not run yet: what it yields goes up under that number. Throws
  /// std::bad_alloc.
  void open(std::uint64_t number, exec::job* generator, exec::stream_core* of);
  /// It has ended. Answers why one of its items could not go; nothing: all went.
  std::optional<error> close(std::uint64_t number) noexcept;

  /// The reader's count.
  void flow(std::uint64_t number, std::uint64_t taken, std::uint32_t credits) noexcept;
  /// Nobody reads it.
  void abandon(std::uint64_t number) noexcept;
  /// It is cancelled; false: there is no generator of that number now.
  bool cancel(std::uint64_t number) noexcept;

 private:
  struct outlet;
  struct early {
    std::uint64_t taken = 0;
    std::uint32_t credits = 0;  // 0: nothing was said
    bool is_abandoned = false;
  };
  early* note(std::uint64_t number) noexcept;
  void send_on(outlet& from) noexcept;
  void send_item(outlet& from, exec::job* item) noexcept;

  const std::uint64_t worker_;
  void (*const send_)(void*, workbench&) noexcept;
  void* const to_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<outlet>> open_;
  std::map<std::uint64_t, early> early_;
};

}  // namespace manta::inline v0::node
