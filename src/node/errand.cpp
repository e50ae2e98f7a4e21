// SPDX-License-Identifier: Apache-2.0
#include "node/errand.hpp"

#include <memory>
#include <new>
#include <utility>

#include <manta/exec/block_pool.hpp>
#include <manta/exec/executor.hpp>
#include <manta/exec/job.hpp>

namespace manta::inline v0::node {

namespace {

constexpr const char* shown = "a message of another node";

// A job that nobody waits for: its queue entry is its only holder.
struct errand : exec::job {
  explicit errand(std::function<void(bool)> todo) noexcept : job(&ops, 1), what(std::move(todo)) {}

  std::function<void(bool)> what;

  static void end(exec::job* j, bool runs) noexcept {
    auto* const self = static_cast<errand*>(j);
    self->what(runs);
    std::destroy_at(&self->what);
    j->drop();
  }
  static const exec::job_ops ops;
};

const exec::job_ops errand::ops = {
    .execute = [](exec::job* j) noexcept { end(j, true); },
    .run = [](exec::job* /*j*/) noexcept { return exec::job_bits::ready; },
    .ready = [](exec::job* /*j*/) noexcept {},
    .cancel = [](exec::job* j, const error& /*reason*/) noexcept { end(j, false); },
    .drop_arguments = [](exec::job* /*j*/) noexcept {},
    .drop_value = nullptr,
    .alias = nullptr,
    .origin = nullptr,
    .size = sizeof(errand),
    .front = 0,
    .in_place = false,
    .function = shown,
    .function_hash = 0,
    .carrier = nullptr,
};

}  // namespace

void run_errand(std::function<void(bool)> what) {
  void* const block = exec::allocate_block(sizeof(errand));
  exec::executor::resume(new (block) errand(std::move(what)));
}

}  // namespace manta::inline v0::node
