// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <manta/spec/error.hpp>

#include "control/claimed_names.hpp"
#include "control/store.hpp"

// What claimed_names.hpp has in memory, kept in a store: for a head that is started again while the
// nodes with the actors live on.
//
// The claims of a node that has ended are dropped by the head, which is told of its end. One that
// ends while the head is away too may leave some: they stay until somebody finds them. Who asks for
// such a name learns that there is no such node, and releases it.
//
// Threads: any. Each waits for the store.

namespace manta::inline v0::control {

/// `by` has the name from now on, if nobody has it. Who has it then.
result<name_holder> keep_claim(store& in, const claimed_name& of, const name_holder& by);
/// Who has it; by default nobody.
result<name_holder> kept_claim(store& in, const claimed_name& of);
/// That claim is over; of another one nothing is changed.
result<void> drop_claim(store& in, const claimed_name& of, const name_holder& by);
/// All claims of these nodes are over; how many there were. Reads all claims.
result<std::size_t> drop_claims_of(store& in, std::span<const std::uint64_t> nodes);

}  // namespace manta::inline v0::control
