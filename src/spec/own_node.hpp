// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

// What errors call the node that this process is, where a user's exception ended a task.

namespace manta::inline v0::spec {

/// Its name in its cluster, of which it keeps most_node_name bytes; "local" where there is none.
/// Any thread.
void name_own_node(std::string_view name) noexcept;
/// The name that it was given. Any thread. Throws std::bad_alloc.
std::string name_of_own_node();

}  // namespace manta::inline v0::spec
