// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

// Decides which chunk of which object is asked of whom, over which connection.
//
// Problem. Objects come in chunks over several connections to several holders, of which any may
// end, lack a chunk or send a wrong one; each chunk is to come once, and none may be forgotten.
// Idea. A chunk is fresh (nobody was asked yet), missing once more, under way on one line, or here.
// A line has credits, and its answers come in the order of its asks; one that ends makes what was
// under way there missing again, and nothing else.
//
//   fresh --next--> under way --came--> here         all here: whole
//                    |     ^
//      closed, lacks |     | next
//       wrong, told  v     |
//                  missing again                     nobody can be asked: not_there, unreachable
//
// What came of an object that nobody gives any more is told with its end, and who finds another
// holder may add it again with that.
//
// A holder may tell of another one, a helper, which has the object too or is about to. While a pull
// has helpers they alone are asked; those that it was added with are for what helpers did not give.
// One that lacks a chunk, or sends a wrong one, is no holder of that pull any more.
//
// Invariants: 1. A chunk is under way on one line at most, and never again once it is here.
// 2. A line has at most `credits` asks under way. 3. A holder that lacks a chunk is not asked for
// it again in that pull. 4. Every pull ends once. 5. While a line has credits, no chunk waits that
// its holder could be asked for. Checked by test/bulk/plan_test.cpp against a model.
//
// Pure: no sockets, clock, thread or lock. Those that were added first are asked for first.

namespace manta::inline v0::bulk {

using pull_id = std::uint64_t;    ///< an object that is fetched
using holder_id = std::uint64_t;  ///< a process that may have it
using line_id = std::uint64_t;    ///< a connection to a holder

/// Some bytes of an object, asked for at once.
struct chunk_ask {
  line_id line = 0;
  pull_id pull = 0;
  std::uint64_t at = 0;
  std::uint32_t bytes = 0;

  friend bool operator==(const chunk_ask&, const chunk_ask&) = default;
};

enum class pull_end : std::uint8_t {
  whole,
  not_there,    ///< no holder has one of its chunks
  unreachable,  ///< no holder is left
  damaged       ///< a chunk came twice with bytes that are not its holder's
};

/// Which chunks of an object are here, one after the other; empty: none.
using chunks_here = std::vector<bool>;

struct ended_pull {
  pull_id pull = 0;
  pull_end how = pull_end::whole;
  chunks_here here = {};  ///< of one that is not whole
};

struct plan_limits {
  std::uint32_t chunk_bytes = std::uint32_t{4} << 20U;
  std::size_t credits = 2;  ///< asks under way on a line
};

class plan {
 public:
  explicit plan(plan_limits with = {}) : with_(with) {}

  /// One more object of so many bytes, of which those chunks have come before; of another number
  /// than it has, none have. Of no bytes, or all: it is whole at once.
  void add(pull_id pull, std::uint64_t bytes, std::span<const holder_id> holders,
           const chunks_here& here = {});
  /// Nobody wants it any more: it does not end, and what is under way comes for nothing.
  void drop(pull_id pull);
  void opened(line_id line, holder_id to);
  /// Takes memory only for what pulls are still to have.
  void closed(line_id line);
  /// It can't be reached, and has no lines any more.
  void lost(holder_id holder);

  // What has become of front(line).
  void came(line_id line);
  void lacks(line_id line);
  void wrong(line_id line);
  /// It was told to ask that one instead, a helper from now on; 0: that one is not to be asked.
  void told(line_id line, holder_id helper);

  /// The one whose answer comes next there; null: none is under way.
  const chunk_ask* front(line_id line) const;
  /// How many answers it waits for.
  std::size_t under_way(line_id line) const;
  /// What to ask for now; nothing: no more for the moment.
  std::optional<chunk_ask> next();
  std::optional<ended_pull> next_end();
  /// Whether there is something that this one may be asked for.
  bool needs(holder_id holder) const;
  bool has(pull_id pull) const { return pulls_.contains(pull); }
  /// Of how many holders it keeps that they may be asked for something.
  std::size_t wanted() const noexcept { return wanted_.size(); }
  /// Whether these bytes of it are all here; not: they may be in the middle of coming.
  bool is_here(pull_id pull, std::uint64_t at, std::uint64_t bytes) const;

 private:
  using chunk_set = std::set<std::uint64_t>;  // by where they begin
  struct pull_state {
    std::uint64_t bytes = 0;
    std::uint64_t fresh = 0;  // what begins here or behind has never been asked for
    std::uint64_t left = 0;   // bytes that are not here
    std::deque<std::uint64_t> again;
    std::map<holder_id, chunk_set> holders;  // and what each lacks
    chunk_set wrong;                         // came wrong once
    std::set<holder_id> helpers;             // of these holders
    chunks_here here;                        // by chunk
  };
  struct line_state {
    holder_id to = 0;
    std::deque<chunk_ask> under_way;
  };
  using pull_place = std::map<pull_id, pull_state>::iterator;

  std::uint32_t size_of(const pull_state& of, std::uint64_t at) const;
  void go_on_with(pull_state& of, const chunks_here& here) const;
  std::optional<std::uint64_t> pick(pull_state& of, holder_id holder) const;
  std::optional<chunk_ask> take_front(line_id line);
  static bool may_ask(const pull_state& of, holder_id whom);
  static bool somebody_has(const pull_state& of, std::uint64_t at);
  static bool is_all_had(const pull_state& of);
  void finish(pull_place which, pull_end how);
  void again_in_front(pull_place which, std::uint64_t at);
  void again_behind(pull_place which, std::uint64_t at);
  bool left_helper(pull_place which, holder_id by, std::uint64_t at);
  void note_wanted(pull_place which);
  void wants_no_more(holder_id of, pull_id pull);
  void forget(pull_place which);

  plan_limits with_;
  std::map<pull_id, pull_state> pulls_;
  std::map<line_id, line_state> lines_;
  // What next() looks through: lines with credits left, those with most of them first, and by
  // holder the pulls that may have something to ask of it. What has is there; what is there and has
  // not is taken out as it is found.
  std::set<std::pair<std::size_t, line_id>> free_;
  std::map<holder_id, std::set<pull_id>> wanted_;
  std::deque<ended_pull> ended_;
};

}  // namespace manta::inline v0::bulk
