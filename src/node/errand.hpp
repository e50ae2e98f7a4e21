// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace manta::inline v0::node {

/// Has a worker call `what`, which must not throw, with true as it comes to it: in line with tasks.
/// For what came by wire, whose values are the user's to read: on the loop's thread that would hold
/// up everything else. When the runtime has ended, or ends before, it is called with false instead.
/// Any thread. Throws std::bad_alloc.
void run_errand(std::function<void(bool)> what);

}  // namespace manta::inline v0::node
