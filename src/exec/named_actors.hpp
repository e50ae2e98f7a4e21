// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <manta/exec/actor_core.hpp>

namespace manta::inline v0::exec {

/// For who tells others that nobody has a name: it is free then, also if what had it was about to
/// end and goes on after all. Any thread. Throw std::bad_alloc.
/// As actor_core::find.
actor_core* find_or_free(const std::string& name, const std::string& name_space, const char* type);
/// The type of the living actor of that name, as the compiler spells it; empty: there is none.
std::string type_of_named(const std::string& name, const std::string& name_space);
/// Throws name_taken: an actor of that type has it.
[[noreturn]] void raise_taken(const std::string& name, const std::string& name_space,
                              const char* type);

}  // namespace manta::inline v0::exec
