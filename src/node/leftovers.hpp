// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <string>

#include "wire/socket_place.hpp"

// What this process has in the folder of its job and where the ranks of other machines meet, and
// who removes it.
//
// Problem. Sockets' files outlive their process, and the folder is everybody's who is on this
// machine. A process ends in order, by a limit of time, or in the handler of a signal, which may
// neither lock nor allocate.
// Idea. Each removes its own sockets, then the folder, which the kernel only does when it is empty:
// so the last one does it, in whichever way each of them ends.
//
// Invariants. What was written down is not changed until clear(): whoever removes reads it without
// a lock. An own file is told from another process's at the same path.
// Threads: add, set_folder and clear: who starts and ends the runtime; the rest: any, beside those.

namespace manta::inline v0::node {

class leftovers {
 public:
  /// Never destroyed. The first call allocates.
  static leftovers& global();

  /// A socket of this process, if one lies there.
  void add(const std::string& path);
  /// Of its job; the first one that is told.
  void set_folder(const std::string& path);

  /// A file of this process, open as `file`, that lies at `path` now or soon: where it says that
  /// its head is. Of one that may be called so first and so later, both. False: the kernel refuses.
  bool add_meeting(int file, std::string path, std::string later) noexcept;

  /// Those sockets are gone: what lies there from now on is another process's.
  void forget_own() noexcept { count_.store(0); }

  /// Async-signal-safe.
  void remove_own() const noexcept;
  /// The same; then, unless the head still listens there, the folder with the sockets of who was
  /// killed.
  void remove() const noexcept;
  void clear() noexcept;

 private:
  std::array<wire::socket_file, 2> own_;      // for messages, and for bulk connections
  std::atomic<std::size_t> count_{0};         // of these; release: they are written
  std::array<wire::socket_file, 2> meeting_;  // one file, under both of its names
  std::atomic<bool> has_meeting_{false};      // release: it is written
  std::string folder_;
  std::atomic<bool> has_folder_{false};  // release: it is written
};

}  // namespace manta::inline v0::node
