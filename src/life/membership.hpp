// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>

#include "spec/cluster.hpp"

// What a head and the members of its cluster say to each other about who is one.
//
// Problem. Every process of a job has to know which others there are, soon after that changes,
// while messages are lost, come twice or late, links end, processes die, stop and come back, and
// the head itself does. Who was declared dead and was only away must not go on as if nothing had
// happened: its work has been given to others.
//
// Idea. Two messages, each of which says all that matters, so that only the newest counts and any
// may be lost. A heartbeat says who a process is, what it wants and what it has seen. A bulletin
// answers it with what it is to the head, and with the members that have changed since then. To
// join is to send heartbeats without an epoch; to leave is to wish for it until the bulletin says
// so.
//
//   seat (every member)                          roll (the head)
//   outside --heartbeat, epoch 0-->              writes the row, durable
//           <--bulletin: member, epoch 7 ------  tells all others
//   member  --heartbeat, epoch 7, load-->        hears it; else suspects it, then ends it
//           <--bulletin: changes since 41 -----
//   ended   <--bulletin: ended ----------------  once its row says so, for ever
//
// An epoch is given once, whatever dies: it is on the disk before anybody hears of it, and so is a
// member's end. What a peer sends under an epoch that has ended is refused (seat::of). A head
// that is started again has an epoch of its own, larger than all it gave before, so that nobody
// listens to its former life; it finds its members on the disk and gives them time to come back.
//
// Pure: time and messages go in, actions come out (take()). Threads: externally synchronised.

namespace manta::inline v0::life {

/// From every process to the head.
struct heartbeat {
  base::id process = {};
  std::uint64_t epoch = 0;  ///< its own; 0: it asks to become a member
  spec::node_wish wish = spec::node_wish::stay;
  spec::node_load load = {};
  // What it has seen of the view: in which head's life, and up to which revision.
  std::uint64_t head_epoch = 0;
  std::uint64_t revision = 0;
  spec::node_introduction who = {};
  std::uint64_t loads = 0;  ///< up to which of that head's loads_revision it has the loads
};

/// From the head to a process.
struct bulletin {
  base::id process = {};  ///< whom it is for
  std::uint64_t head_epoch = 0;
  spec::node_verdict verdict = spec::node_verdict::member;
  std::uint64_t epoch = 0;  ///< of the receiver
  std::string reason = {};  ///< of a refusal, an end, or why it waits
  // Members that changed after `since`, up to `revision`; all, if that is 0.
  std::uint64_t since = 0;
  std::uint64_t revision = 0;
  std::vector<spec::node_member> changed = {};
  // In the answer to a heartbeat: loads that changed since those which the receiver has.
  std::uint64_t loads_revision = 0;
  bool ends_with_driver = false;  ///< the head is in its process
  std::vector<spec::node_share> loads = {};
};

/// How long who was told of a node by somebody else waits to hear of it from the head. That word
/// comes within a heartbeat, a few of them where the head is busy; of a node that ended while the
/// head was away it may never come, and of one that was named wrongly never does.
inline constexpr duration until_heard_of = std::chrono::seconds(2);

/// How a connection has ended.
struct closing {
  duration made_in{};      ///< what it took to make it, which the next one will take, too
  bool was_reset = false;  ///< and not ended
};

struct membership_settings {
  duration heartbeat = std::chrono::milliseconds(250);  ///< how often a member speaks
  duration suspect_after = std::chrono::milliseconds(1000);
  duration dead_after = std::chrono::seconds(3);
  /// How long a member whose connection was closed may take to make another one; and some times
  /// what its last one took to be made, so that neither a long way nor a busy machine is a death.
  duration closed_grace = std::chrono::milliseconds(10);
  /// The same where a reset has closed it: more often a path's doing than a death, which ends the
  /// stream but where it leaves something unread.
  duration reset_grace = std::chrono::milliseconds(500);
  /// At most how long it has for that when the head itself was stopped meanwhile: as long as that.
  duration stop_grace = std::chrono::milliseconds(1000);
  /// The head tells of changes at most this often: of the first at once. For each news_members that
  /// live as long again, so that what they cost grows with the members and not with their square;
  /// but not longer than a heartbeat, whose answer has the news anyway.
  duration news_gap = std::chrono::milliseconds(5);
  std::size_t news_members = 16;
  /// One heartbeat's answer has about so many loads: where more members live, each is told less
  /// often.
  std::size_t loads_told = 64;
  /// Until when the members of a head that was started again have to be back.
  duration return_grace = std::chrono::seconds(5);
  /// How long a member goes on without a head.
  duration head_wait = std::chrono::seconds(60);
  /// The same where the head is in the driver's process, and is gone with that.
  duration driver_wait = std::chrono::seconds(6);
  bool ends_with_driver = false;  ///< of a head: it is
  /// Of a head that is in a member's process: that one. Nobody becomes a member before it.
  base::id host = {};
  /// How long a process tries to become a member: longer than the end of one with its name takes.
  duration join_limit = std::chrono::seconds(15);
  std::size_t most_members = 65536;  ///< that live
  std::size_t most_ended = 16384;    ///< that are told of and known as ended
};

}  // namespace manta::inline v0::life
