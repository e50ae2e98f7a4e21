// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>

#include "base/id_hash.hpp"

// Decides who is told to fetch an object from another reader instead of from the process that has
// made it.
//
// Problem. What n processes read leaves its maker n times, and the n-th waits for all others.
// Idea. A reader has what has come to it so far, and can give that on. The maker gives its object
// to `fan_out` readers, and tells each later one of an earlier, which has as many below it at most:
//
//   maker -+- 1 -+- 3 --- 7          a tree, filled row by row in the order in which they came
//          |     '- 4
//          '- 2 -+- 5
//                '- 6
//
// A reader that has ended and has all of it stays where it is for a while, since it may give on
// what it has, and has room below it again. One whose connection closes is gone from here.
//
// Invariants: 1. Nobody is told of itself, or of one that waits for it, be it through others: whom
// one is told of has the object, or its own way up ends at one that has. 2. Below each reader are
// at most fan_out that read, and below the maker, unless nobody else may have them there. 3. Who is
// told of has a connection to this process, and has not said that it has nothing. 4. Each is told
// the same until it has ended. 5. At most `most` are known; others are given the object here.
// Checked by test/bulk/readers_test.cpp against a model.
//
// Pure: no sockets, clock, thread or lock. Threads: one at a time.

namespace manta::inline v0::bulk {

struct readers_limits {
  std::size_t fan_out = 2;
  /// How long one that has all of it is told of. What it has may be gone sooner: it says so then.
  duration told_for = std::chrono::seconds(5);
  std::size_t most = 4096;
};

class readers {
 public:
  explicit readers(readers_limits with = {}) : with_(with) {}

  /// Over that connection a reader asks for a part of an object. Whom it is to ask instead; 0: it
  /// is given it here. Throws std::bad_alloc.
  std::uint64_t ask(const base::id& object, std::uint64_t reader, std::uint64_t line,
                    base::time_point now);
  /// It reads that no more. Whether it has all of it; not: it has nothing.
  void ended(const base::id& object, std::uint64_t reader, bool has_it, base::time_point now);
  /// That connection is closed.
  void closed(std::uint64_t line);

  std::size_t size() const noexcept { return size_; }

 private:
  using place = std::uint64_t;  // in a tree, and never that of another one; 0: the maker
  struct entry {
    place at = 0;
    std::uint64_t reader = 0;
    std::uint64_t line = 0;
    place above = 0;
    std::size_t below = 0;  // of those that read
    bool is_reading = true;
    base::time_point until{};  // if not
  };
  using tree = std::vector<entry>;  // in the order in which they came
  using trees = std::unordered_map<base::id, tree, base::id_hash>;

  static entry* find(tree& in, place at);
  static bool leads_up(tree& in, const entry& from, place except);
  const entry* above_next(tree& in, place except) const;
  static void stop_reading(tree& in, entry& of);
  void take_out(trees::iterator in, std::size_t which);
  void take_line(const base::id& object, const entry& of);
  void forget_old(base::time_point now);

  readers_limits with_;
  place last_ = 0;
  std::size_t size_ = 0;
  trees all_;
  using known_place = std::pair<base::id, place>;
  std::unordered_map<std::uint64_t, std::vector<known_place>> by_line_;
  // Those that have all of it, and when that was to be forgotten; some read again by now.
  std::deque<std::pair<base::time_point, known_place>> old_;
};

}  // namespace manta::inline v0::bulk
