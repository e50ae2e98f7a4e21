// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <manta/base/id.hpp>

#include "base/id_hash.hpp"
#include "bulk/guard.hpp"
#include "bulk/message.hpp"
#include "bulk/plan.hpp"
#include "bulk/reactor.hpp"
#include "bulk/station.hpp"

// The end that fetches objects: dials, asks as its plan says, and puts what comes where it belongs.
//
// A connection is made when somebody is to be asked, and closed when nobody was for a while. One
// that ends gives back what was under way there, and is made again; a holder that can't be reached
// so often that each of its places was tried, and gave nothing meanwhile, is lost.
//
// A helper is another reader of which a holder has told (readers.hpp). It has connections for one
// pull alone, and is done without from the first thing on that is not as it should be: one that it
// lacks or is slow with, one that is wrong, a connection that ends. The holder hears of a helper
// that has nothing, but not of one that is slow, and of each pull's end.
//
// A holder may be lost with its connections open: its machine stands still, or is cut off. Who
// hears so from elsewhere says it here, and nothing waits for a limit.
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
  /// Not by one of its connections.
  void lose(holder_id which);
  station_counts counts() const noexcept;
  /// Any thread.
  std::uint32_t chunk_bytes() const noexcept { return with_.chunks.chunk_bytes; }

  /// What it has for others of what it fetches.
  struct holding {
    bool is_fetched = false;
    std::optional<pinned_bytes> has = {};  ///< nothing: not yet
  };
  holding find(const request& asked) const;
  /// Called when a chunk of an object has come, or none does any more.
  void tell(std::function<void(const base::id& object)> of) { changed_ = std::move(of); }

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
    // Of a helper: for which pull, and what the holder that told of it knows it by.
    pull_id helps = 0;
    std::uint64_t reader = 0;
  };
  struct taking {
    order of;
    holder_id first = 0;   // of its holders, which alone tells of others; 0: it has none
    holder_id helper = 0;  // 0: none
    bool may_be_told = false;
    bool has_begun = false;    // some of it was asked for
    bool is_known = false;     // to the first holder
    std::size_t said_who = 0;  // asks that may be answered so, more or less
  };
  enum class fate : std::uint8_t { came, lacks, late, wrong };

  void settle(line_id by, fate is);
  void came(const chunk_ask& what, bool by_helper);
  void told(line_id by, std::uint64_t reader);
  bool has_room_for_helper() const;
  holder_id add_helper(pull_id number, const taking& one, std::uint64_t reader);
  enum class flaw : std::uint8_t { has_nothing, is_unreached, another };
  void leave_helper(holder_id which, flaw why);
  void ask(const chunk_ask& one);
  void over_with(const taking& one, bool has_it) noexcept;
  void note(const taking& one, std::uint64_t reader, bool has_it) noexcept;
  void close_soon(holder_id which);
  bool is_slow(const line& one, base::time_point now) const;
  duration greeting_limit_of(const line& one) const;
  void go_on();
  void ask_all();
  void tell_ended();
  void open_lines();
  void open_line(holder_id to, other& of);
  void opened(line_id one);
  void failed(holder_id at, std::size_t place, const std::string& why, bool was_there = false);
  void over(line_id which, const std::string& why);
  void look();
  void look_at(base::time_point when);
  duration between_looks() const noexcept;

  reactor& reactor_;
  const station_settings with_;
  plan plan_;
  std::map<pull_id, taking> orders_;
  std::unordered_map<base::id, pull_id, base::id_hash> by_object_;  // the last one of each
  std::function<void(const base::id&)> changed_;
  std::map<holder_id, other> others_;
  std::map<line_id, std::unique_ptr<line>> lines_;
  std::vector<std::byte> nowhere_;  // where bytes go that nobody wants any more
  std::string why_;                 // of the last holder that was lost
  line_id last_ = 0;
  holder_id last_helper_ = 0;
  station_counts counts_;
  reactor::timer looks_;
  base::time_point looks_at_{};
  bool is_looking_ = false;
  bool is_going_on_ = false;
};

}  // namespace manta::inline v0::bulk
