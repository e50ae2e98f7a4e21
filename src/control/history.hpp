// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "control/store.hpp"

// The last changes of a store, and who watches them.
//
// Problem. A watcher may be slow, or gone for a while and back with the revision it had; the writer
// waits for nobody, and memory has a limit.
//
// Idea. One list of batches for all, as they were committed and not copied, the oldest dropped at
// the limit; a watcher is a place in it. Places are numbers of changes, which only grow, so who
// stands before the list's begin knows that it missed something, whatever is dropped.
//
//     number      | 41 42 43 | 44 45 | 46 | 47 48 |
//                   dropped    kept             ^ end
//     watcher A at 45: has 4 to look at.  B at 42: has a gap.
//
// A bell rings once for a watcher that had taken all, at the first change with its prefix. A batch
// is drafted, which takes the memory, before the store applies it, and published afterwards, which
// can't fail.
//
// Invariants
//   1. kept batches have ascending revisions and numbers without holes, and the published ones are
//      all watched batches after revision `complete_after_`.
//   2. a watcher that is not `is_rung` has seen all changes with its prefix before the end, and
//      stands there: what others change makes no gap for it.
//
// Threads: any; one draft at a time, in the order of revisions. Cost of a batch: a comparison for
// each change and watcher.

namespace manta::inline v0::control {

struct watching;

class history {
 public:
  /// Whose bells to ring when no lock of the store is held.
  using bells = std::vector<std::shared_ptr<watching>>;

  /// Batches that are about to be applied; gone without a trace unless they are published.
  class draft {
   public:
    /// Throws std::bad_alloc.
    explicit draft(history& of);
    ~draft();
    draft(const draft&) = delete;
    draft& operator=(const draft&) = delete;
    /// Adds a batch; the changes stay where they are in memory until it is published. Throws
    /// std::bad_alloc, and has none of it then. What is not watched goes as it is published.
    void add(revision at, std::vector<change> changes, bool is_watched = true);
    /// They were applied: watchers see them. Once.
    bells publish() noexcept;

   private:
    friend class history;
    history& history_;
    bells whose_;  // has room for all watchers
    bool is_published_ = false;
  };

  /// `before`: the revision of a store that begins now.
  explicit history(revision before = 0, std::size_t most_events = limits::history_events,
                   std::size_t most_bytes = limits::history_bytes);
  ~history();
  history(const history&) = delete;
  history& operator=(const history&) = delete;

  /// The watcher must end before the history does.
  std::unique_ptr<watcher> watch(std::string prefix, revision from, std::function<void()> bell);
  static void ring(const bells& whose) noexcept;

 private:
  friend class history_watcher;

  struct told {
    revision at = 0;
    std::uint64_t first_number = 0;  // of its changes
    std::vector<change> changes;
    bool is_watched = true;
  };

  void forget_unwatched() noexcept;
  void trim() noexcept;
  void cut_back_to_published() noexcept;
  std::uint64_t end_of_kept() const noexcept;
  std::uint64_t published_after(revision from) const noexcept;
  taken take(watching& of, std::size_t most);
  void leave(const std::shared_ptr<watching>& who) noexcept;

  const std::size_t most_events_;
  const std::size_t most_bytes_;
  std::mutex mutex_;
  std::deque<told> kept_;
  std::size_t published_ = 0;  // of those kept; the rest is the draft
  std::size_t kept_bytes_ = 0;
  std::uint64_t first_number_ = 0;  // of the oldest kept change
  std::uint64_t end_number_ = 0;    // behind the last published one
  revision complete_after_;
  std::vector<std::shared_ptr<watching>> watchers_;
  draft* open_ = nullptr;
};

}  // namespace manta::inline v0::control
