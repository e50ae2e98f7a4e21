// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include <manta/base/id.hpp>
#include <manta/exec/job.hpp>
#include <manta/exec/stream_core.hpp>
#include <manta/node/carrier.hpp>
#include <manta/spec/error.hpp>

#include "base/id_hash.hpp"
#include "node/peers.hpp"
#include "wire/views.hpp"

// Generators whose reader is in another node than they are.
//
// Problem. As in worker_streams.hpp: items go one by one to who sees nothing of the generator's
// memory, and it is suspended when its reader is too far behind. Here either node may be lost, and
// what comes is handled by threads that must not read users' values.
//
// Idea. The same one. What is yielded is written and sent on the generator's own thread, through an
// outlet that stands where a consumer would wait; peers keeps the order of what is said to a node,
// so the items come in theirs, and the result of the task or call, which is the end, behind them.
// In the reader's node trade's looker makes the items and puts them into the stream, as it reads
// results; what is taken goes back as a count, each time when half of the credits are free again.
//
//   generator --yield--> outlet --item--> peers ~~~> [looker] --> core here --> reader
//       ^-- taken_elsewhere <-- [loop] <~~~ peers <--flow(taken, credits)--'
//   the end: result_of_task, result_of_call
//   the reader goes, or is cancelled: the order to stop that any task or call gets; there it ends a
//   generator where it is suspended
//
// The reader knows it as a flight of trade or a call of far_actors, by its number; whoever ends
// those, since its node is lost, ends the stream, with that error as its last item. Nothing is said
// of the reader before an item has come, so that a count finds its generator there, or one that has
// ended.
//
//   state, in the reader's node       what ends it
//   here: not claimed, or came back   it runs here, as any generator
//   left: claimed, sent               refused, or its node is lost: here again, as any task
//   has yielded: pushed() > 0         a result; refused, or its node lost: that is its last item
//
// Invariants. (1) All items of a generator were sent when its job is ready: they are pushed by its
// thread, one after the other, and each is sent before push returns. (2) One of which an item was
// put into its stream here is never run again. (3) Items that no flight or call waits for are
// dropped: of one that was given up nothing appears in the stream of its second run.
//
// Limits. A node that sends more items than it was allowed to ends that stream with decode_failed;
// so does a generator that is stopped as its node leaves, catches that and yields on. One whose
// items may have handles that can't go stays at home, as far as their type tells; an item that
// turns out to (an actor of an isolated worker), or is longer than a message may be, ends its
// stream.
// Streams themselves, as handles, stay in their node.
//
// Threads: as said at each; no lock is held while generators, peers or others' code are called.

namespace manta::inline v0::node {

/// The generators that run here for other nodes.
class far_streams {
 public:
  static far_streams& global();

  /// What the messages about a stream are called by, besides: the low half of their requests' ids.
  static constexpr std::uint64_t of_task(std::uint64_t number) noexcept { return number << 1U; }
  static constexpr std::uint64_t of_call(std::uint64_t number) noexcept { return number << 1U | 1; }
  static constexpr bool is_of_call(std::uint64_t stream) noexcept { return (stream & 1U) != 0; }
  static constexpr std::uint64_t number_of(std::uint64_t stream) noexcept { return stream >> 1U; }

  // Any thread. `name`: the reader's node and the stream's number there.
  /// A task or call of that node, which came and does not run yet, is a generator, if it is: what
  /// it yields goes there. Throws std::bad_alloc; then the job has ended, with both of its holds.
  void open(peers& by, const base::id& name, exec::job* made);
  /// It has ended, and is a generator, if it is. Answers why one of its items could not go;
  /// nothing: all went, or it is none.
  std::optional<error> close(const base::id& name, const exec::job* ended) noexcept;
  /// It is to stop; false: there is no such generator now.
  bool stop(const base::id& name, bool with_children) noexcept;

  // On the loop's thread.
  /// What its reader says.
  void flow(const base::id& name, const wire::flow_view& said) noexcept;

 private:
  struct outlet;

  far_streams() = default;

  exec::stream_ref find(const base::id& name) const noexcept;
  static void send_on(outlet& from) noexcept;
  static void send_item(outlet& from, exec::job* item) noexcept;

  mutable std::mutex mutex_;
  std::unordered_map<base::id, std::shared_ptr<outlet>, base::id_hash> open_;
};

/// The stream here of a generator in another node.
struct far_reader {
  exec::job_ref generator;
  exec::stream_ref into;

  far_reader() = default;
  /// Of a task or call that is away, and can't end meanwhile.
  explicit far_reader(exec::job* away) noexcept;
  /// The looker's: an item that came. Answers why the generator is to end: it is none, it made more
  /// than it may, or there was no memory.
  std::optional<error> take(const wire::item_view* came) noexcept;
  /// Says to its node, where the stream has that number, how far the reader is. False: it could not
  /// be said, and the generator would wait for ever.
  static bool say_flow(peers& by, std::uint64_t node, std::uint64_t stream,
                       const wire::flow_view& said) noexcept;
};

/// Whether items of a job that has its arguments came from another node: they are not made twice.
bool has_yielded(exec::job& generator) noexcept;

}  // namespace manta::inline v0::node
