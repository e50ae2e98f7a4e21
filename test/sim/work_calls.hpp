// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/work_handles.hpp"
#include "sim/work_home.hpp"
#include "wire/views.hpp"

namespace sim::work {

/// The calls of a node's actors, of which each node has one, and those to it, as
/// node/resident_actors.cpp and node/far_actors_calls.cpp have them: what comes waits in one line
/// with one reader; what is open with a lost node has failed, and what that one asked for and has
/// not begun never does.
class calls {
 public:
  calls(home& of, handles& refs) : of_(of), refs_(refs) {}

  void call(std::uint64_t caller, node_number to, const std::vector<id>& things);
  std::size_t open() const { return open_.size(); }

  void hear_call(node_number from, const id& request, const manta::wire::call_view& said,
                 handles::arrivals came);
  void hear_result(node_number from, const id& request, const handles::arrivals& came);
  /// That node is lost: what it wanted, and then what it was to do.
  void drop(node_number who);
  void lose(node_number who);
  std::string left() const;

 private:
  struct one {
    node_number node = 0;  // the actor's, or the caller's
    std::uint64_t caller = 0;
    std::uint64_t number = 0;
    std::uint64_t request = 0;
    handles::arrivals came = {};
  };
  void send(const one& call, const std::vector<id>& things);
  void read_soon();
  void read_next(std::size_t at);

  home& of_;
  handles& refs_;
  std::map<std::pair<std::uint64_t, node_number>, std::uint64_t> last_;  // by caller and actor
  std::map<std::uint64_t, one> open_;
  std::deque<one> line_;
  bool has_reader_ = false;
};

}  // namespace sim::work
