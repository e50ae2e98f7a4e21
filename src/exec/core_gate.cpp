// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/core_gate.hpp>

#include <mutex>

namespace manta::inline v0::exec {

// First come, first served: a large request at the front holds back small ones behind it, so that
// it is not passed for ever.
struct core_gate {
  std::mutex mutex;
  std::int64_t free = 0;
  core_claim* first = nullptr;
  core_claim* last = nullptr;

  static core_gate& global() {
    static auto* const made = new core_gate;
    return *made;
  }

  void append(core_claim* c) noexcept {
    c->next_ = nullptr;
    (last == nullptr ? first : last->next_) = c;
    last = c;
  }
  void remove(core_claim* c) noexcept {
    core_claim* before = nullptr;
    for (core_claim* at = first; at != nullptr; before = at, at = at->next_) {
      if (at != c) continue;
      (before == nullptr ? first : before->next_) = c->next_;
      if (last == c) last = before;
      return;
    }
  }
  /// Takes those that fit off the queue; linked through next_.
  core_claim* admit() noexcept {
    core_claim* admitted = nullptr;
    core_claim** tail = &admitted;
    while (first != nullptr && first->thousandths_ <= free) {
      core_claim* const c = first;
      first = c->next_;
      if (first == nullptr) last = nullptr;
      free -= c->thousandths_;
      c->stage_ = core_claim::stage::held;
      c->next_ = nullptr;
      *tail = c;
      tail = &c->next_;
    }
    return admitted;
  }
  static void start(core_claim* admitted) noexcept {
    while (admitted != nullptr) {
      core_claim* const next = admitted->next_;
      job* const j = admitted->job_;
      if (j->needs.fetch_sub(1, std::memory_order_acq_rel) == 1) j->ops->ready(j);
      admitted = next;
    }
  }
};

bool core_claim::request(job* j) {
  if (thousandths_ == 0) return true;
  core_gate& gate = core_gate::global();
  const std::lock_guard lock(gate.mutex);
  job_ = j;
  if (gate.first == nullptr && thousandths_ <= gate.free) {
    gate.free -= thousandths_;
    stage_ = stage::held;
    return true;
  }
  j->needs.fetch_add(1, std::memory_order_relaxed);
  stage_ = stage::queued;
  gate.append(this);
  return false;
}

void core_claim::cancel_waiting(const error& reason) noexcept {
  core_gate& gate = core_gate::global();
  for (;;) {
    job* j = nullptr;
    {
      const std::lock_guard lock(gate.mutex);
      if (gate.first == nullptr) return;
      j = gate.first->job_;
      gate.first->stage_ = stage::idle;
      gate.remove(gate.first);
    }
    j->ops->cancel(j, reason);
  }
}

void core_claim::lend() noexcept {
  core_gate& gate = core_gate::global();
  core_claim* admitted = nullptr;
  {
    const std::lock_guard lock(gate.mutex);
    if (stage_ != stage::held) return;
    stage_ = stage::lent;
    gate.free += thousandths_;
    admitted = gate.admit();
  }
  core_gate::start(admitted);
}

void core_claim::take_back() noexcept {
  core_gate& gate = core_gate::global();
  const std::lock_guard lock(gate.mutex);
  if (stage_ != stage::lent) return;
  stage_ = stage::held;
  gate.free -= thousandths_;
}

void core_claim::release() noexcept {
  if (thousandths_ == 0 || job_ == nullptr) return;
  core_gate& gate = core_gate::global();
  core_claim* admitted = nullptr;
  {
    const std::lock_guard lock(gate.mutex);
    if (stage_ == stage::queued) gate.remove(this);
    if (stage_ == stage::held) gate.free += thousandths_;
    stage_ = stage::idle;
    admitted = gate.admit();
  }
  core_gate::start(admitted);
}

void reset_core_gate(int cores) noexcept {
  core_gate& gate = core_gate::global();
  const std::lock_guard lock(gate.mutex);
  gate.free = static_cast<std::int64_t>(cores) * 1000;
}

}  // namespace manta::inline v0::exec
