// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <manta/spec/parcel.hpp>

#include "own/references.hpp"
#include "sim/work_home.hpp"
#include "wire/views.hpp"

namespace sim::work {

/// A node's own::references, and what node/far_handles.cpp does around them: who is about to send a
/// handle lends it first, what comes counts at once, and what nobody has read by then is given
/// back. A thing goes with the last handle here, when none is lent.
class handles {
 public:
  explicit handles(home& of) : of_(of), refs_(of.self) {}

  // The workload's.
  id make();
  std::size_t held() const;
  /// One of those that it has; there are some.
  id any() const;
  void drop(const id& thing);
  void drop_all();
  /// One more, of a task's that has it as an argument; and that goes.
  void pin(const id& thing);
  void unpin(const id& thing);

  /// What came with one message, until that is read.
  struct arrival {
    id thing;
    bool is_counted = false;
  };
  using arrivals = std::vector<arrival>;
  arrivals came(node_number from, const id& request, std::span<const manta::spec::reference> all);
  /// It is read, and they are kept or not.
  void read(const arrivals& all, bool keeps);
  /// As the writer's message has them.
  static std::vector<manta::spec::reference> written(const std::vector<id>& things);
  /// Sends what the writer has, with these.
  void send(node_number to, id request, std::span<const manta::spec::reference> all);

  void hear(node_number from, const manta::wire::ask_view& said);
  void joined(node_number who) { refs_.joined(who); }
  void gone(node_number who);
  std::string left() const;

 private:
  struct holders {
    std::uint32_t kept = 0;
    std::uint32_t pinned = 0;
    std::uint32_t unread = 0;
    bool is_none() const { return kept + pinned + unread == 0; }
  };
  using note = manta::own::reference_note;
  struct before {
    bool operator()(const id& a, const id& b) const {
      return std::pair(a.high, a.low) < std::pair(b.high, b.low);
    }
  };
  void drop_one(const id& thing, std::uint32_t holders::*of);
  void let_go(const id& thing);
  void say();
  void tell(node_number to, const std::vector<note>& notes);
  bool change(node_number to, note& one);
  void free_if_unneeded(const id& thing);

  home& of_;
  manta::own::references refs_;
  std::map<id, holders, before> all_;
  manta::wire::message_writer writer_;
};

}  // namespace sim::work
