// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <manta/spec/error.hpp>

#include "store/segment.hpp"

// What the stores of one user have on one machine, all together.
//
// Problem. Several nodes on a machine share its memory, and know nothing of each other. What one of
// them had must be free the moment it dies, by whatever.
//
// Idea. A file with a number for each store. A store holds a lock of the kernel on its number for
// as long as it lives; a number that nobody holds belonged to the dead and counts as zero. One more
// lock makes reading all and writing one's own a single step.
//
//     byte 0          8          16                    most_stores * 8
//     | bytes of a   | bytes of b | (dead)     | ...    | the step's lock
//       ^ locked by a  ^ by b       ^ free
//
// The locks belong to the open file (F_OFD_SETLK), not to the process: a child that is forked while
// it is open keeps them, so it is opened after the zygote was made.
//
// Limits: 512 stores of a user on a machine. Threads: any. Cost: about ten system calls to take,
// for each segment.

namespace manta::inline v0::store {

class quota {
 public:
  static constexpr std::size_t most_stores = 512;

  /// In a folder that only this user may enter; made if it is not there. `most_bytes` for all
  /// stores together, as this one sees it. invalid_config: the file can't be used, or all places
  /// are taken.
  static result<quota> open(const std::string& folder, std::uint64_t most_bytes);

  quota(quota&&) noexcept = default;
  quota& operator=(quota&&) = delete;

  /// So many more for this store. False: together they would have more than most_bytes.
  bool take(std::uint64_t bytes) const;
  void give(std::uint64_t bytes) const;
  /// Of all stores that live.
  std::uint64_t used() const;

 private:
  quota(descriptor file, std::size_t place, std::uint64_t most_bytes) noexcept
      : file_(std::move(file)), place_(place), most_bytes_(most_bytes) {}

  descriptor file_;
  std::size_t place_;
  std::uint64_t most_bytes_;
};

}  // namespace manta::inline v0::store
