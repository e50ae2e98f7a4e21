// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

// What the tests of spilled arrays do to a disk.

namespace test {

/// The files of this process below `folder` that have no name, by what /proc says: opened once
/// more.
inline std::vector<int> open_spill_files(const std::filesystem::path& folder) {
  std::vector<int> found;
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string at = std::filesystem::read_symlink(one.path(), gone).string();
    if (!at.starts_with(folder.string() + "/")) continue;
    const int file = open(one.path().c_str(), O_RDWR | O_CLOEXEC);
    if (file >= 0) found.push_back(file);
  }
  return found;
}

/// Calls spoil(file, bytes) for each of them that has any. How many there were.
template <class Spoil>
std::size_t spoil_spill_files(const std::filesystem::path& folder, Spoil&& spoil) {
  std::size_t count = 0;
  for (const int file : open_spill_files(folder)) {
    struct stat is {};
    if (fstat(file, &is) == 0 && is.st_size > 0) {
      spoil(file, is.st_size);
      ++count;
    }
    close(file);
  }
  return count;
}

/// Changes a byte of every 4096.
inline void flip_bytes(int file, off_t bytes) {
  for (off_t at = 0; at < bytes; at += 4096) {
    unsigned char byte = 0;
    if (pread(file, &byte, 1, at) != 1) return;
    byte ^= 0x10U;
    if (pwrite(file, &byte, 1, at) != 1) std::abort();
  }
}

/// The disk is full from here on: files of this process end at `most` bytes.
class full_disk {
 public:
  explicit full_disk(rlim_t most) {
    was_handled_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &was_);
    const rlimit now{most, was_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~full_disk() { empty(); }
  full_disk(const full_disk&) = delete;
  full_disk& operator=(const full_disk&) = delete;
  /// It has room again.
  void empty() {
    setrlimit(RLIMIT_FSIZE, &was_);
    std::signal(SIGXFSZ, was_handled_);
  }

 private:
  rlimit was_{};
  void (*was_handled_)(int) = nullptr;
};

}  // namespace test
