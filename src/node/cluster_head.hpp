// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>
#include <manta/spec/error.hpp>

#include "base/id_hash.hpp"
#include "control/store.hpp"
#include "life/roll.hpp"
#include "node/cluster_mail.hpp"
#include "wire/frame.hpp"
#include "wire/link.hpp"

// The head of a cluster: life/roll.hpp with connections to the members and rows in a store.
//
// It begins with the rows of its last life; until these are read, and its own epoch is on the disk,
// nobody is heard. What the store answers and what comes over a link, on whatever thread, waits for
// the next pump; `wake` is called then. A pump looks at the links over which something came, not at
// all of them. The rows of members that have ended stay, up to settings.most_ended, oldest gone
// first.
//
// Whoever calls pump() when messages have come, when woken, or when due() is over is its loop. All
// time comes from there. Threads: one at a time; `wake` is called by any, and must not call this.

namespace manta::inline v0::node {

class cluster_head {
 public:
  /// `rows` lives longer than this. `wake` must not block.
  cluster_head(const life::membership_settings& how, const base::id& process, control::store& rows,
               std::function<void()> wake);
  ~cluster_head();
  cluster_head(const cluster_head&) = delete;
  cluster_head& operator=(const cluster_head&) = delete;

  /// A process has connected; the link's on_arrival is this head's from here on. One that only
  /// looks is told who is a member, and becomes none.
  void accept(std::unique_ptr<wire::link> from, bool looks = false);
  /// See life::roll. Over when nobody is a member any more.
  void dissolve(const std::string& why);
  /// Whether all that it has said has gone.
  bool is_quiet() const;
  void pump(base::time_point now);
  base::time_point due() const;

  /// Why it can't be one: its rows can't be read. Nothing: it is, or will be.
  const std::optional<error>& failure() const noexcept { return failure_; }
  /// Null until its rows are read.
  const life::roll* roll() const noexcept { return roll_ ? &*roll_ : nullptr; }

 private:
  struct guest {
    std::unique_ptr<wire::link> link;
    bool looks = false;
    base::id process = {};  // zero: it has said nothing yet
  };
  struct inbox;  // what the store has answered, and which links have something

  void read_rows(std::string after, std::vector<spec::node_member> known);
  bool take_row(const control::record& one, std::vector<spec::node_member>& known);
  void read_epoch(std::vector<spec::node_member> known);
  void hear_store(base::time_point now);
  void hear_links(base::time_point now);
  bool hear(std::uint64_t number, guest& from, base::time_point now);
  void forget(std::uint64_t number, const guest& gone, base::time_point now);
  void act();
  void write(const life::roll::write& row);
  void drop_oldest(control::batch& with);

  const life::membership_settings how_;
  control::store& rows_;
  const std::shared_ptr<inbox> inbox_;
  cluster_post post_;
  std::optional<life::roll> roll_;
  std::optional<std::string> dissolves_;  // before its rows were read
  std::optional<error> failure_;
  std::map<std::uint64_t, guest> guests_;  // by number, oldest first
  std::uint64_t last_guest_ = 0;
  std::map<std::uint64_t, std::string> ended_rows_;                        // keys, by epoch
  std::unordered_map<base::id, std::uint64_t, base::id_hash> by_process_;  // its newest guest
  wire::frame_buffer frame_;
};

}  // namespace manta::inline v0::node
