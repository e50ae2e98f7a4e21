// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>

#include "life/membership.hpp"
#include "spec/cluster.hpp"

// The head's part of membership.hpp: who is a member.
//
// Idea. A member's row is written before its epoch is told, and before its end is: actions come in
// that order, and on_written says that a row is on the disk. Whatever changes gets the next
// revision, and goes to all members at once; who missed it says so with its next heartbeat.
//
//   (unknown) -> joining -> alive <-> suspected -> ending -> ended
//                written     \--- draining ---/    written
//
// A head that did not get to look for a while (its machine was stopped) has heard nobody meanwhile
// and blames nobody: that time does not count.
//
// Limits: settings.most_members live; of those that ended the last most_ended are known by their
// names, and all others are as unknown processes with an epoch, which have ended, too.

namespace manta::inline v0::life {

class roll {
 public:
  /// A row that has to be durable, and with it that no epoch up to last_epoch is free.
  struct write {
    std::uint64_t ticket = 0;
    std::uint64_t last_epoch = 0;
    bool has_member = true;  ///< false: the epoch alone
    spec::node_member member = {};
  };
  using action = std::variant<write, bulletin>;

  /// `known`: the rows of those that have not ended, `last_epoch`: of the head's last life.
  roll(const membership_settings& with, std::vector<spec::node_member> known,
       std::uint64_t last_epoch, base::time_point now);

  void on_heartbeat(const heartbeat& came, base::time_point now);
  /// The connection over which a process spoke has been closed, and there is no newer one.
  void on_closed(const base::id& process, base::time_point now);
  void on_written(std::uint64_t ticket, base::time_point now);
  /// Its row could not be written.
  void on_not_written(std::uint64_t ticket, const std::string& why, base::time_point now);
  /// At due(), and whenever else.
  void on_time(base::time_point now);
  base::time_point due() const noexcept;

  /// What is to be done, in this order.
  std::vector<action> take() { return std::exchange(actions_, {}); }

  /// Its epoch is on the disk: it hears and is heard.
  bool is_open() const noexcept { return is_open_; }
  std::uint64_t epoch() const noexcept { return head_epoch_; }
  std::uint64_t revision() const noexcept { return revision_; }
  /// Those that have not ended.
  std::vector<spec::node_member> members() const;

 private:
  struct entry {
    spec::node_member is;
    enum class stage : std::uint8_t { joining, in, ending, ended } at = stage::in;
    base::time_point heard{};
    base::time_point spoke{};    // truly, to this life of the head
    base::time_point closed{};   // zero: it is connected, as far as is known
    std::uint64_t revision = 0;  // of its last change; 0: none that others hear of
    std::uint64_t told = 0;      // what was sent to it
    std::string cause = {};      // of the end that is being written
    bool is_unwritten = false;   // that: the disk refused it
  };
  using entries = std::unordered_map<std::uint64_t, entry>;  // by epoch

  bool is_taken(const heartbeat& came, base::time_point now);
  void admit(const heartbeat& came, base::time_point now);
  void hear(entry& from, const heartbeat& came, base::time_point now);
  void refuse(const base::id& process, std::string reason);
  void say_ended(const base::id& process, std::uint64_t epoch, std::string reason);
  void end(entry& of, std::string cause);
  void write_end(const entry& of);
  void change(entry& of);
  void tell(entry& whom);
  void tell_all(base::time_point now);
  void forget_oldest();
  entry* find(const base::id& process) noexcept;
  std::uint64_t write_row(const spec::node_member& row);
  void look_at(entry& of, base::time_point now);

  const membership_settings with_;
  std::uint64_t last_epoch_;
  std::uint64_t head_epoch_;
  std::uint64_t revision_ = 1;
  std::uint64_t told_ = 1;  // the revision that all members were sent, and when
  base::time_point told_at_{};
  bool is_open_ = false;  // the head's own epoch is on the disk
  base::time_point looked_;
  std::uint64_t last_ticket_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> by_ticket_;  // epochs
  entries all_;
  std::unordered_map<base::id, std::uint64_t, id_hash> by_process_;
  std::unordered_map<std::string, std::uint64_t> by_name_;  // those that have not ended
  std::map<std::uint64_t, std::uint64_t> by_revision_;      // epochs
  std::deque<std::uint64_t> ended_;                         // epochs, oldest first
  std::uint64_t forgotten_ = 0;                             // the last revision of those gone since
  std::unordered_map<base::id, base::time_point, id_hash> waiting_;  // for a name, since when
  std::size_t closed_ = 0;  // entries with a closed connection
  std::vector<action> actions_;
};

}  // namespace manta::inline v0::life
