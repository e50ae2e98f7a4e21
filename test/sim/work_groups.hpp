// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/chance.hpp"
#include "node/bookings.hpp"
#include "sched/group_steps.hpp"
#include "sim/work_books.hpp"
#include "sim/work_home.hpp"
#include "wire/message.hpp"
#include "wire/views.hpp"

namespace sim::work {

/// A node's placement groups, whose bundles may lie in others, and those of others' that lie here.
/// Their steps are sched::group_steps', as in node/desk_groups.cpp; here is what follows from them.
class groups {
 public:
  groups(home& of, books& with);

  // The workload's.
  void make(const std::vector<std::int64_t>& cpus, manta::strategy how);
  void remove_one();
  void remove_all();
  std::size_t open() const { return formings_.size(); }

  void hear(node_number from, const manta::wire::ask_view& said);
  /// That node is lost: what it was asked for comes back, and what lies here for it. Then what lies
  /// there is lost; then what can have no place any more ends.
  void gone(node_number who);
  void lose_bundles(node_number who);
  void give_up_hopeless();
  std::string left() const;

 private:
  using act = manta::node::booking_act;
  struct forming {
    sched::group* of = nullptr;
    std::unique_ptr<sched::request> by;
    bool is_whole = false;
    bool is_through = false;
    std::uint64_t own = 0;  // set aside here, as the log has it
  };
  struct guest {
    sched::group_id here = 0;
    std::uint64_t group = 0;
    std::uint64_t amount = 0;
  };

  void granted(sched::request& one);
  void follow(const sched::group_steps::outcome& from);
  void settle();
  void send_letters();
  void begin_rests();
  void say(node_number to, act what, const manta::node::booking_note& note);
  void try_again(sched::group_id id);
  void remove(forming& f, ending how);
  void note_turns();
  void note_own();
  void note_placed();
  bool book(node_number maker, const manta::node::booking_note& asked);
  void booked(node_number from, const manta::node::booking_note& said);
  void drop_guest(node_number maker, std::uint64_t number);

  home& of_;
  books& books_;
  std::map<sched::group_id, forming> formings_;
  std::map<std::pair<node_number, std::uint64_t>, guest> guests_;
  sched::group_steps steps_;
  manta::base::chance chance_;
  manta::wire::message_writer writer_;
};

}  // namespace sim::work
