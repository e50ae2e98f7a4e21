// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>

#include "base/id_hash.hpp"
#include "life/membership.hpp"
#include "spec/cluster.hpp"

// A process's part of membership.hpp: what it is in its cluster, and what it knows of the others.
//
//   outside -> joining -> member -> draining -> leaving -> over: left
//                 \          \---------\-----------\----> over: with an error
//
// A member whose head is away goes on with its work and what it knows; it looks for the head again
// and again, and ends itself when that has been away for settings.head_wait. One that hears that it
// has ended ends itself at once: others do its work.

namespace manta::inline v0::life {

class seat {
 public:
  /// A connection to the head is to be made; an older one is of no use.
  struct dial {};
  /// It is a member from here on, under that epoch.
  struct joined {
    std::uint64_t epoch = 0;
  };
  /// Another member has come, or stands differently; ended ones are told of once, also those that
  /// had never come, if nobody who joined later was told of before.
  struct changed {
    spec::node_member member;
  };
  /// Nothing more happens. `why`: nothing, when it left as it wished, or the work is done.
  struct over {
    std::optional<error> why;
  };
  /// Another member has another load.
  struct loaded {
    spec::node_member member;
  };
  using action = std::variant<dial, heartbeat, joined, changed, over, loaded>;

  /// What a message from another process is worth.
  enum class worth : std::uint8_t {
    good,   ///< of a member
    early,  ///< of nobody that it knows yet: keep it until the view has grown, or drop it
    stale   ///< of one that has ended
  };

  /// `process` is drawn by the caller and never used again.
  seat(const membership_settings& with, const base::id& process, spec::node_introduction who,
       base::time_point now);

  void on_connected(base::time_point now);
  void on_closed(base::time_point now);
  void on_bulletin(bulletin came, base::time_point now);
  /// At due(), and whenever else.
  void on_time(base::time_point now);
  base::time_point due() const noexcept;

  void set_load(const spec::node_load& load) noexcept { load_ = load; }
  /// It gets no new work, and leaves when it has none (`idle`), or `limit` is over.
  void drain(duration limit, base::time_point now);
  void idle(base::time_point now);

  std::vector<action> take() { return std::exchange(actions_, {}); }

  enum class stage : std::uint8_t { joining, member, draining, leaving, over };
  stage at() const noexcept { return at_; }
  std::uint64_t epoch() const noexcept { return epoch_; }
  std::uint64_t head_epoch() const noexcept { return head_epoch_; }
  std::uint64_t revision() const noexcept { return revision_; }
  worth of(const base::id& process, std::uint64_t epoch) const noexcept;
  /// Those that have not ended, it itself among them.
  const std::unordered_map<base::id, spec::node_member, base::id_hash>& others() const noexcept {
    return view_;
  }

 private:
  duration head_wait() const noexcept {
    return ends_with_driver_ ? with_.driver_wait : with_.head_wait;
  }
  void wake(base::time_point now);
  void speak(base::time_point now);
  void redial(base::time_point now);
  void apply(bulletin& came);
  void put(spec::node_member&& one);
  void take_loads(const bulletin& came);
  void end(std::optional<error> why);
  void leave(base::time_point now);

  const membership_settings with_;
  const base::id process_;
  const spec::node_introduction who_;
  base::time_point born_;
  base::time_point awake_;  // when it was last given the time
  stage at_ = stage::joining;
  spec::node_load load_;
  std::uint64_t epoch_ = 0;
  bool is_connected_ = false;
  bool has_answer_ = false;  // over this connection
  bool ends_with_driver_ = false;
  base::time_point heard_;  // from the head, or when it was looked for first
  base::time_point spoke_{};
  int silent_dials_ = 0;     // since something was heard
  base::time_point dialed_;  // the last one
  base::time_point dial_at_;
  duration dial_wait_{};
  base::time_point drains_until_{};
  std::uint64_t head_epoch_ = 0;
  std::uint64_t revision_ = 0;
  std::uint64_t loads_ = 0;          // the newest loads_revision
  std::uint64_t largest_epoch_ = 0;  // that the view has ever had
  std::string waits_for_ = {};       // why it is no member yet, by the head's word
  std::unordered_map<base::id, spec::node_member, base::id_hash> view_;
  std::unordered_map<std::uint64_t, base::id> by_epoch_;  // of these
  std::vector<action> actions_;
};

}  // namespace manta::inline v0::life
