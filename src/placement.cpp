// SPDX-License-Identifier: Apache-2.0
#include <manta/placement.hpp>

#include <memory>
#include <utility>

#include <fmt/format.h>

#include <manta/exec/executor.hpp>
#include <manta/exec/outside.hpp>
#include <manta/exec/resource_gate.hpp>
#include <manta/sched/ledger.hpp>

#include "node/desk.hpp"
#include "node/trade.hpp"

namespace manta::inline v0 {

namespace {

// The job behind ready(): done when the gate lets it through. The group's claim stands in the line
// as long as the gate has the job, and goes with that; the group itself may be gone before.
struct group_ready : detail::cell<void> {
  std::unique_ptr<exec::resource_claim> claim;

  explicit group_ready(unsigned holders) noexcept : cell<void>(&ops, holders) {}

  static void drop_claim(exec::job* j) noexcept { static_cast<group_ready*>(j)->claim.reset(); }
  static void pass(exec::job* j) noexcept {
    drop_claim(j);
    if (j->try_claim()) {
      j->finish(exec::job_bits::ready, 1);
    } else {
      j->drop_entry();
    }
  }
  static void cancel(exec::job* j, const error& reason) noexcept {
    drop_claim(j);
    j->cancel_unclaimed(reason);
  }

  static const exec::job_ops ops;
};

const exec::job_ops group_ready::ops = {
    .execute = nullptr,
    .run = nullptr,
    .ready = &group_ready::pass,
    .cancel = &group_ready::cancel,
    .drop_arguments = nullptr,
    .drop_value = nullptr,
    .alias = nullptr,
    .origin = nullptr,
    .size = sizeof(group_ready),
    .front = 0,
    .in_place = false,
    .function = "placement group",
    .function_hash = base::hash_name("placement group"),
};

std::vector<spec::demand> demands_of(const std::vector<bundle>& bundles) {
  constexpr std::size_t most = sched::ledger::most_bundles;
  if (bundles.empty() || bundles.size() > most) {
    raise(errc::invalid_argument,
          fmt::format("make_placement_group: asked {} bundles, allowed 1 to {}", bundles.size(),
                      most));
  }
  std::vector<spec::demand> out;
  out.reserve(bundles.size());
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    spec::check(bundles[i], i);
    if (out.emplace_back(spec::to_demand(bundles[i])).is_empty()) {
      raise(errc::invalid_argument,
            fmt::format("make_placement_group: bundle {} asks for nothing; name an amount above 0",
                        i));
    }
  }
  return out;
}

}  // namespace

void placement_group::require() const {
  if (valid()) return;
  raise(errc::invalid_argument,
        "an empty placement group was used; make one with make_placement_group");
}

future<void> placement_group::ready() const {
  require();
  return ready_;
}

bool placement_group::wait(duration timeout) const {
  require();
  const result<void> outcome = ready_.try_get(timeout);
  if (outcome) return true;
  if (outcome.error().code() != errc::timed_out) outcome.error().raise();
  return false;
}

placement placement_group::bundle(std::size_t index) const {
  require();
  if (index >= size_) {
    raise(errc::invalid_argument,
          fmt::format("in_group: asked bundle {}, the placement group has {}; indices start at 0",
                      static_cast<std::ptrdiff_t>(index), size_));  // one below 0 was converted
  }
  placement out = any_bundle();
  out.bundle = static_cast<int>(index);
  return out;
}

placement placement_group::any_bundle() const {
  require();
  placement out;
  out.by = placement::rule::group;
  out.group = id_;
  return out;
}

placement_group make_placement_group(const std::vector<bundle>& bundles, strategy how) {
  exec::executor::require();
  if (how > strategy::strict_spread) {
    raise(errc::invalid_argument,
          fmt::format("make_placement_group: asked strategy {}, allowed are pack, spread, "
                      "strict_pack, strict_spread",
                      static_cast<int>(how)));
  }
  std::vector<spec::demand> asked = demands_of(bundles);
  const bool stays = exec::sends_all();  // isolated workers have tasks of their own node only
  if (!stays) node::trade::global().await_nodes();
  placement_group out;
  out.size_ = bundles.size();
  auto* const ready = detail::make_job<group_ready>(2U);  // the handle, and who lets it through
  exec::name_child(ready);
  out.ready_ = detail::access::make<void>(ready);
  try {
    ready->claim = node::desk::global().make_group(std::move(asked), how, stays, out.id_);
  } catch (...) {
    ready->drop();
    throw;
  }
  if (ready->claim->request(ready)) group_ready::pass(ready);
  return out;
}

bool remove_placement_group(const placement_group& group) {
  group.require();
  if (!exec::executor::is_running()) return false;
  return node::desk::global().remove_group(group.id_);
}

placement in_group(const placement_group& group, int index) {
  if (index == -1) return group.any_bundle();
  // A negative index is beyond any size, too.
  return group.bundle(static_cast<std::size_t>(index));
}

}  // namespace manta::inline v0
