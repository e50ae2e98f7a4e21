// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <sys/socket.h>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>

#include "bulk/guard.hpp"
#include "bulk/plan.hpp"
#include "bulk/readers.hpp"

// Moves the bytes of objects between processes: gives others what is here, and fetches what is
// there, on a thread of its own.
//
// Problem. Large objects on the connection of the messages keep messages waiting, and are copied
// and looked at on their way.
// Idea. They have connections of their own, some to each process, on which nothing but chunks of
// objects is asked for and answered. The bytes are written from the memory in which the holder has
// them and read into that in which they are to be, and summed up at both ends meanwhile. What
// became of a connection is a matter of which chunks are missing (plan.hpp).
//
//   fetch --> client --plan--> lines ~~~request~~~> server --> source, client
//               |  <~~~~~~~~~~~~~~~~ bytes ~~~~~~~~~~'  from its segment
//             done, when they are all where they are to be
//
// Who fetches an object that others want gives them the chunks that have come: where an object is
// made, a later reader is told to ask an earlier one (readers.hpp). What such a helper does not
// give, or not soon, comes from where it would have come without.
//
// Limits: `lines` connections to a holder, `credits` chunks under way on each; most_helpers; those
// of server.hpp.
// Threads: as said at each; source, guard and `done` are called on the bulk thread.

namespace manta::inline v0::bulk {

struct station_settings {
  guard* by = nullptr;
  source* from = nullptr;
  base::id self = {};  ///< this process
  /// Connections to a holder.
  std::size_t lines = 2;
  plan_limits chunks = {};
  std::chrono::milliseconds greeting_limit{3000};
  /// How long nothing may go or come where something is under way.
  std::chrono::milliseconds slow_limit{30000};
  /// How long a connection is kept that nobody needs.
  std::chrono::milliseconds idle_after{30000};
  /// How long a chunk that is about to come here may keep another one waiting for it; it is told
  /// that it is late then, within twice that time.
  std::chrono::milliseconds soon_limit{1000};
  /// How long a helper may take for a chunk; then its reader does without.
  std::chrono::milliseconds helper_limit{4000};
  /// Objects that are fetched of a helper at a time; others come from their holders.
  std::size_t most_helpers = 16;
  readers_limits told = {};
};

/// An address as the kernel has it.
struct place_of_holder {
  sockaddr_storage at = {};
  socklen_t size = 0;
};

struct holder {
  holder_id number = 0;
  base::id process = {};                     ///< which listens there
  std::vector<place_of_holder> places = {};  ///< the best first
};

struct order {
  pull_id number = 0;  ///< another one for each
  base::id object = {};
  std::span<std::byte> to = {};
  std::vector<holder> holders = {};
  /// Which of its chunks are in `to` already: as `left` has said of an earlier order.
  chunks_here here = {};
  /// What the first holder knows this process by, if others can ask here; 0: they can't.
  std::uint64_t reader = 0;
  /// On the bulk thread: where a reader is that a holder has told of; no places: it is not asked.
  std::function<holder(std::uint64_t reader)> find = {};
  /// On the bulk thread, of one that find has told: it can't be reached there, which took time.
  std::function<void(std::uint64_t reader)> unreached = {};
  /// On the bulk thread: the first of it is asked for, of whom it is connected to.
  std::function<void()> begins = {};
  /// On the bulk thread: so many bytes more of it have come.
  std::function<void(std::uint64_t bytes)> came = {};
  /// Lives as long as anything may be written to `to`, or is read there.
  std::shared_ptr<void> keeps = {};
  /// On the bulk thread, just before `done` with an error: what has come of it, which is in `to`
  /// and right as long as nobody writes there.
  std::function<void(chunks_here here)> left = {};
  /// Once, unless it is dropped; null: all bytes are there. node_lost: no holder could be reached.
  /// object_lost: none has it. decode_failed: the bytes that came are not what was sent, twice.
  std::function<void(const error* why)> done = {};
};

/// What it has done so far.
struct station_counts {
  std::uint64_t asked_chunks = 0;
  std::uint64_t came_bytes = 0;
  std::uint64_t wrong_chunks = 0;
  std::uint64_t lines_made = 0;
  std::uint64_t lines_now = 0;  ///< to holders
  std::uint64_t served_now = 0;
  std::uint64_t helped_bytes = 0;    ///< of those that came, from helpers
  std::uint64_t helpers_left = 0;    ///< before they had given all that they were to
  std::uint64_t told_of_others = 0;  ///< answers
};

class station {
 public:
  /// storage_failed: the machine gives no thread or descriptor. `with.by` and `with.from` live
  /// longer.
  static result<std::unique_ptr<station>> start(const station_settings& with);
  station(const station&) = delete;
  station& operator=(const station&) = delete;
  /// Nothing is written or told from then on. Not on the bulk thread.
  ~station();

  // Any thread. Throw std::bad_alloc.
  /// Others connect to this listening socket, which never waits and is taken over.
  void listen(int file);
  void fetch(order one);
  /// Nobody wants it any more; what keeps its memory goes soon. done is not called from when the
  /// bulk thread has heard of it.
  void drop(pull_id number);
  /// That holder is lost, though its connections may not tell: what it was to give comes from
  /// others, or ends. An order that names it later finds out by itself.
  void lose(holder_id number);
  /// The bytes that a chunk has.
  std::uint32_t chunk_bytes() const noexcept;
  /// Waits for the bulk thread, so not there.
  station_counts counts() const;
  /// Bytes of objects that others were given, so far. Waits for nobody.
  std::uint64_t sent_bytes() const noexcept;

 private:
  struct body;
  explicit station(std::unique_ptr<body> made) noexcept;

  std::unique_ptr<body> body_;
};

}  // namespace manta::inline v0::bulk
