// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>

#include "base/id_hash.hpp"
#include "life/membership.hpp"
#include "spec/cluster.hpp"

// The head's part of membership.hpp: who is a member.
//
// Idea. A member's row is written before its epoch is told, and before its end is: actions come in
// that order, and on_written says that a row is on the disk. Whatever changes gets the next
// revision, and goes to all members at once; who missed it says so with its next heartbeat. What
// was sent since the heartbeat before that is taken to be under way, and not sent again.
//
//   (unknown) -> joining -> alive <-> suspected -> ending -> ended
//                written     \--- draining ---/    written
//
// A head that did not get to look for a while (its machine was stopped) has heard nobody meanwhile
// and blames nobody: that time does not count, and who lost its connection in it gets as long again
// to make another one.
//
// Loads have revisions of their own. They travel with the answers to heartbeats, never by
// themselves, and each member's own is told the less often the more members there are.
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

  /// `known`: the rows, also of those that have ended: a process that has ended in the head's last
  /// life, and never knew that it was a member, must not become one. `last_epoch`: of that life.
  roll(const membership_settings& with, std::vector<spec::node_member> known,
       std::uint64_t last_epoch, base::time_point now);

  /// What comes from that process comes over a new connection, on which nothing is under way.
  void on_connected(const base::id& process);
  void on_heartbeat(const heartbeat& came, base::time_point now);
  /// Who looks and is no member is told what has changed since it last looked.
  void on_look(const heartbeat& came);
  /// The work is done: all members end, each as soon as its row says so, and nobody joins. Who has
  /// just lost its connection ends when it is back.
  void dissolve(const std::string& why);
  /// The connection over which a process spoke has been closed, and there is no newer one.
  void on_closed(const base::id& process, base::time_point now, closing how = {});
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
  /// Whether that process is one of them.
  bool has(const base::id& process) const;

 private:
  struct entry {
    spec::node_member is;
    enum class stage : std::uint8_t { joining, in, ending, ended } at = stage::in;
    base::time_point heard{};
    base::time_point spoke{};         // truly, to this life of the head
    base::time_point closed{};        // until when it may come back; zero: it is connected
    std::uint64_t revision = 0;       // of its last change; 0: none that others hear of
    std::uint64_t load_revision = 0;  // of its load
    base::time_point load_at{};       // when others were last told of that
    std::uint64_t seen = 0;           // what it has said to have seen
    std::uint64_t told = 0;           // what was sent to it
    std::uint64_t marked = 0;         // of that: before the last heartbeat, and when that was
    base::time_point marked_at{};
    std::string cause = {};  // of the end that is being written
  };
  using entries = std::unordered_map<std::uint64_t, entry>;  // by epoch
  using revisions = std::map<std::uint64_t, std::uint64_t>;  // epochs

  bool has_name(const heartbeat& came);
  bool is_taken(const heartbeat& came, base::time_point now);
  bool is_other_program(const heartbeat& came);
  void admit(const heartbeat& came, base::time_point now);
  void hear(entry& from, const heartbeat& came, base::time_point now);
  void see(entry& of, const heartbeat& came, base::time_point now);
  void take_load(entry& of, const spec::node_load& load, base::time_point now);
  void say(const base::id& process, spec::node_verdict verdict, std::string reason);
  void say_ended(const base::id& process, std::uint64_t epoch, std::string reason);
  void end(entry& of, std::string cause);
  void write_end(const entry& of);
  void change(entry& of);
  void open(base::time_point now);
  void wake(base::time_point now);
  void connect(entry& of);
  void forget_name(const entry& of);
  duration news_gap() const noexcept;
  bulletin news_for(entry& whom);
  std::vector<spec::node_member> changes_since(std::uint64_t revision) const;
  void tell_all(base::time_point now);
  void forget_oldest();
  entry* find(const base::id& process) noexcept;
  bool has_host() const;
  void put_off(const heartbeat& came);
  void drop_early(const base::id& process);
  void admit_early(base::time_point now);
  std::uint64_t write_row(const spec::node_member& row);
  void look(base::time_point now);
  void look_at(entry& of, base::time_point now);
  void end_closed(base::time_point now);

  const membership_settings with_;
  std::uint64_t last_epoch_;
  std::uint64_t head_epoch_;
  std::uint64_t revision_ = 1;
  std::uint64_t told_ = 1;  // the revision that all members were sent, and when
  base::time_point told_at_{};
  bool is_open_ = false;        // the head's own epoch is on the disk
  std::string dissolved_ = {};  // why, when it is
  base::time_point looked_;
  std::uint64_t last_ticket_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> by_ticket_;  // epochs
  entries all_;
  std::map<std::uint64_t, entry*> living_;  // of these, by epoch: those that have not ended
  std::unordered_map<base::id, std::uint64_t, base::id_hash> by_process_;
  std::unordered_map<std::string, std::uint64_t> by_name_;  // those that have not ended
  revisions by_revision_;
  revisions by_load_;
  std::uint64_t load_revision_ = 0;
  std::deque<std::uint64_t> ended_;  // epochs, oldest first
  std::uint64_t forgotten_ = 0;      // the last revision of those gone since
  std::unordered_map<base::id, base::time_point, base::id_hash> waiting_;  // for a name, since when
  std::vector<heartbeat> early_;                                 // of who asked before the host did
  std::set<std::pair<base::time_point, std::uint64_t>> closed_;  // until when, epochs
  base::time_point lenient_until_{};                             // to who closed: it was stopped
  std::vector<std::uint64_t> unwritten_;                         // ends that the disk refused
  std::vector<action> actions_;
};

}  // namespace manta::inline v0::life
