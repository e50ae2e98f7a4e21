// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <manta/base/id.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/exec/job.hpp>
#include <manta/spec/parcel.hpp>

#include "node/array_names.hpp"
#include "node/workbench.hpp"
#include "wire/frame.hpp"

// A task that an isolated worker asked for: its node owns it, and never looks into its values. The
// job has the message it came in, which goes on to who runs it, and then the message of its result,
// which goes back to who asked.

namespace manta::inline v0::node {

/// A message that is kept, and with it the actors and the arrays whose handles it has.
class kept_message {
 public:
  /// The arrays are held by somebody meanwhile. Throws std::bad_alloc.
  kept_message(std::span<const std::byte> frame, std::span<const spec::reference> handles);
  ~kept_message();
  kept_message(const kept_message&) = delete;
  kept_message& operator=(const kept_message&) = delete;
  const wire::frame_buffer& frame() const noexcept { return frame_; }
  /// Actors and arrays.
  const std::vector<base::id>& handles() const noexcept { return held_; }

 private:
  wire::frame_buffer frame_;
  std::vector<base::id> held_;
  std::vector<placed_block*> arrays_;  // of these, with holds
};

struct passed_job : exec::job {
  union {
    std::unique_ptr<kept_message> result;  ///< the slot
    void* other;
  };
  struct ending : exec::waiter {
    passed_job* of = nullptr;
  } answer;  ///< fires when it has ended
  std::unique_ptr<kept_message> task;
  exec::actor_core* actor = nullptr;  ///< of a call, of which caller made it, or a construction
  std::uint64_t caller = 0;
  base::id id;                ///< the task's own; that of the job is not its function's
  std::uint64_t worker = 0;   ///< who asked, by its unique number
  std::uint64_t request = 0;  ///< the worker's own number of the call
  // Of a generator: items that came, and how many may; what the reader allows, 0: what the message
  // of the call says. The rest under the pool's mutex.
  std::uint64_t came = 0;
  std::uint64_t allowed = 0;
  std::atomic<std::uint32_t> credits{0};

  explicit passed_job(const exec::job_ops* kind) noexcept;
  ~passed_job() {}  // the slot is emptied by job::destroy

  static const exec::job_ops ops;
  static const exec::job_ops call_ops;
  static const exec::job_ops spawn_ops;
  /// What a worker has itself, and sends the result of.
  static const exec::job_ops owed_ops;
  static passed_job* self(exec::job* j) noexcept { return static_cast<passed_job*>(j); }
};

inline bool is_passed(const exec::job* j) noexcept {
  return j->ops == &passed_job::ops || j->ops == &passed_job::call_ops ||
         j->ops == &passed_job::spawn_ops;
}

inline bool is_passed_task(const exec::job* j) noexcept { return j->ops == &passed_job::ops; }
inline bool is_passed_call(const exec::job* j) noexcept { return j->ops == &passed_job::call_ops; }
inline bool is_passed_spawn(const exec::job* j) noexcept {
  return j->ops == &passed_job::spawn_ops;
}

/// Nobody runs it, and it is none of those.
inline bool is_owed(const exec::job* j) noexcept { return j->ops == &passed_job::owed_ops; }
/// Claimed, with two holds: one is for who fills it. Throws std::bad_alloc.
passed_job* make_owed();

/// The handles in a message that was read.
std::span<const spec::reference> handles_of(const wire::message_view& read) noexcept;

/// A job with two holds for the task, call or construction in `frame`, which was read as `arrived`.
/// Throws infeasible, invalid_argument, decode_failed, unknown_function, std::bad_alloc.
passed_job* make_passed(std::span<const std::byte> frame, const wire::message_view& arrived);

/// The gpus that were given to a task, or to the actor that a passed construction makes.
std::span<const int> gpus_of(const exec::job& j) noexcept;
/// The message of a passed task, under another request. Throws encode_failed, std::bad_alloc.
void write_passed(workbench& on, passed_job* j, const base::id& request);
/// The name of a passed task's function, for people; empty when it is not known.
std::string passed_name(const passed_job& j);
/// Keeps the message of its result in the slot; answers the bits to finish with.
std::uint64_t fill_passed(passed_job* j, std::span<const std::byte> frame,
                          const wire::result_view& arrived) noexcept;
/// The message of what it ended with, under the request of who asks.
void write_passed_result(workbench& on, passed_job* j, const base::id& request);
/// Fills the slot of a claimed job of the value's own type with what that one ended with; answers
/// the bits to finish with.
std::uint64_t fill_from_kept(exec::job* j, passed_job* ended) noexcept;

}  // namespace manta::inline v0::node
