// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <manta/exec/actor_core.hpp>

namespace manta::inline v0::exec {

/// The type of the living actor of that name, as the compiler spells it; empty: there is none.
/// Any thread. Throws std::bad_alloc.
std::string type_of_named(const std::string& name, const std::string& name_space);
/// Throws name_taken: an actor of that type has it.
[[noreturn]] void raise_taken(const std::string& name, const std::string& name_space,
                              const char* type);

}  // namespace manta::inline v0::exec
