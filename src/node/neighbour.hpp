// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include <manta/spec/error.hpp>

#include "store/segment.hpp"

// Another process of this machine whose segments can be mapped here.
//
// Problem. Nodes speak over sockets that take no descriptors, and a segment has no name.
// Idea. Who has a descriptor open lets others of its user open the same file below /proc. That
// needs one pid namespace, one user and one machine, which both say of themselves in one number;
// a number of a process may be given again, so a pidfd says whether it is still that one.
//
// Threads: any.

namespace manta::inline v0::node {

/// Of this process: the boot of its kernel, its namespaces of pids and users, its user. 0: one of
/// them can't be found, or others can't find its files below /proc.
std::uint64_t machine_number() noexcept;

class neighbour {
 public:
  /// Null: there is no such process, or this one may not open its files.
  static std::shared_ptr<const neighbour> find(std::uint32_t pid);

  /// Nothing of its memory is mapped there any more; its isolated workers end a moment later.
  bool has_exited() const noexcept;
  /// The segment that it has open as `file`, whose inode ends in these 32 bits. node_lost: it has
  /// exited. decode_failed: that is no such segment, or there are too few descriptors. store_full:
  /// it can't be mapped.
  result<store::segment_view> map(std::uint32_t file, std::uint32_t inode) const;

  /// Use find().
  neighbour(std::uint32_t pid, store::descriptor handle) noexcept
      : pid_(pid), handle_(std::move(handle)) {}

 private:
  const std::uint32_t pid_;
  const store::descriptor handle_;
};

/// The last 32 bits of an open file's inode. 0: they can't be told.
std::uint32_t inode_of(int file) noexcept;

}  // namespace manta::inline v0::node
