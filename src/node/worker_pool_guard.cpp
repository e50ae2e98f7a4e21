// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>
#include <string>

#include <manta/exec/actor_core.hpp>
#include <manta/exec/call_extra.hpp>

#include "node/worker_hand.hpp"
#include "node/worker_pool.hpp"

// What the node does beside the tasks: it shows what workers print.

namespace manta::inline v0::node {

void worker_pool::open_output(const config& settings) {
  if (settings.worker_output == output_mode::plain) return;
  output_.open([this](std::uint64_t worker) { return speaker_of(worker); });
}

// Text comes before the result of the task that printed it.
void worker_pool::settle_text(hand& of, std::uint64_t number) noexcept {
  if (of.prints == nullptr) return;
  const std::uint64_t printed = of.line.page().printed.load(std::memory_order_acquire);
  if (printed == of.prints->seen.load(std::memory_order_acquire) && !of.prints->is_unsettled()) {
    return;
  }
  output_.settle(*of.prints, number);
  of.prints->seen.store(printed, std::memory_order_release);
}

namespace {

std::string name_of(const exec::job& j) {
  const exec::call_extra& with = *j.extra();
  if (with.name != nullptr) return *with.name;
  return speaker_name(is_passed(&j) ? passed_name(static_cast<const passed_job&>(j))
                                    : readable_name(j.ops->function));
}

}  // namespace

// The task that runs there, or the only one that is suspended.
worker_output::speaker worker_pool::speaker_of(std::uint64_t worker) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      all_, [worker](const std::shared_ptr<hand>& one) { return one->unique == worker; });
  if (found == all_.end()) return {};
  hand& of = **found;
  wire::worker_page& page = of.line.page();
  page.prints.store(1, std::memory_order_relaxed);
  worker_output::speaker out;
  out.pid = of.pid != 0 ? of.pid : page.pid.load(std::memory_order_relaxed);
  if (of.lives_here != nullptr) {
    out.name = speaker_name(of.lives_here->core->shown_name());
    return out;
  }
  const flight* top = nullptr;
  for (const flight& f : of.flights) {
    const bool runs = f.number != 0 && page.is(f.number, wire::slot_state::running);
    if (runs && (top == nullptr || f.number > top->number)) top = &f;
  }
  if (top == nullptr && of.off_stack.size() == 1) top = &of.off_stack.begin()->second;
  if (top == nullptr) return out;
  out.number = top->number;
  out.name = name_of(*top->job);
  return out;
}

}  // namespace manta::inline v0::node
