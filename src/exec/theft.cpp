// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/theft.hpp>

#include <new>

#include <manta/exec/context.hpp>
#include <manta/exec/executor.hpp>
#include <manta/spec/error.hpp>

namespace manta::inline v0::exec {

constinit std::atomic<far_thief*> thief_from_afar{nullptr};
constinit std::atomic<far_thief*> thief_of_all{nullptr};

queued_work measure_queues() noexcept {
  queued_work out;
  executor::each_queue([&](const work_queue& one) {
    const std::int64_t size = one.jobs.size();
    if (size > 0) out.queued += static_cast<std::uint64_t>(size);
    out.ran += one.counters.run.load(std::memory_order_relaxed);
  });
  return out;
}

std::size_t take_queued(deque::loot& into) noexcept {
  work_queue* longest = nullptr;
  std::int64_t most = 0;
  executor::each_queue([&](work_queue& one) {
    const std::int64_t size = one.jobs.size();
    if (&one == this_thread.queue || size <= most) return;
    most = size;
    longest = &one;
  });
  // What was put back may be all that there is.
  if (longest == nullptr) longest = this_thread.queue;
  bool lost = false;
  return longest->jobs.steal(into, lost);
}

void submit_again(job* j) noexcept {
  try {
    this_thread.queue->jobs.push(j);
    executor::notify();
  } catch (const std::bad_alloc&) {
    j->ops->cancel(j, error::out_of_memory());
  } catch (...) {
    // No thread could be started: a worker that runs will come to it.
  }
}

}  // namespace manta::inline v0::exec
