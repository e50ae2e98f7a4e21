// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include <manta/base/clock.hpp>

// How long bytes take from one node to another, by what transfers took.
//
// Problem. Whether a task goes to another node, and to which one, is a matter of how long its data
// takes to come there. Machines have anything from a path of 1 MB/s to their own memory between
// them, and nobody tells.
// Idea. Who fetches an array measures: for each node, the bytes that came from it while some were
// under way, several at once or one (arrivals). What was measured goes into an average for each
// link (link_paces), here and, by a message, at the other end. Newer samples count more, and so do
// larger ones, which have less of what has nothing to do with bytes: a connection that is made, a
// thread that woke late.
//
// Who stays away from a link for what it took would never hear that it has become faster. So what
// is not seen again is forgotten: in a minute half of the way back to what is taken of a link of
// which nothing is known, in orders of magnitude.
//
// Of two other nodes nobody here has measured anything: their link is taken to be as slow as the
// slower one of the links between this node and either.
//
// What is mapped costs nothing, is not fetched, and is not measured.
//
// Pure: time is given. Threads: externally synchronised.

namespace manta::inline v0::sched {

/// What a byte takes on its way.
struct byte_pace {
  double ns = 1;  ///< of a link of which nothing is known: what one machine does with ease

  friend bool operator==(const byte_pace&, const byte_pace&) = default;
};

/// How long so many bytes take; not so long that the sum of two were out of range.
duration time_to_move(std::uint64_t bytes, byte_pace pace = {}) noexcept;

/// Bytes of several sources, one after the other.
class moved_bytes {
 public:
  void add(std::uint64_t bytes, byte_pace pace = {}) noexcept;
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// Of all of them.
  byte_pace pace() const noexcept;

 private:
  std::uint64_t bytes_ = 0;
  double ns_ = 0;
};

/// What came, and how long that took.
struct transfer {
  std::uint64_t bytes = 0;
  duration took{0};
};
/// Fewer say more of all else than of the link.
inline constexpr std::uint64_t least_telling = std::uint64_t{256} << 10U;
/// Whether it says something of a link; false, also, of what can't be.
bool is_telling(const transfer& what) noexcept;

/// Whether a message of so many bytes tells, by when its answer comes: what is shorter takes as
/// long as that, which waits for company.
bool is_telling_message(std::uint64_t bytes) noexcept;
/// Whether it is so short that nobody looks which link it goes by: most are.
bool is_short_message(std::uint64_t bytes) noexcept;

/// Measures what comes, by the node that it comes from; or what goes, by the one that it goes to.
class arrivals {
 public:
  /// Something is fetched from there from now on. Throws std::bad_alloc.
  void begins(std::uint64_t node, base::time_point now);
  /// What came until now, and how long that took, is left out.
  void begins_again(std::uint64_t node, base::time_point now) noexcept;
  /// Some of it has come, as what is measured until now says if it tells.
  std::optional<transfer> came(std::uint64_t node, std::uint64_t bytes,
                               base::time_point now) noexcept;
  /// It is fetched no more: it is here, or is not to be had.
  std::optional<transfer> ends(std::uint64_t node, base::time_point now) noexcept;
  /// Nothing is fetched from there any more.
  void forget(std::uint64_t node) noexcept { all_.erase(node); }
  void clear() noexcept { all_.clear(); }

 private:
  struct one {
    std::size_t under_way = 0;
    base::time_point since{};
    std::uint64_t bytes = 0;
  };
  std::map<std::uint64_t, one> all_;  // of nodes from which something is under way
};

/// From one node to another; 0 is this one.
struct link {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  auto operator<=>(const link&) const = default;
};

class link_paces {
 public:
  /// What does not tell changes nothing. Throws std::bad_alloc.
  void saw(const link& on, const transfer& what, base::time_point now);
  byte_pace of(const link& which, base::time_point now) const noexcept;
  /// Nothing is known of its links any more.
  void lost(std::uint64_t node) noexcept;
  void clear() noexcept { all_.clear(); }
  bool is_empty() const noexcept { return all_.empty(); }

 private:
  struct seen {
    double ns = byte_pace{}.ns;  // at that time
    base::time_point at{};
  };
  const seen* find(const link& which) const noexcept;
  byte_pace between(std::uint64_t a, std::uint64_t b, base::time_point now) const noexcept;

  std::map<link, seen> all_;
};

}  // namespace manta::inline v0::sched
