// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "control/store.hpp"

// What every backend refuses before it looks further: see the limits in store.hpp. Each answers
// errc::invalid_argument with what was asked and what is allowed.

namespace manta::inline v0::control {

result<void> check(const batch& what);
result<void> check(const std::vector<std::string>& keys);
result<void> check(const range& of);
result<void> check_prefix(const std::string& prefix);

/// The answer to a read that finds more than limits::read_bytes.
error too_much_to_read();
/// The answer to a batch that asks for copies elsewhere, where there are none.
error no_replicas();
/// The answer of everything that is called after close.
error closed_error();

}  // namespace manta::inline v0::control
