// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include <manta/base/id.hpp>
#include <manta/exec/job.hpp>
#include <manta/exec/named_jobs.hpp>
#include <manta/node/carrier.hpp>
#include <manta/spec/parcel.hpp>

#include "base/id_hash.hpp"
#include "node/actor_names.hpp"
#include "node/id_tray.hpp"

// Which future an id means at the node.
//
// Problem. A future inside of a value leaves its process as an id. Whoever reads that gets a handle
// to the same result; the work behind it has to stay as long as anybody has the id; and a result
// that nobody looks at should not travel.
//
// Idea. The node has a job for each id: one of its own, or the bytes of what runs or ran in a
// worker. It counts who has the id: for each worker how often it has sent the id there and not had
// it back, as with handles of actors, and each message that it keeps or is handling. With the last
// of them the job's hold goes. A worker asks for the result when somebody there waits for it
// (worker_futures.hpp). Where the node itself reads the id of bytes, an image of the job's type
// gets what these mean when they are there; it counts, too.
//
//   { mark,     a number of the node }                 a job of the node
//   { mark | w, a request of the worker w }            what w asked the node to run
//   { mark | w, own_mark | a number of the worker w }  what w has itself: it sends the result
//
// A worker's new id counts for it from the first message on. What it asked for is looked up among
// its requests; when that was answered already, w learns it from the answer (known_request) and
// sends the result, as it does with what is its own.
//
// Invariant: an id that is under way or known to a worker has its job here.
//
// Threads: any. A lock of its own, under which no user's code is called.

namespace manta::inline v0::node {

constexpr std::uint64_t future_mark = std::uint64_t{1} << 62U;
constexpr std::uint64_t own_future = std::uint64_t{1} << 62U;

/// The mark tells them from ids of actors and arrays, with which they share messages.
constexpr bool is_future(const base::id& id) noexcept {
  return (id.high & (future_mark | std::uint64_t{1} << 63U)) == future_mark;
}
/// The request of an answer to a worker whose future the node has a name for.
constexpr base::id known_request(std::uint64_t request) noexcept { return {future_mark, request}; }

/// question::future_value.
struct future_question {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
};
/// question::cancel_future; the answer is what manta::cancel says.
struct cancel_question {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool with_children = true;
  bool at_once = false;
};

/// question::delegation, which has no answer. Each is the id of a future, or a number with 0 before
/// it: of what the worker runs and of what it has asked for. No `to`: a call that has delegated, to
/// whatever, outlives its actor.
struct delegation_note {
  base::id from;
  base::id to;
};

class future_names {
 public:
  static future_names& global();

  /// The id of a job of this process, drawn when it has none; counts once more. `type`: the hash of
  /// the future's type; `values`: how its values travel. Throws std::bad_alloc.
  base::id name(exec::job* j, std::uint64_t type, const carrier* values);
  /// An id that a worker drew, for a job whose result is bytes; counts once. Takes a hold over.
  /// Throws std::bad_alloc, and then has taken nothing.
  void adopt(const base::id& id, exec::job* bytes, std::uint64_t type);
  /// Whether it is there, and of that type.
  bool has(const base::id& id, std::uint64_t type);

  void lend(const base::id& id, std::uint32_t n);
  void give_back(const base::id& id, std::uint32_t n) noexcept;

  /// What a handle of this process to it has; see borrow_future.
  exec::job* borrow(const base::id& id, std::uint64_t type, exec::job* (*make)());
  struct found {
    exec::job_ref job;
    const carrier* values = nullptr;  ///< null: its result is bytes
  };
  found find(const base::id& id);
  /// What an image of this process stands for.
  found behind(exec::job* image);
  /// See exec::named_jobs.
  bool taken(exec::job* image) noexcept;
  /// By an image that goes.
  void forget(exec::job* image) noexcept;
  /// An image has its value: when nobody else has the id, the bytes go.
  void filled(exec::job* image) noexcept;
  /// How many there are, for tests.
  std::size_t size();

 private:
  struct entry {
    exec::job* job = nullptr;  // with a hold
    std::uint64_t type = 0;    // 0: not known yet
    const carrier* values = nullptr;
    std::uint64_t count = 0;
    exec::job* image = nullptr;  // without; it is counted
  };
  using entries = std::unordered_map<base::id, entry, base::id_hash>;
  exec::job* take_if_over(entries::iterator at) noexcept;

  std::mutex mutex_;
  entries by_id_;
  std::unordered_map<const exec::job*, base::id> by_job_;
  std::uint64_t last_ = 0;
};

/// What the node does with its named jobs, also those of other nodes (far_futures.hpp).
const exec::named_jobs& names_of_node() noexcept;

/// Cancels the work of a named job, see manta::cancel. False: it had ended, or is nobody's work.
bool cancel_named(exec::job* j, bool with_children, bool at_once) noexcept;

/// Counts for handles of actors and for futures, whichever the id is of.
void lend_name(const base::id& id, std::uint32_t n);
void give_back_name(const base::id& id, std::uint32_t n);

}  // namespace manta::inline v0::node
