// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/exec/actor_core.hpp>

#include "node/passed_job.hpp"
#include "wire/views.hpp"

namespace manta::inline v0::node {

/// What such an actor was asked for.
actor_options options_of(const wire::spawn_view& asked);
/// The node's core of an actor that an isolated worker asked for: it knows the type by its name
/// only. With one handle, which is the worker's. Throws infeasible, unsupported, invalid_argument,
/// std::bad_alloc.
exec::actor_core* make_guest(const wire::spawn_view& asked);
/// Its construction, which knows it, is on its way, as soon as it has what it asked for.
void start_guest(exec::job* construction) noexcept;

}  // namespace manta::inline v0::node
