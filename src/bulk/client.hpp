// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bulk/plan.hpp"
#include "bulk/reactor.hpp"
#include "bulk/station.hpp"

// The end that fetches objects: dials, asks as its plan says, and puts what comes where it belongs.
//
// A connection is made when somebody is to be asked, and closed when nobody was for a while. One
// that ends gives back what was under way there, and is made again; a holder that can't be reached
// so often that each of its places was tried, and gave nothing meanwhile, is lost.
//
// Threads: the bulk thread only.

namespace manta::inline v0::bulk {

class client {
 public:
  client(reactor& at, const station_settings& with);
  client(const client&) = delete;
  client& operator=(const client&) = delete;
  ~client();

  void fetch(order one);
  void drop(pull_id number);
  station_counts counts() const noexcept;

 private:
  class line;
  struct other {
    base::id process = {};
    std::vector<place_of_holder> places;
    std::size_t place = 0;     // of these, counted on
    std::size_t lines = 0;     // also those that are not open yet
    std::size_t failures = 0;  // since something came
    base::time_point not_before{};
    std::string why;  // of the last failure
  };
  enum class fate : std::uint8_t { came, lacks, wrong };

  void settle(line_id by, fate is);
  void go_on();
  void ask_all();
  void tell_ended();
  void open_lines();
  void open_line(holder_id to, other& of);
  void opened(line_id one);
  void failed(holder_id at, std::size_t place, const std::string& why);
  void over(line_id which, const std::string& why);
  void look();
  void look_at(base::time_point when);
  duration between_looks() const noexcept;

  reactor& reactor_;
  const station_settings with_;
  plan plan_;
  std::map<pull_id, order> orders_;
  std::map<holder_id, other> others_;
  std::map<line_id, std::unique_ptr<line>> lines_;
  std::vector<std::byte> nowhere_;  // where bytes go that nobody wants any more
  std::string why_;                 // of the last holder that was lost
  line_id last_ = 0;
  station_counts counts_;
  reactor::timer looks_;
  base::time_point looks_at_{};
  bool is_looking_ = false;
  bool is_going_on_ = false;
};

}  // namespace manta::inline v0::bulk
