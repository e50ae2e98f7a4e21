// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "sim/work_books.hpp"
#include "sim/work_calls.hpp"
#include "sim/work_groups.hpp"
#include "sim/work_handles.hpp"
#include "sim/work_home.hpp"
#include "sim/work_tasks.hpp"
#include "wire/frame.hpp"

namespace sim::work {

/// A node, with its part of the workload. What names a member of which it has not heard yet waits,
/// and behind it what the same node says next (node/early_messages.hpp). Results are read some time
/// after they have come, by another thread than the loop's, which ends what is lost behind them
/// (trade::land).
class node {
 public:
  /// `others`: who lived when it joined.
  node(stage& in, node_number self, const std::set<node_number>& others);
  ~node();
  node(const node&) = delete;
  node& operator=(const node&) = delete;

  void joined(node_number who);
  void gone(node_number who);
  void stop() { of_.mail.timer.stop(); }
  bool is_stopped() const { return of_.mail.timer.is_stopped(); }
  void go_on();
  /// Nothing new is begun.
  void be_quiet() { is_quiet_ = true; }
  void let_go();
  /// A task for all that it has.
  void probe();
  std::string left() const;

 private:
  struct letter {
    id request;
    manta::wire::frame_buffer message;
    node_number from = 0;
    handles::arrivals came = {};
  };
  void on_message(node_number from, const id& request, std::span<const std::byte> message);
  bool is_clear(const id& request, std::span<const std::byte> message);
  void hear(node_number from, const id& request, std::span<const std::byte> message);
  static letter kept(const id& request, std::span<const std::byte> message);
  void land_soon();
  void land();
  void lose_offer(node_number who);
  void hand_out(const letter& one);
  void work();
  void act();
  void start_task();
  void start_burst(tasks::wish asked);
  void make_group();
  std::vector<id> some_things(std::size_t most);

  home of_;
  handles handles_;
  books books_;
  tasks tasks_;
  groups groups_;
  calls calls_;
  manta::wire::message_reader reader_;
  std::set<node_number> others_;
  node_number newest_;
  std::map<node_number, std::deque<letter>> early_;
  std::deque<letter> landed_;      // results
  std::vector<node_number> lost_;  // likewise
  bool has_looker_ = false;
  bool is_quiet_ = false;
};

}  // namespace sim::work
