// SPDX-License-Identifier: Apache-2.0
#include "node/named_handles.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include <fmt/format.h>

#include <manta/codec/errors.hpp>
#include <manta/codec/identity.hpp>
#include <manta/codec/out_buffer.hpp>
#include <manta/exec/actor_core.hpp>
#include <manta/exec/outside.hpp>
#include <manta/exec/parker.hpp>
#include <manta/node/carrier.hpp>
#include <manta/node/shared_thing.hpp>

#include "node/actor_names.hpp"
#include "node/array_names.hpp"
#include "node/far_arrays.hpp"
#include "node/far_futures.hpp"
#include "node/far_handles.hpp"
#include "node/far_ids.hpp"
#include "node/far_things.hpp"
#include "node/future_names.hpp"
#include "node/large_ranges.hpp"
#include "node/node_things.hpp"
#include "node/shared_names.hpp"
#include "node/worker_futures.hpp"
#include "wire/views.hpp"

namespace manta::inline v0::node {

void far_is_named(const base::id& id) noexcept {
  if (is_far_array_id(id)) return far_arrays::global().named(id);
  if (is_far_thing_id(id)) return node_things::global().named(id);
  far_futures::global().named(id);
}

namespace {

// What other processes know an actor by. One that is made here, in a worker, may wait for its
// constructor's arguments: until the node has heard of it no message can name it.
base::id name_of(exec::actor_core* core) {
  actor_names& names = actor_names::global();
  if (!core->is_elsewhere() || !exec::asks_elsewhere()) return names.name_here(core);
  constexpr std::chrono::milliseconds look{1};  // nobody rings when it is told
  exec::parker nap;
  for (;;) {
    if (const std::optional<base::id> id = names.known(core)) return *id;
    if (core->has_ended()) {
      raise(errc::actor_lost, "the actor has ended; its handle can't go to another process");
    }
    exec::elsewhere.load(std::memory_order_acquire)->sleep(nap, base::after(look), nullptr);
  }
}

const char* what_is(spec::reference_kind kind) noexcept {
  switch (kind) {
    case spec::reference_kind::future:
      return "future";
    case spec::reference_kind::actor:
      return "actor's handle";
    case spec::reference_kind::weak_actor:
      return "weak handle of an actor";
    case spec::reference_kind::stream:
      return "stream";
    case spec::reference_kind::stop_token:
      return "stop token";
    case spec::reference_kind::channel:
      return "channel";
    case spec::reference_kind::semaphore:
      return "semaphore";
    case spec::reference_kind::permit:
      return "permit";
    case spec::reference_kind::barrier:
      return "barrier";
    case spec::reference_kind::actor_pool:
      return "pool of actors";
    case spec::reference_kind::placement_group:
      return "placement group";
    case spec::reference_kind::array:
      return "array";
  }
  return "handle";
}

// The same of a channel, semaphore or barrier. What stands here for another node's has a name of
// its own for workers. What a worker makes is nobody else's.
base::id name_of(const shared_thing& thing, const char* function) {
  if (!exec::asks_elsewhere()) return shared_names::global().name(thing);
  if (const base::id id = id_of_far(thing); id != base::id{}) return id;
  raise(errc::unsupported,
        fmt::format("{}: a {} that was made in an isolated worker can't leave it; make it in the "
                    "driver and pass it to the task",
                    readable_name(function), what_is(thing.kind)));
}

void check_values(const carrier* values, const char* function) {
  if (values != nullptr) return;
  raise(errc::unsupported,
        fmt::format("{}: a future inside of a value can't go to another process, since its value "
                    "can't; see docs/travel.md",
                    readable_name(function)));
}

// The same for a future.
base::id name_of(workbench& on, const spec::reference& of, const char* function) {
  auto* const j = reinterpret_cast<exec::job*>(of.local);
  const auto* const values = reinterpret_cast<const carrier*>(of.values);
  check_values(values, function);
  if (worker_futures* const here = worker_futures::here()) return here->name(j, values);
  on.named.reserve_one();
  const base::id id = future_names::global().name(j, of.type, values);
  on.named.put(id);
  return id;
}

// Fills in where an array lies.
far_name name_afar(workbench& on, spec::reference& of, const char* function) {
  if (of.kind == spec::reference_kind::actor) {
    return name_of_actor(reinterpret_cast<exec::actor_core*>(of.local), on.goes_to, function);
  }
  if (of.kind == spec::reference_kind::weak_actor) {
    return name_of_weak(reinterpret_cast<exec::actor_core*>(of.local), on.goes_to, function);
  }
  if (of.kind == spec::reference_kind::array) {
    auto* const block = reinterpret_cast<array_block*>(of.local);
    return far_arrays::global().name(on, static_cast<placed_block&>(*block), of);
  }
  if (is_of_thing(of.kind)) {
    return node_things::global().name(on, *reinterpret_cast<const shared_thing*>(of.local),
                                      function);
  }
  const auto* const values = reinterpret_cast<const carrier*>(of.values);
  check_values(values, function);
  return far_futures::global().name(on, reinterpret_cast<exec::job*>(of.local), of.type, values);
}

// The kinds of handles that go; a future whose value can't is told so by check_values.
bool is_kind_that_goes(const spec::reference& one) noexcept {
  using kind = spec::reference_kind;
  if (is_of_thing(one.kind)) {
    const auto& thing = *reinterpret_cast<const shared_thing*>(one.local);
    return one.kind != kind::channel || thing.items != nullptr;
  }
  return one.kind == kind::actor || one.kind == kind::weak_actor || one.kind == kind::future ||
         one.kind == kind::array;
}

void name_all_afar(workbench& on, const char* function) {
  for (const codec::lent_reference& lent : on.out.lent()) {
    spec::reference named = lent.as;
    if (!is_kind_that_goes(named)) {
      raise(errc::unsupported,
            fmt::format("{}: a {} inside of a value can't go to another node or come from one yet; "
                        "pass the value itself, or have both in one node",
                        readable_name(function), what_is(named.kind)));
    }
    const far_name known = name_afar(on, named, function);
    named.what = known.id;
    named.owner = {known.owner, 0};
    named.local = 0;
    named.values = 0;
    on.references.push_back(named);
  }
}

void check_size_afar(const spec::parcel_view& what, const char* function) {
  std::size_t size = what.head.size();
  std::size_t ranges = 0;
  for (const spec::segment_view& one : what.segments) {
    size += one.bytes.size();
    ranges += one.bytes.empty() ? 0 : 1;
  }
  if (ranges > wire::limits::own_segments) {
    raise(errc::unsupported,
          fmt::format("{}: a value of it has {} ranges (vectors and strings of plain values) of {} "
                      "bytes and more, and {} is the most that goes from node to node beside the "
                      "store; join them, pass fewer at a time, or have it in the node that uses it",
                      readable_name(function), ranges, codec::segment_from,
                      wire::limits::own_segments));
  }
  if (size <= most_bytes_afar) return;
  raise(errc::unsupported,
        fmt::format("{}: a value of it takes {} bytes, and {} is the most that goes from node to "
                    "node; pass less at a time, or have it in the node that uses it",
                    readable_name(function), size, most_bytes_afar));
}

}  // namespace

bool may_go_afar(const workbench& on) noexcept {
  return std::ranges::all_of(on.out.lent(), [](const codec::lent_reference& one) {
    const auto* const values = reinterpret_cast<const carrier*>(one.as.values);
    const bool has_values = values != nullptr && !values->stays;
    return is_kind_that_goes(one.as) && (one.as.kind != spec::reference_kind::future || has_values);
  });
}

spec::parcel_view with_names(workbench& on, const char* function) {
  on.references.clear();
  spec::parcel_view out = on.out.view();
  if (on.goes_to != 0) {
    name_all_afar(on, function);
    out.references = on.references;
    pack_for_node(on, out);
    check_size_afar(out, function);
    return out;
  }
  for (const codec::lent_reference& lent : on.out.lent()) {
    spec::reference named = lent.as;
    if (named.kind == spec::reference_kind::array) {
      // What has no place is copied, and never comes here.
      static_cast<placed_block*>(reinterpret_cast<array_block*>(named.local))->name(named);
      named.local = 0;
      on.references.push_back(named);
      continue;
    }
    if (is_of_thing(named.kind)) {
      named.what = name_of(*reinterpret_cast<const shared_thing*>(named.local), function);
      named.local = 0;
      on.references.push_back(named);
      continue;
    }
    if (named.kind == spec::reference_kind::future) {
      named.what = name_of(on, named, function);
      named.local = 0;
      named.values = 0;
      on.references.push_back(named);
      continue;
    }
    if (named.kind != spec::reference_kind::actor) {
      raise(errc::unsupported,
            fmt::format("{}: a {} inside of a value can't go to an isolated worker or come from "
                        "one yet; pass the value, or run it with isolation = threads",
                        readable_name(function), what_is(named.kind)));
    }
    auto* const core = reinterpret_cast<exec::actor_core*>(named.local);
    named.what = name_of(core);
    named.local = 0;
    on.references.push_back(named);
  }
  out.references = on.references;
  pack_large(on, out);
  return out;
}

}  // namespace manta::inline v0::node
