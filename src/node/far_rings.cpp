// SPDX-License-Identifier: Apache-2.0
// Rings of delegations that go through several nodes: far_futures.hpp.
#include <cstdint>
#include <new>
#include <optional>
#include <tuple>

#include <manta/codec/errors.hpp>
#include <manta/exec/delegation.hpp>

#include "node/far_actors.hpp"
#include "node/far_futures.hpp"
#include "node/resident_actors.hpp"
#include "node/trade.hpp"
#include "node/workbench.hpp"
#include "node/worker_facts.hpp"
#include "own/rings.hpp"

namespace manta::inline v0::node {

namespace pure = own;  // the class has an `own`, too

/// What follows a chain of delegations: the edge that it has come by first, and what is asked
/// about.
struct far_futures::probe {
  std::uint64_t origin = 0;  // the node of that edge
  std::uint8_t kind = 0;
  std::uint64_t number = 0;
  std::uint32_t steps = 0;
  std::uint8_t about = 0;  // edge_kind
  std::uint64_t high = 0;  // of a future; else the number of the task or call
  std::uint64_t low = 0;
};

// Others ask about it, by whichever name.
bool far_futures::is_known_elsewhere(const exec::job* j) const noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (own_ids_.contains(j)) return true;
  }
  return j->ops->origin != nullptr ? resident_actors::global().has_call(j)
                                   : trade::global().has_visit(j);
}

// Its node is 0: it is made here.
far_futures::way_out far_futures::way_of(const exec::job* end) const noexcept {
  way_out out;
  const std::uint64_t bits = end->word();
  if ((bits & exec::job_bits::named) != 0) {
    const std::lock_guard lock(mutex_);
    const auto found = images_.find(end);
    if (found == images_.end()) return out;
    return {{edge_kind::image, found->second.number}, found->second.owner, found->second.id};
  }
  if ((bits & exec::job_bits::escaped) == 0) return out;
  const bool is_call = end->ops->origin != nullptr;
  out.by.kind = is_call ? edge_kind::call : edge_kind::task;
  std::tie(out.node, out.by.number) =
      is_call ? far_actors::global().where_is(end) : trade::global().where_is(end);
  return out;
}

// Under delegation_mutex, before `from` takes its value.
void far_futures::delegates(const exec::job* from, exec::job* to) noexcept {
  constexpr std::uint64_t elsewhere = exec::job_bits::named | exec::job_bits::escaped;
  if (!is_open_.load() || (to->word() & elsewhere) == 0) return;
  const way_out by = way_of(to);
  if (by.node == 0 || !is_known_elsewhere(from)) return;
  const probe of{.origin = far_handles::global().self(),
                 .kind = static_cast<std::uint8_t>(by.by.kind),
                 .number = by.by.number};
  try {
    send_probe(by, of);
  } catch (...) {
    // No memory: a ring is not found then.
  }
}

void far_futures::send_probe(const way_out& by, probe of) {
  of.about = static_cast<std::uint8_t>(by.by.kind);
  of.high = by.by.kind == edge_kind::image ? by.id.high : 0;
  of.low = by.by.kind == edge_kind::image ? by.id.low : by.by.number;
  const borrowed_workbench on;
  on->out.clear();
  const wire::ask_view what{wire::question::delegation, codec::encode(on->out, of)};
  static_cast<void>(send(*on, by.node, ++last_, what));  // else that node is lost, and the ring
}

// The loop's thread. Jobs may go with the last hold, so it is another's to look.
void far_futures::probed(std::uint64_t from, const wire::ask_view& asked) {
  const auto of = codec::decode<probe>(asked.with);
  facts_line::global().add([this, from, of] { follow(from, of); });
}

exec::job_ref far_futures::job_about(std::uint64_t from, const probe& of) noexcept {
  switch (static_cast<edge_kind>(of.about)) {
    case edge_kind::image:
      return exec::job_ref(job_of({of.high, of.low}));
    case edge_kind::task:
      return exec::job_ref(trade::global().visitor(from, of.low));
    case edge_kind::call:
      return exec::job_ref(resident_actors::global().call_of(from, of.low));
  }
  return exec::job_ref();
}

void far_futures::follow(std::uint64_t from, const probe& of) {
  const exec::job_ref start = job_about(from, of);
  if (!start) return;
  const exec::job_ref end(start->awaited());
  const way_out by = end->is_ready() ? way_out{} : way_of(end.get());
  std::optional<pure::edge> leads;
  if (by.node != 0) {
    leads = {far_handles::global().self(), static_cast<std::uint8_t>(by.by.kind), by.by.number};
  }
  pure::ring_probe at{{of.origin, of.kind, of.number}, of.steps};
  switch (pure::follow_ring(at, leads)) {
    case pure::ring_step::ends:
      return;
    case pure::ring_step::closes:
      return close_ring(by);
    case pure::ring_step::passes_on: {
      probe next = of;
      next.steps = at.steps;
      return send_probe(by, next);
    }
  }
}

// It goes round from here.
void far_futures::close_ring(const way_out& by) noexcept {
  const error why = exec::delegation_cycle_error();
  switch (by.by.kind) {
    case edge_kind::image: {
      {
        // It may be asked for only now.
        const std::lock_guard lock(mutex_);
        const auto found = by_id_.find(by.id);
        const auto image = found == by_id_.end() ? images_.end() : images_.find(found->second);
        if (image != images_.end()) image->second.is_in_ring = true;
      }
      exec::job* const j = take_asked(by.by.number, by.node);
      if (j != nullptr) fail(j, why);
      return;
    }
    case edge_kind::task:
      return trade::global().end_flight(by.node, by.by.number, why);
    case edge_kind::call:
      return far_actors::global().end_call(by.node, by.by.number, why);
  }
}

}  // namespace manta::inline v0::node
