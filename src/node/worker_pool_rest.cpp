// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <mutex>

#include <manta/node/carrier.hpp>
#include <manta/spec/error.hpp>

#include "node/worker_hand.hpp"
#include "node/worker_pool.hpp"

// Calls whose awaited arguments have arrays that are not in memory: node/rest.hpp.
//
// Problem. They come back from a disk, and may have to wait until others give their room up; that
// is told by messages, so who hears those must not wait for it.
//
// Idea. A task keeps its place at the worker meanwhile, which holds the number of arrays that are
// brought back at a time down to what can run, and one thread of the node brings its arrays back
// and sends it. A call of an actor has to keep its order, so it is waited for where it is made; who
// made it, or what it waits for, has mostly just put them into memory.

namespace manta::inline v0::node {

// Of a flight that has begun and is not written.
void worker_pool::bring_back(const std::shared_ptr<hand>& to, exec::job* j, std::uint64_t number,
                             bool is_awaited) noexcept {
  try {
    restorer_->push([this, to, j, number, is_awaited] {
      try {
        carrier_of(j)->wake_arguments(j, true, 0);
      } catch (...) {
        fail_flight(*to, number, describe_current_exception(j->ops->function));
        dispatch();
        return;
      }
      if (send_to(to, j, number, is_awaited)) {
        to->down.bell();
      } else {
        dispatch();
      }
    });
  } catch (...) {
    fail_flight(*to, number, describe_current_exception(j->ops->function));
  }
}

// `at`: where it goes; null: nowhere yet.
void worker_pool::wake_here(hand* at, const carrier& by, exec::job* j) {
  if (by.wake_arguments == nullptr || by.wake_arguments(j, false, 0)) return;
  if (at != nullptr) {
    // The calls before it have room that it may need, and may wait for the last of them to ring.
    const std::lock_guard lock(mutex_);
    at->down.bell();
  }
  let_others_order();  // what gives room up may be one of the next messages
  by.wake_arguments(j, true, 0);
}

}  // namespace manta::inline v0::node
