// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <manta/base/sanitizers.hpp>

#include <catch2/catch.hpp>

#include "cluster/stopping.hpp"
#include "e2e/child.hpp"
#include "exec/support.hpp"
#include "folder.hpp"

// A place for jobs: folders and a token of their own, and no variable of whoever runs the tests.

namespace cluster_test {

using manta_test::happens;
using test::child;
using test::outcome;
using test::variables;

// Whether ThreadSanitizer looks, for which a long value is long.
inline constexpr bool has_tsan = MANTA_HAS_TSAN != 0;

inline const std::string program = MANTA_CLUSTER_PROGRAM;
inline const std::string tool = MANTA_TOOL;

/// What `manta nodes --json` says, but for what changes at any moment: how many tasks wait, and who
/// has been silent for long enough to be suspected.
inline std::string without_loads(std::string lines) {
  for (const std::string key : {"\"queued\":", "\"standing\":"}) {
    for (std::size_t at = 0; (at = lines.find(key, at)) != std::string::npos;) {
      lines.erase(at, lines.find_first_of(",}", at + key.size()) - at);
    }
  }
  return lines;
}

/// What a process has said, but for that it waits still: on a busy machine any may.
inline std::string without_waits(const std::string& said) {
  std::istringstream lines(said);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("goes on trying") == std::string::npos) out += line + "\n";
  }
  return out;
}

/// For who ends a node with that signal. Only one that is stopped is found by its silence, and no
/// other one is to be, however long the machine keeps it from its core.
inline std::string dead_after(int signal) {
  return signal == SIGSTOP ? "MANTA_DEAD_AFTER_MS=3000" : "MANTA_DEAD_AFTER_MS=15000";
}

/// For a process with a folder of its own: RocksDB is not built for ThreadSanitizer.
inline const std::string beside_rocksdb =
    "TSAN_OPTIONS=halt_on_error=1 report_thread_leaks=0 ignore_noninstrumented_modules=1";

class site {
 public:
  /// The variables of a process of a job here.
  variables with(const variables& more = {}) const {
    const std::string path = folder_.path().string();
    variables out{"XDG_RUNTIME_DIR=" + path, "XDG_CONFIG_HOME=" + path + "/config", "HOME=" + path,
                  "MANTA_WORKERS=1",
                  // An interrupted program ends beside the threads that end it.
                  "TSAN_OPTIONS=halt_on_error=1 report_thread_leaks=0"};
    for (const char* const name : {"MANTA_ADDRESS", "MANTA_NODES", "MANTA_RANK", "MANTA_TAKEN",
                                   "MANTA_WORLD_SIZE", "RANK", "WORLD_SIZE", "MANTA_CHECK"}) {
      out.emplace_back(name);
    }
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  outcome run(const std::vector<std::string>& words, const variables& more = {}) const {
    return child(words, with(more)).finish();
  }
  std::string path() const { return folder_.path().string(); }
  /// What jobs have there.
  std::vector<std::string> jobs() const {
    std::vector<std::string> out;
    std::error_code ignored;
    for (const auto& one :
         std::filesystem::directory_iterator(folder_.path() / "manta" / "jobs", ignored)) {
      out.push_back(one.path().filename().string());
    }
    return out;
  }
  /// The files of all of them.
  std::set<std::string> sockets() const {
    std::set<std::string> out;
    std::error_code ignored;
    for (const auto& one : std::filesystem::recursive_directory_iterator(
             folder_.path() / "manta" / "jobs", ignored)) {
      if (!one.is_directory(ignored)) out.insert(one.path().filename().string());
    }
    return out;
  }

 private:
  manta_test::folder folder_;
};

/// A port of this machine that nobody listens at now, nor is given before the test's program does:
/// below those that the kernel gives to who asks for any, and by this process's number, so that
/// tests beside this one try others.
inline std::string free_port() {
  constexpr int lowest = 10'000;
  int given_from = 32'768;  // the kernel's own
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> given_from;
  const int count = std::max(given_from, lowest + 1'000) - lowest;
  static int turn = 0;
  for (int tries = 0; tries < count; ++tries) {
    // Few ask for more than 16; the next process's are behind them.
    const int port = lowest + (getpid() * 16 + turn++) % count;
    const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    const bool is_free = bind(file, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
    close(file);
    if (is_free) return std::to_string(port);
  }
  FAIL("no port of this machine is free");
  return {};
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) {
    ++count;
  }
  return count;
}

/// From the lines "pid NAME NUMBER".
inline std::map<std::string, pid_t> pids_in(const std::string& text) {
  std::map<std::string, pid_t> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string mark;
    std::string name;
    pid_t pid = 0;
    if (words >> mark >> name >> pid && mark == "pid") out[name] = pid;
  }
  return out;
}

}  // namespace cluster_test
