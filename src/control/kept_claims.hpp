// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/spec/error.hpp>

#include "control/claimed_names.hpp"
#include "control/store.hpp"

// What claimed_names.hpp has in memory, kept in a store: for a head that is started again while the
// nodes with the actors live on.
//
// A claim of a node that has ended stays until somebody finds it: who asks for the name learns that
// there is no such node, and releases it.
//
// Threads: any. Each waits for the store.

namespace manta::inline v0::control {

/// `by` has the name from now on, if nobody has it. Who has it then.
result<name_holder> keep_claim(store& in, const claimed_name& of, const name_holder& by);
/// Who has it; by default nobody.
result<name_holder> kept_claim(store& in, const claimed_name& of);
/// That claim is over; of another one nothing is changed.
result<void> drop_claim(store& in, const claimed_name& of, const name_holder& by);

}  // namespace manta::inline v0::control
