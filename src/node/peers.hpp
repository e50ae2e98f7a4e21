// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>

#include "base/id_hash.hpp"
#include "life/membership.hpp"
#include "spec/cluster.hpp"
#include "wire/courier.hpp"
#include "wire/frame.hpp"
#include "wire/greeting.hpp"
#include "wire/link.hpp"
#include "wire/loop.hpp"
#include "wire/loop_job.hpp"
#include "wire/socket_link.hpp"

// The other members of the cluster that do work, and a courier to each.
//
// Who became a member later dials the one that was there before, so that there is one connection
// between two, whoever has something to say first. What the head says of them decides: a member
// that has ended takes its courier along, and what was not answered is told as gone; a connection
// that has ended is made anew.
//
//   cluster_process (the view) --see--> peers --courier--> links on the loop
//
// What is said to one of them until the loop's next turn is one request (wire/bundle.hpp).
// Threads: as said at each; the visitor is called on the loop's thread, without a lock.

namespace manta::inline v0::node {

class peers {
 public:
  /// A message that came; it may be kept, with those that came with it.
  struct kept_message {
    std::shared_ptr<const wire::frame_buffer> with = {};
    std::span<const std::byte> bytes = {};  ///< begins at a multiple of 64
  };
  /// Who handles what they say. Neither may throw or block.
  class visitor {
   public:
    /// A message of a member, once. `from` is its epoch; the high half of the request's id is a
    /// topic.
    virtual void on_message(peers& by, std::uint64_t from, const base::id& request,
                            const kept_message& message) = 0;
    /// It is no member any more, or could not be reached for as long as a member may be silent:
    /// what it was given is lost. `why` has its name.
    virtual void on_gone(peers& by, std::uint64_t node, const std::string& why) = 0;
    /// There are others than before, or they have other loads.
    virtual void on_news(peers& by) = 0;

    /// This process is a member, and which others are that it may speak to, as long as it lives.
    virtual void on_begin(peers& by) = 0;
    /// Again, when it is known only by then which machine it is on.
    virtual void on_joined(peers& by, const spec::node_member& one) = 0;
    /// Of the loop; when to be called again, whatever comes until then.
    virtual base::deadline on_turn(peers& by, base::time_point now) = 0;

   protected:
    ~visitor() = default;
  };
  struct settings {
    base::id self = {};
    wire::socket_settings sockets = {};
    /// Which cluster it is, when that is known; on the loop's thread.
    std::function<base::id()> cluster = {};
    duration dead_after = std::chrono::seconds(3);
  };
  /// What a message is about: the high half of its request's id.
  enum topic : std::uint64_t {
    task = 1,
    result_of_task,
    stop,
    question,
    answer,
    // Of actors: far_actors.hpp. The first three keep their order.
    spawn,
    call,
    release,
    actor_order,
    result_of_call,
    spawned,
    actor_end,
    known,       ///< a spawn has come
    references,  ///< far_handles.hpp
    construct,   ///< as spawn, of one whose core is there already
    name,        ///< far_names.hpp
    name_answer,
    future,  ///< far_futures.hpp
    future_answer,
    part,     ///< of a message that is too long for one request; never told of
    surplus,  ///< a task that need not run there, and may be sent back at once
    item,     ///< far_streams.hpp
    flow,
    pull,  ///< far_pulls.hpp
    pulled,
    booking,  ///< bookings.hpp
    thing,    ///< node_things.hpp
    thing_answer,
    copy_answer  ///< far_copies.hpp; its question is a pull
  };
  /// What becomes of a message when too many wait already.
  enum class when_full : std::uint8_t { refuse, wait, send };
  /// The lower 7 bits are the topic; the next says that handles came with it; of messages
  /// of actors the rest says which of them share a line.
  static constexpr unsigned line_shift = 8;
  /// What send takes; send_when_room takes more.
  static constexpr std::size_t most_at_once = wire::default_frame_limit / 2;
  static constexpr std::uint64_t with_handles = std::uint64_t{1} << 7U;
  static constexpr std::uint64_t topic_of(const base::id& request) noexcept {
    return request.high & (with_handles - 1);
  }
  static constexpr bool has_handles(const base::id& request) noexcept {
    return (request.high & with_handles) != 0;
  }
  struct member {
    std::uint64_t epoch = 0;
    std::uint32_t workers = 1;
    spec::node_load load = {};
    bool takes_work = false;    ///< it is alive, not suspected, not draining, and connected
    bool takes_actors = false;  ///< the same, or not connected yet: what is sent waits for that
  };

  peers(wire::loop& at, settings with, visitor& tell);
  peers(const peers&) = delete;
  peers& operator=(const peers&) = delete;
  /// As end.
  ~peers();
  /// Not on the loop's thread. Nothing is told from then on, there are no others, and what is sent
  /// is node_lost; who waits for room does so no longer.
  void end() noexcept;
  /// Ends it, and keeps what is left, without its connections, until the process ends: threads of
  /// the user's, for which no end of a runtime waits, may still ask it.
  static void retire(std::unique_ptr<peers> over) noexcept;

  // On the loop's thread.
  /// This process is a member from now on, under that epoch.
  void begin(std::uint64_t epoch);
  void see(const spec::node_member& one);
  void accept(std::unique_ptr<wire::link> from, const wire::greeting& by);

