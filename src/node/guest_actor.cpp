// SPDX-License-Identifier: Apache-2.0
#include "node/guest_actor.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include <manta/exec/block_pool.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/resource_gate.hpp>
#include <manta/spec/options.hpp>

#include "node/asked.hpp"

namespace manta::inline v0::node {

namespace {

struct guest_core final : exec::actor_core {
  explicit guest_core(const exec::actor_ops* kind) : actor_core(kind) {}
  exec::resource_claim* claim = nullptr;  // owned; given back with the object

  static exec::resource_claim* claim_in(exec::actor_core* core) noexcept {
    return static_cast<guest_core*>(core)->claim;
  }
  static void release(exec::actor_core* core) noexcept {
    if (exec::resource_claim* const held = claim_in(core)) held->release();
  }
  static void forget(exec::actor_core* core) noexcept { delete claim_in(core); }
  static void settle(exec::actor_core* core, exec::job* construction) noexcept {
    if ((construction->word() & exec::job_bits::failed) == 0) {
      construction->drop();
      core->begin(nullptr);
      return;
    }
    release(core);
    const error reason = construction->failure();
    construction->drop();
    core->begin(&reason);
  }
};

// One for each type's name, for good: blocks refer to them as long as they are there.
const exec::actor_ops& ops_of(const std::string& type) {
  static std::mutex mutex;
  static auto* const known = new std::map<std::string, exec::actor_ops>;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known->try_emplace(type);
  if (is_new) {
    at->second = {.destroy = nullptr,
                  .size = sizeof(guest_core),
                  .type = at->first.c_str(),
                  .claim = guest_core::claim_in,
                  .release = guest_core::release,
                  .forget = guest_core::forget,
                  .settle = guest_core::settle};
  }
  return at->second;
}

}  // namespace

actor_options options_of(const wire::spawn_view& asked) {
  actor_options out;
  out.mailbox_cap = asked.mailbox_cap;
  out.on_full = asked.refuses_when_full ? full_policy::refuse : full_policy::wait;
  out.max_restarts = static_cast<int>(asked.max_restarts);
  if (!asked.groups.empty()) {
    out.max_concurrency = static_cast<int>(asked.groups.front().limit);
    for (const wire::group_view& one : asked.groups.subspan(1)) {
      out.groups.push_back({std::string(one.name), static_cast<int>(one.limit)});
    }
  }
  if (asked.options == nullptr) return out;
  // Else its name is what it is shown as.
  if (asked.reserves) {
    out.name = std::string(asked.options->name);
    out.name_space = std::string(asked.name_space);
  }
  const options of_task = to_options(*asked.options);
  out.cpus = of_task.cpus;
  out.gpus = of_task.gpus;
  out.memory_bytes = of_task.memory_bytes;
  out.resources = of_task.resources;
  out.isolation = of_task.isolation;
  out.enforce_memory = of_task.enforce_memory;
  return out;
}

exec::actor_core* make_guest(const wire::spawn_view& asked) {
  const actor_options with = options_of(asked);
  std::unique_ptr<exec::resource_claim> claim =
      exec::resource_gate::claim(spec::to_demand(with), with.where, true);
  const exec::actor_ops& ops = ops_of(std::string(asked.type_name));
  auto* const made = new (exec::allocate_block(sizeof(guest_core))) guest_core(&ops);
  made->lives_elsewhere(true);
  try {
    made->apply(with);
  } catch (...) {
    made->discard();
    throw;
  }
  if (claim != nullptr) claim->holder = made;
  made->claim = claim.release();
  return made;
}

void start_guest(exec::job* construction) noexcept {
  exec::actor_core* const of = passed_job::self(construction)->actor;
  exec::resource_claim* const claim = guest_core::claim_in(of);
  if (claim != nullptr && exec::executor::is_running() && !claim->is_settled() &&
      !claim->request(construction)) {
    return;
  }
  exec::executor::resume(construction);
}

}  // namespace manta::inline v0::node
