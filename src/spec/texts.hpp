// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

// How messages show what others have written, and what members of a cluster may be called.
//
// Threads: any; values.

namespace manta::inline v0::spec {

/// A text of others as messages show it: short, and on one line.
std::string shown(std::string_view value, std::size_t most = 60);

bool has_control_character(std::string_view text) noexcept;

/// By which each node means itself, where tasks say where they want to run.
inline constexpr std::string_view own_node_name = "local";

/// What a member of a cluster may be called: 1 to 64 bytes without control characters, but for
/// own_node_name. Nothing: `text` is such a name; else what is wrong with it.
const char* fault_of_member_name(std::string_view text) noexcept;

/// The name of one that was given none: "node-HOST-PID". Of a long host its beginning, since two
/// processes there differ by their numbers alone.
std::string usual_member_name(std::string_view as, std::string_view host, std::int64_t pid);

}  // namespace manta::inline v0::spec
