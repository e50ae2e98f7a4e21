// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>

#include <manta/base/clock.hpp>

#include "bulk/plan.hpp"

// Holders that could not be reached, and are not asked for a while.
//
// To find it out takes seconds where a firewall swallows what is sent, so a fetch that tries again
// pays with those; that a path is there again costs nobody much who goes another way meanwhile.
// Pure: time is given. Threads: externally synchronised.

namespace manta::inline v0::bulk {

class unreached {
 public:
  /// Some ten times what it takes to find out: where a path stays closed a fetch in a minute is
  /// slow, and where it opens the next ones are asked by messages for no longer than that.
  static constexpr duration not_asked_for = std::chrono::minutes(1);

  /// Throws std::bad_alloc: it is as before then.
  void note(holder_id one, base::time_point now) {
    until_[one] = now + not_asked_for;
    std::erase_if(until_, [now](const auto& of) { return of.second <= now; });
  }
  bool has(holder_id one, base::time_point now) const noexcept {
    const auto known = until_.find(one);
    return known != until_.end() && now < known->second;
  }
  void clear() noexcept { until_.clear(); }

 private:
  std::map<holder_id, base::time_point> until_;
};

}  // namespace manta::inline v0::bulk
