// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include <manta/base/clock.hpp>
#include <manta/base/id.hpp>
#include <manta/node/array_block.hpp>

#include "base/id_hash.hpp"
#include "node/copy_cache.hpp"
#include "node/kept_copies.hpp"
#include "node/peers.hpp"
#include "own/copies.hpp"

// Copies of arrays whose makers are lost: who looks for one, and who has one for others.
//
// Problem. An array that stayed with its maker is lost with it, though other nodes have read it and
// have all of it still.
// Idea. A fetch (far_pulls.hpp) whose maker is lost asks the other nodes, as own/copies.hpp
// decides, and goes on with the one that has it, as from the maker. Who says that it has one keeps
// it from then on until nobody has asked for some of it for a while (kept_copies.hpp).
//
//   reader: fetch --maker is lost--> question {id, maker, contents, bytes} ~~~> all other nodes
//             ^                                                                  |
//             '-- its station <~~~ chunks ~~~ station -- kept <-- has it -- answer yes, or no
//
// A node has a copy as a block of another node's array that is here (far_pulls), one that was kept
// for the next call (copy_cache), one that lies in the lost node's memory, mapped here
// (far_arrays), or at rest in a value that nobody reads just now, be it on the disk. It is found by
// what all nodes call the array, or by what its maker called its contents.
//
// Nobody counts those copies, since their owner is gone: one lives as long as its own node has
// handles, values or a cache with it, and is kept here for others beside that.
//
// Limits: those of own/copies.hpp and own/copy_limits.hpp. What is beyond is found only while it is
// here anyway: who takes it then may find it gone.
//
// Threads: as said at each. The mutex is the last: nothing of others is called under it.

namespace manta::inline v0::node {

class resting_array;

/// What question::array_copy asks for; the answer is a bool.
struct copy_question {
  std::uint64_t high = 0;  // what all nodes call the array
  std::uint64_t low = 0;
  std::uint64_t owner = 0;
  std::uint64_t contents = 0;
  std::uint64_t bytes = 0;

  base::id id() const noexcept { return {high, low}; }
  copy_cache::key key() const noexcept { return {owner, contents, bytes}; }
};

class far_copies {
 public:
  static far_copies& global();

  // Any thread, without far_pulls' mutex.
  /// Looks for one for that fetch, which hears of it: far_pulls::fetch_of, far_pulls::no_copy.
  void seek(peers& by, std::uint64_t number, const copy_question& of) noexcept;
  /// Whom that fetch had found has not given all of it.
  void failed(std::uint64_t number) noexcept;
  /// It has ended.
  void over(std::uint64_t number) noexcept;
  /// One that is kept for others, with a hold; null: it is not.
  array_block* kept(const base::id& id) noexcept;
  /// The array of that name is here from now on, as this, which says when it ends.
  void rests(const base::id& id, resting_array& as) noexcept;
  /// By one that ends.
  void left(const resting_array& one) noexcept;

  // The loop's thread.
  void on_question(peers& by, std::uint64_t from, std::uint64_t number, const copy_question& what);
  void on_answer(std::uint64_t from, std::uint64_t number,
                 std::span<const std::byte> message) noexcept;
  /// It is lost, or can't be reached.
  void gone(std::uint64_t node) noexcept;
  /// When to be called next, if ever.
  base::deadline turn(base::time_point now) noexcept;
  void begin() noexcept;
  /// The runtime's end: nothing is kept any more.
  void close() noexcept;

 private:
  struct found_copy {
    array_block* block = nullptr;  // with a hold
    bool is_found_again = false;   // by its name, also if it is not kept
  };

  far_copies() = default;
  static void say(peers& by, std::uint64_t to, std::uint64_t number, bool has_it);
  /// Who wants an array that is woken.
  struct asker {
    peers* by = nullptr;
    std::uint64_t node = 0;  // 0: a fetch of this one, which has asked all others
    std::uint64_t number = 0;
    copy_question what;
  };
  static found_copy find(const copy_question& what) noexcept;
  resting_array* find_resting(const copy_question& what) noexcept;
  bool find_here(std::uint64_t number, const copy_question& of);
  void find_at_last(std::uint64_t number) noexcept;
  void ask_others(peers& by, std::uint64_t number, const copy_question& of) noexcept;
  void wake(const asker& who, resting_array* one);
  bool waits_for_others(const asker& who, bool& is_first);
  std::vector<asker> all_who_wait_for(const base::id& id) noexcept;
  void wake_for_all(const base::id& id, resting_array& one) noexcept;
  bool give(const asker& who, array_block* block);
  void refuse(const asker& who) noexcept;
  bool keep(const base::id& id, array_block& block) noexcept;
  static std::uint64_t most_kept() noexcept;
  void heard(std::uint64_t number, std::uint64_t from, bool has_it) noexcept;
  void perform(std::uint64_t number, own::copy_step what) noexcept;
  void perform(const own::copies::steps& all) noexcept;

  std::atomic<bool> has_any_{false};  // something that turn() may have to do
  kept_copies kept_;
  std::mutex mutex_;
  bool is_open_ = false;
  own::copies searches_;
  std::unordered_map<base::id, std::vector<asker>, base::id_hash> waking_;  // from the disk
  std::unordered_map<base::id, resting_array*, base::id_hash> resting_;     // no holds
};

}  // namespace manta::inline v0::node
