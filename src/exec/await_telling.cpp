// SPDX-License-Identifier: Apache-2.0
#include "await_telling.hpp"

#include <mutex>
#include <stop_token>

#include <fmt/format.h>

#include <manta/base/pause.hpp>
#include <manta/exec/cancellation.hpp>
#include <manta/exec/linked_list.hpp>
#include <manta/spec/error.hpp>

namespace manta::inline v0::exec {

namespace {

// Workers that wait for something that no job completes: the end of the runtime, which waits for
// the workers, has to wake them.
struct blocked_wait {
  parker* sleep = nullptr;
  blocked_wait* previous = nullptr;
  blocked_wait* next = nullptr;
  bool is_listed = false;
};

struct registry {
  std::mutex mutex;
  linked_list<blocked_wait> waits;

  static registry& global() {
    static auto* const made = new registry;
    return *made;
  }
};

// Listed for a scope, so that stop_waits finds it. The executor stops running before it calls
// stop_waits, and that is looked at under the lock here: one of the two sees the other.
class registered {
 public:
  explicit registered(parker& sleep) noexcept {
    wait_.sleep = &sleep;
    registry& r = registry::global();
    const std::lock_guard lock(r.mutex);
    if (executor::is_running()) {
      r.waits.push_back(&wait_);
    } else {
      is_stopped_ = true;
    }
  }
  ~registered() {
    registry& r = registry::global();
    const std::lock_guard lock(r.mutex);
    if (wait_.is_listed) r.waits.remove(&wait_);
  }
  registered(const registered&) = delete;
  registered& operator=(const registered&) = delete;

  bool is_stopped() const noexcept { return is_stopped_ || !executor::is_running(); }

 private:
  blocked_wait wait_;
  bool is_stopped_ = false;
};

}  // namespace

void stop_waits() noexcept {
  registry& r = registry::global();
  const std::lock_guard lock(r.mutex);
  while (blocked_wait* const w = r.waits.pop_front()) w->sleep->signal();
}

awoken await_telling(thread_waiter& me, const base::deadline& deadline) {
  constexpr int looks_before_sleep = 64;
  for (int i = 0; i < looks_before_sleep; ++i) {
    if (me.sleep.is_signalled()) return awoken::told;
    base::pause();
  }
  context* const caller = this_thread.current;
  if (caller == nullptr || caller->running == nullptr) {
    return executor::sleep(me.sleep, deadline) ? awoken::told : awoken::late;
  }
  const std::stop_token token = stop_token_of(*caller);
  const std::stop_callback on_stop(token, [&me] { me.sleep.signal(); });
  const registered listed(me.sleep);
  if (listed.is_stopped()) return awoken::stopped;
  const bool is_signalled = executor::sleep(me.sleep, deadline);
  if (token.stop_requested() || listed.is_stopped()) return awoken::stopped;
  return is_signalled ? awoken::told : awoken::late;
}

void raise_stopped(const char* what) {
  raise(errc::cancelled,
        fmt::format("{}: the task that waits was cancelled, or its runtime ended", what));
}

}  // namespace manta::inline v0::exec
