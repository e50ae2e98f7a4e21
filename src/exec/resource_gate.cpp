// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/resource_gate.hpp>

#include <exception>
#include <new>
#include <utility>

#include <manta/exec/actor_core.hpp>
#include <manta/exec/call_extra.hpp>
#include <manta/exec/context.hpp>

namespace manta::inline v0::exec {

void claim_list::append(resource_claim& c) noexcept {
  c.stage_ = c.refusal ? resource_claim::stage::idle : resource_claim::stage::held;
  link(c);
}

void claim_list::link(resource_claim& c) noexcept {
  c.next_ = nullptr;
  (last == nullptr ? first : last->next_) = &c;
  last = &c;
}

void claim_list::append(claim_list&& others) noexcept {
  if (others.first == nullptr) return;
  (last == nullptr ? first : last->next_) = others.first;
  last = others.last;
  others = {};
}

claim_list claim_list::take_refused() noexcept {
  claim_list all = std::exchange(*this, {});
  claim_list refused;
  while (resource_claim* const c = all.first) {
    all.first = c->next_;
    (c->refusal ? refused : *this).link(*c);
  }
  return refused;
}

resource_gate& resource_gate::global() {
  static auto* const made = new resource_gate;  // never destroyed: late threads find it
  return *made;
}

void resource_gate::open(resource_desk* desk) {
  const std::lock_guard lock(mutex_);
  desk_ = desk;
}

std::unique_ptr<resource_claim> resource_gate::claim(const spec::demand& asked,
                                                     const placement& where, bool is_for_life) {
  if (asked.is_empty() && where.by == placement::rule::anywhere) return nullptr;
  resource_gate& gate = global();
  const std::uint64_t caller = caller_serial();
  const std::lock_guard lock(gate.mutex_);
  if (gate.desk_ == nullptr) raise(errc::infeasible, "this runtime keeps no account of resources");
  return gate.desk_->prepare(asked, where, caller, is_for_life);
}

std::unique_ptr<resource_claim> resource_gate::claim_elsewhere(const spec::demand& asked,
                                                               resource_claim::other_node where) {
  resource_gate& gate = global();
  const std::lock_guard lock(gate.mutex_);
  if (gate.desk_ == nullptr) raise(errc::infeasible, "this runtime keeps no account of resources");
  std::unique_ptr<resource_claim> out = gate.desk_->note(asked);
  out->elsewhere = where;
  return out;
}

void resource_gate::start(claim_list through) noexcept {
  while (resource_claim* const c = through.first) {
    through.first = c->next_;  // the claim may be gone when its job goes on
    job* const j = c->job_;
    if (c->refusal) {
      const error reason = *c->refusal;
      j->ops->cancel(j, reason);
    } else if (j->needs.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      j->ops->ready(j);
    }
  }
}

resource_claim::~resource_claim() = default;

resource_claim* claim_of(const context& caller) noexcept {
  if (caller.actor == nullptr) {
    const call_extra* const with = caller.running != nullptr ? caller.running->extra() : nullptr;
    return with != nullptr ? with->claim.get() : nullptr;
  }
  const auto of_actor = caller.actor->kind().claim;
  return of_actor == nullptr ? nullptr : of_actor(caller.actor);
}

resource_claim* current_claim() noexcept {
  const context* const caller = this_thread.current;
  return caller == nullptr ? nullptr : claim_of(*caller);
}

bool resource_claim::request(job* j) noexcept {
  resource_gate& gate = resource_gate::global();
  {
    const std::lock_guard lock(gate.mutex_);
    // Who withdraws the job claims it first and looks into the gate then, so one sees the other.
    if (gate.desk_ == nullptr || j->is_claimed()) return true;
    job_ = j;
    // Before anybody can let it through.
    j->needs.fetch_add(1, std::memory_order_relaxed);
    stage_ = stage::queued;
    resource_desk::answer got = resource_desk::answer::refused;
    try {
      got = gate.desk_->ask(*this);
    } catch (const std::exception&) {
      refusal = error::out_of_memory();
    }
    if (got == resource_desk::answer::waits) return false;
    j->needs.fetch_sub(1, std::memory_order_relaxed);
    stage_ = got == resource_desk::answer::granted ? stage::held : stage::idle;
    if (stage_ == stage::held) return true;
  }
  const error reason = *refusal;
  j->ops->cancel(j, reason);
  return false;
}

void resource_claim::ask_again(bool here) {
  release();
  resource_gate& gate = resource_gate::global();
  const std::lock_guard lock(gate.mutex_);
  if (gate.desk_ == nullptr) raise(errc::infeasible, "this runtime keeps no account of resources");
  gate.desk_->ask_again(*this, caller_serial(), here);
  elsewhere = {};
  is_given_.store(false);
}

bool resource_claim::is_waiting() const noexcept {
  const std::lock_guard lock(resource_gate::global().mutex_);
  return stage_ == stage::queued;
}

bool resource_claim::withdraw() noexcept {
  bool waited = false;
  resource_gate& gate = resource_gate::global();
  gate.change([&] {
    waited = stage_ == stage::queued;
    if (!waited) return claim_list{};
    stage_ = stage::idle;
    job_->needs.fetch_sub(1, std::memory_order_relaxed);
    return gate.desk_->leave(*this);
  });
  return waited;
}

void resource_claim::lend() noexcept {
  claim_list through;
  lend(through);
  resource_gate::start(through);
}

void resource_claim::lend(claim_list& through) noexcept {
  resource_gate& gate = resource_gate::global();
  const std::lock_guard lock(gate.mutex_);
  if (stage_ != stage::held || sleepers_++ != 0) return;
  through.append(gate.desk_->lend(*this));
}

void resource_claim::take_back() noexcept {
  resource_gate& gate = resource_gate::global();
  const std::lock_guard lock(gate.mutex_);
  if (stage_ != stage::held || sleepers_ == 0 || --sleepers_ != 0) return;
  gate.desk_->take_back(*this);
}

void resource_claim::release() noexcept {
  resource_gate& gate = resource_gate::global();
  gate.change([&] {
    if (stage_ == stage::idle) return claim_list{};
    stage_ = stage::idle;
    sleepers_ = 0;
    return gate.desk_->leave(*this);
  });
}

void resource_claim::cancel_waiting(const error& reason) noexcept {
  resource_gate& gate = resource_gate::global();
  for (;;) {
    job* j = nullptr;
    {
      const std::lock_guard lock(gate.mutex_);
      if (gate.desk_ == nullptr) return;
      resource_claim* const c = gate.desk_->take_waiting();
      if (c == nullptr) return;
      c->stage_ = stage::idle;
      j = c->job_;
    }
    j->ops->cancel(j, reason);
  }
}

}  // namespace manta::inline v0::exec
