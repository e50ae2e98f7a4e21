// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>

#include "base/id_hash.hpp"
#include "control/store.hpp"
#include "node/bulk_way.hpp"
#include "node/cluster_head.hpp"
#include "node/cluster_member.hpp"
#include "node/head_line.hpp"
#include "node/peers.hpp"
#include "wire/endpoint.hpp"
#include "wire/loop.hpp"
#include "wire/loop_job.hpp"
#include "wire/socket_link.hpp"
#include "wire/socket_listener.hpp"

// What a process has of its cluster: sockets on a loop's thread, the head if that is here, and its
// own seat if it is a member.
//
//   listeners --links--> cluster_head        cluster_member --dials--> the head's addresses
//            \---------- one job on one loop: pump both, sleep until either is due ---------/
//
// The heartbeat is the loop's, so a task that takes long, or a user's code that serialises for ten
// seconds, is no silence. Others ask with a flag that the job finds, and look at a copy of the view
// under a lock.
// Threads: any, but the loop's own for the destructor.

namespace manta::inline v0::node {

class cluster_process final : private cluster_member::visitor {
 public:
  struct settings {
    life::membership_settings how = {};
    base::id process = {};  ///< drawn for it
    base::id cluster = {};  ///< of a head; others are told
    std::uint64_t epoch = 1;
    /// Of a member: who it is. Nothing: it is a head alone.
    std::optional<spec::node_introduction> who = {};
    /// It is told who the members are, and is none itself.
    bool looks = false;
    /// Where the head is, the best first; empty: here.
    std::vector<wire::socket_address> head = {};
    /// The head does not come back when nobody listens there: it was in the driver.
    bool ends_with_head = false;
    /// Where others connect to, the nearest first: members to a head, peers to who does work.
    std::vector<wire::endpoint> places = {};
    /// Who handles what other nodes say; null: they say nothing.
    peers::visitor* work = nullptr;
    /// Of a head: where its rows are.
    std::shared_ptr<control::store> rows = {};
    wire::socket_settings sockets = {};
    /// Of a head: how many members its job begins with.
    std::size_t expects = 0;
    /// How much it has to do; asked on the loop's thread, a few times a second.
    std::function<spec::node_load()> load = {};
  };

  /// Begins; errors of loop::start and socket_listener::open.
  static result<std::unique_ptr<cluster_process>> start(settings with);
  cluster_process(const cluster_process&) = delete;
  cluster_process& operator=(const cluster_process&) = delete;
  ~cluster_process();

  /// Where a head listens, with real ports, in the order of settings.places.
  const std::vector<wire::socket_address>& addresses() const noexcept { return addresses_; }

  /// Until it is a member, or it is over. False: neither within `limit`.
  bool wait_joined_for(duration limit);
  /// The same without a limit: its epoch, or why it can't be one.
  result<std::uint64_t> wait_joined();
  /// Why the last connection to the head has ended, or could not be made; nothing: none has.
  std::optional<error> last_loss() const;
  /// Where the head is looked for, for messages.
  std::string head_text() const;
  /// From now on the head is looked for there.
  void redirect(std::vector<wire::socket_address> head);
  /// Of a head: until so many as it expects have been members, and those that still are are in
  /// members(). False: not within `limit`, or it is over.
  bool wait_gathered(duration limit);
  /// By what names they came, until it has all that it expects.
  std::set<std::string> gathered() const;
  /// Until it is no member any more. Nothing: it left as it wished, or the work is done.
  std::optional<error> wait_over();
  /// The same, at most until `limit`; false: it is a member still.
  bool wait_over_for(duration limit);
  /// Of a head: until nobody is a member any more, and all are told; at most `limit`.
  bool wait_dissolved(duration limit);

  /// Called on the loop's thread when it is over; at once, there, when it is already.
  void tell_over(std::function<void(const std::optional<error>&)> tell);

  /// See life::seat.
  void drain(duration limit);
  void idle();
  /// See life::roll.
  void dissolve(const std::string& why);

  /// The other nodes, for who gives them work; null: settings.work was.
  peers* others() const noexcept { return peers_.get(); }
  /// The epoch of the member whose process has the head; 0: no member's, or this one's.
  std::uint64_t head_member() const;
  /// It is no member's: it is asked by a line of its own from now on. A member's, once.
  void ask_head();
  /// A question for head_facts, by that line. False: there is no room now, or no line.
  bool post_to_head(std::uint64_t number, head_line::pieces message, std::size_t size);

  /// Those that have not ended, by their names.
  std::vector<spec::node_member> members() const;
  std::uint64_t epoch() const;

 private:
  explicit cluster_process(settings with) : with_(std::move(with)) {}

  result<void> open();
  void open_bulk();
  void begin();
  base::deadline turn();
  void obey(base::time_point now);
  void look_at_head();
  void gather();
  void pump_member(base::time_point now);
  base::deadline pump_head_line(base::time_point now);
  void take_in(std::unique_ptr<wire::link> from, const wire::greeting& peer);
  base::id known_cluster() const noexcept;
  wire::greeting greeting() const noexcept;
  std::unique_ptr<wire::link> dial();
  std::unique_ptr<wire::link> dial_line(const base::id& head);
  std::vector<wire::socket_address> head_addresses() const;
  void on_joined(std::uint64_t epoch) override;
  void on_changed(const spec::node_member& one) override;
  void on_load(const spec::node_member& one) override { on_changed(one); }
  void on_heard() override { losses_ = 0; }
  void on_lost(const error& why) override;
  void on_over(const std::optional<error>& why) override;

  const settings with_;
  std::vector<wire::socket_address> addresses_;
  std::unique_ptr<wire::loop> loop_;
  std::unique_ptr<bulk_way> bulk_;  // null: nobody works here, or the machine gives no thread

  struct guest {
    std::unique_ptr<wire::link> link;
    bool looks = false;
  };

  // The loop's thread only, once there is a job.
  bool has_begun_ = false;
  std::uint64_t joined_ = 0;  // its epoch
  base::time_point measured_{};
  unsigned losses_ = 0;    // connections to the head, since it was heard
  bool gives_up_ = false;  // there is no use in looking for the head again
  bool is_dissolving_ = false;
  std::vector<guest> came_;
  spec::node_introduction self_;
  std::unique_ptr<peers> peers_;
  std::unique_ptr<cluster_head> head_;
  std::unique_ptr<cluster_member> member_;
  std::unique_ptr<head_office> office_;  // of a head alone

  mutable std::mutex mutex_;  // guards all below, up to the listeners
  std::condition_variable changed_;
  std::unordered_map<base::id, spec::node_member, base::id_hash> view_;
  std::uint64_t epoch_ = 0;
  base::id head_process_;
  bool is_over_ = false;
  bool is_dissolved_ = false;
  bool is_gathered_ = false;
  std::set<std::string> gathered_;
  std::optional<error> why_;
  std::optional<error> lost_;
  std::vector<wire::socket_address> moved_;  // where the head is now; empty: as in the settings
  std::function<void(const std::optional<error>&)> tell_over_;
  std::optional<duration> drains_;
  bool is_idle_ = false;
  std::optional<std::string> dissolves_;
  bool asks_head_ = false;
  std::shared_ptr<head_line> line_;  // written by the loop's thread

  std::vector<std::unique_ptr<wire::socket_listener>> listeners_;
  std::unique_ptr<wire::loop_job> job_;
};

}  // namespace manta::inline v0::node
