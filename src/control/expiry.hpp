// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>

#include <manta/spec/error.hpp>
#include <manta/spec/history.hpp>

#include "control/store.hpp"

// Keys that go by themselves at a time that was said when they were written.
//
// Problem. Who has written the key may be gone by then, and nobody can look at all keys for those
// whose time has come.
//
// Idea. The batch that puts the key also puts a row whose key begins with the time:
//
//     kv/lock = ...                     revision 17
//     ttl/<time>kv/lock = <time>        revision 17
//
// A sweep reads such rows up to now. A key that still has the row's revision goes; one with another
// was written again since, and only the row goes. So nothing has to be found and taken back when a
// key is written anew, and readers, watchers and conditions all see one thing: a deletion.
//
// Who renews a key all the time would leave a row each time. So a row is filed early, at a time
// rounded down to about a sixteenth of the key's life, where the next renewal replaces it; one that
// is due and still its key's is filed again at the very time, with the key's revision in its value.
//
// Invariant: a key has at most about 35 rows, however often it is written with one ttl.
//
// Threads: any; sweeps: one at a time.

namespace manta::inline v0::control {

/// How long a key may be that ends.
inline constexpr std::size_t longest_ending_key = limits::key_bytes - 16;

/// Adds to a batch that puts `key`: it goes at `at`, to the millisecond. `now`: where its life
/// begins.
void end_at(batch& to, const std::string& key, wall_time at, wall_time now);

struct swept {
  std::size_t gone = 0;           ///< keys
  std::optional<wall_time> next;  ///< when to sweep again; in the past: there is more
};
/// Deletes the keys whose time has come, or what `most` rows are about. Waits; some microseconds a
/// row.
result<swept> sweep(store& in, wall_time now,
                    std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace manta::inline v0::control
