// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/spec/parcel.hpp>

#include "node/workbench.hpp"

namespace manta::inline v0::node {

/// What was written to `on.out`, with its handles named by what other processes know them by. Not
/// all have that yet. Lives as long as nothing else is written there. May wait, in a worker, until
/// its node knows an actor that was made there. `function`: who passes or returns them, for errors.
/// Throws unsupported, actor_lost, std::bad_alloc.
spec::parcel_view with_names(workbench& on, const char* function);

/// Whether all handles in what was written may go to another node, and what is behind them.
bool may_go_afar(const workbench& on) noexcept;

}  // namespace manta::inline v0::node
