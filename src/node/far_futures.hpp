// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <manta/base/id.hpp>
#include <manta/exec/job.hpp>
#include <manta/exec/named_jobs.hpp>
#include <manta/node/carrier.hpp>
#include <manta/spec/error.hpp>

#include "base/id_hash.hpp"
#include "node/far_handles.hpp"
#include "node/peers.hpp"
#include "wire/views.hpp"

// Futures that go from node to node inside of values.
//
// Problem. A future may be read in any node, before or after its work has ended; the work and its
// value have to stay as long as anybody has it; and a value that nobody looks at should not travel.
// Idea. The node where a future was made owns it: it has the job, and a number for it. What goes is
// that name; own/references.hpp counts who has it (far_handles.hpp). Where it comes to there is an
// image, a cell without a value (exec/named_jobs.hpp); the first who waits for it, or looks whether
// it is there, asks the owner, which answers when it is.
//
//   owner: job <-- name ---- message with a future ~~~> image --who waits--> question
//           |                                            ^                      |
//           '-- when it is ready: its value -- peers ~~~~'  <~~~~ peers --------'
//
// A node has at most one image of each that takes handles. With the last handle here and the last
// message that is not read the owner is told, and drops the job.
//
// A lost owner takes its futures along: their images fail with node_lost.
//
// Rings. A task that returns another's future stands for it, and one that comes round would wait
// for itself (exec/delegation.hpp); across nodes nobody sees the whole of it. So where a job that
// other nodes know is made to stand for something elsewhere, a probe follows: each node looks where
// its own part leads, and passes it on. One that leads back to where it has begun has closed a
// ring, which is ended there. What is made last of a ring sees all others.
//
// Threads: any, but as said. The mutex comes before that of far_handles; no user's code is called
// under it.

namespace manta::inline v0::node {

class far_futures {
 public:
  static far_futures& global();

  /// While a runtime runs, until close.
  void open(peers& with) noexcept;
  /// Before the executor stops, and after that with `at_once`: what was asked for, or is from now
  /// on, ends with `ended_error` then.
  void call_back(bool at_once) noexcept;
  /// Nobody has anything of this node: who asks for it is told so.
  void close() noexcept;
  /// Others are not answered any more, since their peers are about to go.
  void stop_answering() noexcept;

  // Any thread.
  /// What all nodes call the job of a future that goes away; see id_tray.hpp for `on`. `type`: the
  /// hash of the future's type; `values`: how its values travel. Throws encode_failed,
  /// std::bad_alloc.
  far_name name(workbench& on, exec::job* j, std::uint64_t type, const carrier* values);
  /// It has been said, or never will be.
  void named(const base::id& id) noexcept;
  /// What came with the message that this thread reads; see borrow_future.
  exec::job* borrow(const base::id& id, std::uint64_t type, exec::job* (*make)());
  /// The job of this node with that name, with a hold; null: nobody has that.
  exec::job* job_of(const base::id& id) noexcept;
  /// No other node has them by now.
  void freed(const std::vector<base::id>& ids) noexcept;
  /// Has a worker drop a hold of each: with the last of a job a user's destructor may run.
  static void drop_soon(const std::vector<exec::job*>& all) noexcept;

  // What named_jobs.hpp asks; all but an image of here is ignored.
  void wanted(exec::job* j) noexcept;
  std::optional<bool> cancel(exec::job* j, const exec::far_cancel& how) noexcept;
  void delegates(const exec::job* from, exec::job* to) noexcept;
  bool taken(exec::job* j) noexcept;
  void gone(exec::job* j) noexcept;

  // On the loop's thread.
  void on_question(std::uint64_t from, std::uint64_t number, const peers::kept_message& message);
  // The looker's thread.
  void on_answer(std::uint64_t from, std::uint64_t number,
                 const peers::kept_message& message) noexcept;
  /// That node is lost, with all that it owns.
  void lose(std::uint64_t node, const std::string& why) noexcept;

 private:
  far_futures() = default;

  struct own {
    exec::job* job = nullptr;  // with a hold
    std::uint64_t type = 0;
    const carrier* values = nullptr;
    std::uint32_t naming = 0;  // messages that are being written with it
    std::uint32_t unit = 0;    // whose record it keeps: task_records.hpp
  };
  struct image {
    base::id id;
    std::uint64_t owner = 0;
    std::uint64_t type = 0;
    std::uint64_t number = 0;  // of the question for its value
    bool counts = false;       // among the holders here
    bool is_in_ring = false;   // it is to fail
  };
  struct asked {
    exec::job* job = nullptr;  // with a hold
    std::uint64_t node = 0;
  };
  struct cancelling;
  struct answer;
  using all_asked = std::unordered_map<std::uint64_t, asked>;

  std::optional<far_name> known_name(workbench& on, exec::job* j, std::uint64_t type);
  void end_images() noexcept;
  exec::job* take(const far_arrivals::one& came, std::uint64_t type, exec::job* (*make)());
  exec::job* make_image(const far_arrivals::one& came, std::uint64_t type, exec::job* (*make)());
  void ask(std::uint64_t number, std::uint64_t node, const base::id& id) noexcept;
  result<void> send(workbench& on, std::uint64_t to, std::uint64_t number,
                    const wire::ask_view& what);
  exec::job* take_asked(std::uint64_t number, std::uint64_t from) noexcept;
  all_asked take_all(std::uint64_t node) noexcept;
  void end_all(std::uint64_t node, const error& why) noexcept;
  static void fail(exec::job* image, const error& why) noexcept;
  own found(const base::id& id) noexcept;
  void value_asked(std::uint64_t from, std::uint64_t number, const base::id& id);
  void unlist(answer* one) noexcept;
  void say_value(const answer& of) noexcept;
  void refuse(std::uint64_t to, std::uint64_t number, const error& why) noexcept;
  void cancel_asked(std::uint64_t from, std::uint64_t number, const wire::ask_view& asked);

  // Rings: far_rings.cpp.
  enum class edge_kind : std::uint8_t { image, task, call };
  /// Where a job's outcome is made elsewhere.
  struct edge {
    edge_kind kind = edge_kind::image;
    std::uint64_t number = 0;  // this node's, of the question, the task or the call
  };
  struct way_out {
    edge by;
    std::uint64_t node = 0;
    base::id id;  // of an image
  };
  struct probe;
  bool is_known_elsewhere(const exec::job* j) const noexcept;
  way_out way_of(const exec::job* end) const noexcept;
  exec::job_ref job_about(std::uint64_t from, const probe& of) noexcept;
  void send_probe(const way_out& by, probe of);
  void follow(std::uint64_t from, const probe& of);
  void close_ring(const way_out& by) noexcept;
  void probed(std::uint64_t from, const wire::ask_view& asked);

  std::atomic<peers*> peers_{nullptr};
  std::atomic<bool> is_open_{false};
  std::atomic<std::uint64_t> last_{0};

  mutable std::mutex mutex_;
  std::unordered_map<base::id, own, base::id_hash> own_;
  std::unordered_map<const exec::job*, base::id> own_ids_;
  std::unordered_map<const exec::job*, image> images_;  // without holds
  std::unordered_map<base::id, exec::job*, base::id_hash> by_id_;
  all_asked asked_;
  std::unordered_set<answer*> waiting_;  // for what is not ready
  std::unordered_map<std::uint64_t, std::shared_ptr<cancelling>> cancelling_;
};

}  // namespace manta::inline v0::node