  // Any thread.
  /// This process's; 0: it is no member yet.
  std::uint64_t epoch() const noexcept { return epoch_.load(); }
  /// Sends it a message, once, whatever becomes of connections; on the loop's next turn, with all
  /// that others send until then. node_lost: it is no member. store_full: too much waits for it.
  result<void> send(std::uint64_t to, const base::id& request,
                    std::span<const std::span<const std::byte>> pieces, std::size_t size);
  /// The same, and waits until there is room. What is longer than most_at_once goes in parts, so
  /// that others have room beside it; up to wire::largest_frame.
  /// The loop's thread does not wait: for it this is as send_anyway. node_lost: also of one that
  /// can't be reached.
  result<void> send_when_room(std::uint64_t to, const base::id& request,
                              std::span<const std::span<const std::byte>> pieces, std::size_t size);
  /// The same, however much waits: said by who must not wait for room, and can't say it later. What
  /// is long goes in parts here, too: as one request no link would take it, nor what comes behind.
  result<void> send_anyway(std::uint64_t to, const base::id& request,
                           std::span<const std::span<const std::byte>> pieces, std::size_t size);
  std::vector<member> all() const;
  /// Up to so many of them that take work, one after the other from somewhere on; `from`: any
  /// number.
  std::vector<member> some(std::size_t most, std::uint64_t from) const;
  /// What that member says of itself; empty: there is none. Throws std::bad_alloc.
  spec::node_introduction introduction_of(std::uint64_t member) const;
  /// Where that one gives bytes of objects, and which process that is; empty: nowhere.
  struct bulk_place {
    base::id process = {};
    std::string at = {};
  };
  bulk_place bulk_place_of(std::uint64_t member) const;
  /// The names of those that live and can be reached, be it soon.
  std::vector<std::string> names() const;
  /// The epoch of the one of them that has this name; 0: there is none.
  std::uint64_t named(const std::string& name) const;
  /// Whether there was one of that name, which has ended, and none after it. Of the first 1,024.
  bool has_ended(const std::string& name) const;
  /// Why that one is lost, with its name; empty: it is not, or 1,024 that joined later are, too.
  /// Throws std::bad_alloc.
  std::string how_lost(std::uint64_t member) const;
  /// One of those that take work, in turn; 0: there is none.
  std::uint64_t any(std::size_t turn) const noexcept;
  bool has(std::uint64_t member) const;
  /// The same, and the visitor was not told that it can't be reached.
  bool can_reach(std::uint64_t member) const;
  /// Whether so little is on its way to that one that a long part may follow; or it goes nowhere.
  bool has_room_for_part(std::uint64_t to) const;
  /// Whether this is the loop's thread.
  bool is_loop() const noexcept {
    const user here(*this);
    return !is_over_.load() && at_.is_here();
  }
  /// The visitor is told of news, soon. Any thread. Throws std::bad_alloc.
  void tell_news();
  /// The visitor's on_turn is called soon. Any thread. Throws std::bad_alloc.
  void turn_soon();
  /// The last one to join of those that this process has heard of; who joins later has a larger
  /// number. Who joined before it and is not there by then has ended, or is no peer.
  std::uint64_t newest() const noexcept { return newest_.load(); }
  /// Whether all that was sent has come there.
  bool is_quiet() const;

 private:
  struct one;
  using one_ptr = std::shared_ptr<one>;
  /// While it lives end waits: for who touches the loop, or what outlives the mutex.
  class user {
   public:
    explicit user(const peers& of) noexcept : of_(of) { ++of_.users_; }
    ~user() { --of_.users_; }
    user(const user&) = delete;
    user& operator=(const user&) = delete;

   private:
    const peers& of_;
  };
  one_ptr find(std::uint64_t member) const;
  result<void> send(std::uint64_t to, const base::id& request,
                    std::span<const std::span<const std::byte>> pieces, std::size_t size,
                    bool ignores_limits);
  result<void> send_parts(std::uint64_t to, const base::id& request,
                          std::span<const std::span<const std::byte>> pieces, std::size_t size,
                          bool waits);
  static member member_of(std::uint64_t epoch, const one& other);
  static bool is_there(const one& other) noexcept;
  static bool takes_work(const one& other) noexcept;
  static bool takes_actors(const one& other) noexcept;

  base::deadline turn();
  base::deadline look_at_all(base::time_point now);
  void add(const spec::node_member& of);
  std::unique_ptr<wire::link> dial(const one& to);
  std::vector<one_ptr> living() const;
  void give_up(one& on);
  void note_name(const spec::node_member& of);
  void note_end(std::uint64_t member, const std::string& why);

  wire::loop& at_;
  const settings with_;
  visitor& tell_;
  std::atomic<std::uint64_t> epoch_{0};  // written by the loop's thread
  // As epoch_; behind heard_of_ while what the head has said together is seen one by one.
  std::atomic<std::uint64_t> newest_{0};
  std::uint64_t heard_of_ = 0;  // the loop's thread only
  std::atomic<bool> has_news_{false};
  std::atomic<std::uint64_t> long_messages_{0};  // so far
  std::atomic<bool> is_over_{false};
  mutable std::atomic<int> users_{0};
  peers* retired_before_ = nullptr;  // all of them are found from the last one
  // The loop's thread only.
  std::unordered_map<base::id, std::unique_ptr<wire::link>, base::id_hash>
      early_;  // of whom the head has not told yet

  mutable std::mutex mutex_;
  std::map<std::uint64_t, one_ptr> all_;       // by epoch
  std::set<std::string> ended_;                // names of those that have, and none after them
  std::map<std::uint64_t, std::string> lost_;  // by epoch: why, with its name

  std::unique_ptr<wire::loop_job> job_;  // last: it uses all the others
};

/// The one that `held` points to. Throws cancelled: the runtime has ended, and it points nowhere.
peers& open_peers(const std::atomic<peers*>& held);

/// Where others reach who listens there, as an introduction has it: numbers only, so that nobody
/// has to ask for names. Empty: nowhere.
std::string text_of_places(const std::vector<wire::socket_address>& places);
/// What such a text says, as far as it can be read.
std::vector<wire::socket_address> places_of(const std::string& text);

}  // namespace manta::inline v0::node
