// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <manta/spec/error.hpp>

#include "store/segment.hpp"

// Objects on a disk, while memory has no room for them.
//
// Problem. What is spilled has to come back exactly, or not at all: disks fill, lose and flip. It
// is needed by this process alone, and nothing may be left of it, whoever dies. Many small writes
// are slow.
//
// Idea. Files without a name (O_TMPFILE; where a file system has none, a name that is removed at
// once): they end with the process. Objects are appended many in one write, each with a checksum
// that is kept in memory, where a damaged file can't reach it. What an object leaves when it ends
// is punched out of its file, so that the disk holds what lives and no more; a file goes when
// nothing in it lives, which also bounds it where holes can't be punched.
//
//     file 0   |  a  | (hole) |   c   |         file 1   |  d  |  e  |  -> appended
//
// Threads: any; writes are one after the other, reads at the same time as they.

namespace manta::inline v0::store {

/// Where an object lies on the disk, and what it has to be.
struct spilled {
  std::uint32_t file = 0;
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;  ///< XXH3, 64 bits
};

class spill_files {
 public:
  /// Files are begun in `folder`, at most `most_bytes` live in them, and a new one begins after
  /// `file_bytes`. invalid_config: nothing can be written there.
  static result<std::unique_ptr<spill_files>> open(std::string folder, std::uint64_t most_bytes,
                                                   std::uint64_t file_bytes = std::uint64_t{1}
                                                                              << 30U);

  spill_files(const spill_files&) = delete;
  spill_files& operator=(const spill_files&) = delete;

  /// All of them or none, in one write. store_full: the disk or `most_bytes` has no room.
  /// storage_failed: the disk failed. Waits for the disk's cache, not for the disk.
  result<std::vector<spilled>> write(std::span<const std::span<const std::byte>> objects);
  /// Into `to`, which has as many bytes. object_lost: they are not what was written.
  result<void> read(const spilled& of, std::span<std::byte> to) const;
  /// Its room is given back.
  void forget(const spilled& of);

  /// Of objects that live.
  std::uint64_t bytes() const;

 private:
  struct file {
    descriptor on;
    std::uint32_t number = 0;
    std::uint64_t end = 0;    // of what was written
    std::uint64_t lives = 0;  // objects
  };

  spill_files(std::string folder, std::uint64_t most_bytes, std::uint64_t file_bytes)
      : folder_(std::move(folder)), most_bytes_(most_bytes), file_bytes_(file_bytes) {}

  result<std::shared_ptr<file>> current();
  error no_room(std::uint64_t asked, const std::string& why) const;

  const std::string folder_;
  const std::uint64_t most_bytes_;
  const std::uint64_t file_bytes_;
  std::mutex writing_;        // one write at a time
  mutable std::mutex mutex_;  // of what follows; never held while the disk works
  std::map<std::uint32_t, std::shared_ptr<file>> files_;
  std::uint32_t next_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace manta::inline v0::store
