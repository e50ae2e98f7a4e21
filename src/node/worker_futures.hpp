// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include <manta/base/id.hpp>
#include <manta/exec/job.hpp>
#include <manta/exec/named_jobs.hpp>
#include <manta/node/carrier.hpp>

#include "base/id_hash.hpp"
#include "node/actor_names.hpp"
#include "node/future_names.hpp"
#include "node/workbench.hpp"
#include "node/worker_questions.hpp"

// The futures of an isolated worker that other processes know, and those that came from there; the
// node's side, and what ids mean: future_names.hpp.
//
//   a future came:   cell without a value --who waits--> question --answer--> value
//                    last handle --> the node has the id back, as often as it came
//   a future goes:   what this worker asked the node for: by the number of its request
//                    what is its own: by a number, and the result follows when it is there
//
// The node may have answered a request when it hears that its future is known by a name: then it
// has no result any more, says so by its answer, and this worker sends the result, too.
//
// What a job here delegates to that others know is told the node, which looks for rings
// (exec/delegation.hpp). A call whose arguments are not there has no number yet: those that stand
// for it are told when it is sent.
//
// Threads: any. A lock of its own, under which nothing of others is called.

namespace manta::inline v0::node {

class worker_futures {
 public:
  /// That of this process; null: it is no worker.
  static worker_futures* here() noexcept;

  /// Who sends messages, gives ids back and knows requests: the worker.
  struct seat {
    std::uint64_t worker = 0;
    worker_questions* questions = nullptr;
    void* to = nullptr;
    void (*send)(void* to, workbench& on) noexcept = nullptr;
    void (*give_back)(void* to, const base::id& id, std::uint32_t n) noexcept = nullptr;
    /// The number by which the node is asked for a job's result; 0: it is not, or has answered.
    std::uint64_t (*request_of)(void* to, exec::job* j) noexcept = nullptr;
    /// Set before the first message with an id: such messages keep their order.
    std::atomic<std::uint32_t>* keeps_order = nullptr;
  };
  explicit worker_futures(const seat& at) noexcept;

  /// The id of a job whose future is about to leave; sends its result, or sees to that, when it is
  /// this worker's own. Throws std::bad_alloc.
  base::id name(exec::job* j, const carrier* values);
  /// The job of a future that came with the message that is being read (arrived_handles), with a
  /// hold; null: it did not. Throws std::bad_alloc.
  exec::job* borrow(const base::id& id, exec::job* (*make)());
  /// The answer to a request has come, and its job is ready; `is_known`: the node has the result.
  void answered(exec::job* j, bool is_known) noexcept;
  /// Whether the node has to be told of a call, which has just got its number, what stands for it;
  /// once. Its message goes first; `sent` comes behind that, with a hold.
  bool is_wished(exec::job* j) noexcept;
  void sent(exec::job* j, std::uint64_t request) noexcept;

 private:
  struct note {
    base::id id;
    const carrier* values = nullptr;
    std::uint32_t came = 1;  // times the node counts it for this worker
    bool is_asked = false;   // a request of this worker, not answered yet
    bool is_owed = false;    // its result is sent from here
  };
  struct owed;
  void owe(exec::job* j) noexcept;
  void send_result(exec::job* j, const carrier& values, const base::id& id) noexcept;
  void wanted(exec::job* j) noexcept;
  bool cancel(exec::job* j, const exec::far_cancel& how) noexcept;
  bool taken(exec::job* j) noexcept;
  void gone(exec::job* j) noexcept;
  void delegates(exec::job* from, exec::job* to) noexcept;
  base::id delegator(const exec::job* j) noexcept;
  void say(const delegation_note& said);
  std::uint64_t request_or_wish(exec::job* j);
  void tell_what_it_is(exec::job* j, const base::id& own);
  base::id id_of(const exec::job* j) noexcept;

  const seat at_;
  std::mutex mutex_;
  std::unordered_map<const exec::job*, note> by_job_;
  std::unordered_map<base::id, exec::job*, base::id_hash> by_id_;  // no holds
  std::uint64_t last_ = 0;
  std::unordered_set<const exec::job*> not_sent_;  // calls without a number, for is_wished
  std::atomic<bool> has_not_sent_{false};
};

}  // namespace manta::inline v0::node
