// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>

#include "base/id_hash.hpp"

// Decides who is asked for a copy of what a lost node has made, and who gives it.
//
// Problem. Who reads something learns that its maker is lost. Another node may have all of it: it
// has read it. Nobody has a list of those: the counts of who has what were the maker's.
// Idea. All that can be reached are asked, once and at the same time. The first that has it is
// taken at once, whoever has not answered yet; the others that have it are kept in mind, for when
// that one does not give all. It is over when all have said no, or have had their time.
//
//   begin --asks--> members        yes: take it; further ones are spare
//     |                            failed: take the next spare one, or wait for who may say yes
//     '-- nobody can be asked      nobody is left: none
//
// Invariants: 1. Each member is asked once for a search. 2. Who was not asked, has answered, or is
// too late changes nothing. 3. One at a time is taken, and each once. 4. A search that is not over
// has one taken, or waits for somebody, until its time at most. Checked by
// test/own/copies_test.cpp against a model.
//
// How often. Who hears that nobody has it may try again, and again; that nobody has it is known
// for `none_for`, in which nobody is asked. A copy is not made of nothing: what was only just being
// fetched in another node then is found after that.
//
// Pure: time is given. Threads: one at a time.

namespace manta::inline v0::own {

struct search_limits {
  /// How long a member may take to answer.
  duration answer_limit = std::chrono::seconds(2);
  /// Members that are asked, for one search.
  std::size_t most_asked = 1024;
  /// How long it is known that nobody has a copy.
  duration none_for = std::chrono::seconds(1);
  /// Of how many that is known.
  std::size_t most_known = 1024;
};

/// What comes next for a search.
struct copy_step {
  enum class kind : std::uint8_t {
    waits,  ///< nothing for now
    take,   ///< that member is to give it
    none    ///< nobody has it; the search is over, and forgotten
  };
  kind is = kind::waits;
  std::uint64_t member = 0;

  friend bool operator==(const copy_step&, const copy_step&) = default;
};

class copies {
 public:
  using search = std::uint64_t;  ///< a number that is never used again
  using member = std::uint64_t;
  using steps = std::vector<std::pair<search, copy_step>>;

  explicit copies(search_limits with = {}) : with_(with) {}

  /// For a copy of that: who is to be asked, of those that can be. Nobody: there is none, and no
  /// search.
  std::vector<member> begin(search number, const base::id& of, std::span<const member> among,
                            base::time_point now);
  copy_step answered(search number, member by, bool has_it, base::time_point now);
  /// Who was taken has not given all of it.
  copy_step failed(search number, base::time_point now);
  /// It is here, or nobody wants it any more.
  void over(search number) noexcept;
  /// Nobody wants any, and nothing is known any more.
  void clear() noexcept;
  /// It can't be reached any more: it does not answer.
  steps gone(member one, base::time_point now);
  /// Those whose time is over.
  steps look(base::time_point now);
  /// When to look next, if ever.
  base::deadline due() const;

  std::size_t size() const noexcept { return all_.size(); }

 private:
  struct state {
    base::id of = {};
    std::set<member> asked = {};    // and they have not answered
    std::deque<member> spare = {};  // they have it
    member taken = 0;               // 0: none
    base::time_point until{};       // then nobody is waited for
  };
  using searches = std::map<search, state>;

  copy_step next(searches::iterator of, base::time_point now);
  bool is_known_none(const base::id& of, base::time_point now) noexcept;
  void note_none(const base::id& of, base::time_point now) noexcept;

  const search_limits with_;
  searches all_;
  std::unordered_map<base::id, base::time_point, base::id_hash> none_;  // until then
  std::deque<std::pair<base::time_point, base::id>> none_in_order_;
};

}  // namespace manta::inline v0::own
