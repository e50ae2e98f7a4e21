// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "control/backends.hpp"

// What the tests of a store on a disk share: batches that tell by themselves whether one is
// missing, files as a crash leaves them, and a program that is killed.

namespace test_control {

namespace fs = std::filesystem;
using control::durability;
using control::store;

inline std::string number(std::size_t n) {
  std::string out = std::to_string(n);
  return std::string(8 - out.size(), '0') + out;
}

/// Batch n of a log: its own key, and a counter that tells which was the last.
inline control::batch batch_of(std::size_t n, durability how = durability::buffered) {
  return {.changes = {put("log/" + number(n), "value " + std::to_string(n * n)),
                      put("last", std::to_string(n))},
          .how = how};
}

/// The batches that are there; -1 when they are not the first ones, all of them, as they were.
inline int prefix_length(store& s) {
  const auto all = scan_all(s, "log/", 1000);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].key != "log/" + number(i + 1)) return -1;
    if (all[i].value != "value " + std::to_string((i + 1) * (i + 1))) return -1;
    if (all[i].at != i + 1) return -1;
  }
  const auto last = read(s, {"last"});
  if (!last || last->at != all.size()) return -1;
  const auto& counter = last->records[0];
  if ((counter ? counter->value : "0") != std::to_string(all.size())) return -1;
  return static_cast<int>(all.size());
}

inline std::vector<fs::path> files_of(const std::string& path, const std::string& extension) {
  std::vector<fs::path> out;
  for (const auto& one : fs::directory_iterator(path)) {
    if (one.path().extension() == extension) out.push_back(one.path());
  }
  return out;
}

inline std::set<fs::path> names_in(const std::string& path) {
  std::set<fs::path> out;
  for (const auto& one : fs::directory_iterator(path)) out.insert(one.path());
  return out;
}

/// A store whose process died: its files as they were before it was closed. When its background
/// threads write or delete one meanwhile the copy is of no moment, and made again.
inline void copy_as_after_a_crash(const std::string& from, const std::string& to) {
  for (int tries = 0;; ++tries) {
    fs::remove_all(to);
    const std::set<fs::path> before = names_in(from);
    std::error_code gone;
    fs::copy(from, to, fs::copy_options::recursive, gone);
    if (!gone && names_in(from) == before) break;
    if (tries == 100) FAIL("no copy of " << from << " was of one moment: " << gone.message());
  }
  fs::remove(fs::path(to) / "LOCK");
}

/// Changes one bit of a file.
inline void flip_bit(const fs::path& file, std::size_t at, std::size_t bit) {
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekg(static_cast<std::streamoff>(at));
  const char before = static_cast<char>(bytes.get());
  bytes.seekp(static_cast<std::streamoff>(at));
  bytes.put(static_cast<char>(before ^ (1 << bit)));
}

/// The program that writes, as a child of this process.
class writer_process {
 public:
  writer_process(const std::string& store, const std::string& log) : pid_(fork()) {
    if (pid_ != 0) return;
    execl(MANTA_STORE_WRITER, MANTA_STORE_WRITER, store.c_str(), log.c_str(), nullptr);
    _exit(127);
  }
  writer_process(const writer_process&) = delete;
  writer_process& operator=(const writer_process&) = delete;
  ~writer_process() {
    if (pid_ > 0) end_by(SIGKILL);
  }
  /// How it ended, as waitpid says it.
  int end_by(int signal) {
    kill(pid_, signal);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_;
};

/// The number of the last line that was written whole.
inline std::size_t last_in_log(const std::string& log) {
  std::ifstream in(log);
  std::string line;
  std::size_t last = 0;
  while (std::getline(in, line)) {
    if (line.size() == 8) last = std::stoul(line);
  }
  return last;
}

}  // namespace test_control
