// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <manta/base/sanitizers.hpp>

#include <catch2/catch.hpp>

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

/// What `manta nodes --json` says, but for how many tasks wait, which changes at any moment.
inline std::string without_loads(std::string lines) {
  static const std::string key = "\"queued\":";
  for (std::size_t at = 0; (at = lines.find(key, at)) != std::string::npos;) {
    lines.erase(at, lines.find_first_not_of("0123456789", at + key.size()) - at);
  }
  return lines;
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

 private:
  manta_test::folder folder_;
};

/// A port of this machine that nobody listens at now.
inline std::string free_port() {
  const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  REQUIRE(bind(file, reinterpret_cast<const sockaddr*>(&at), size) == 0);
  REQUIRE(getsockname(file, reinterpret_cast<sockaddr*>(&at), &size) == 0);
  close(file);
  return std::to_string(ntohs(at.sin_port));
}

inline bool is_there(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string word;
  for (int i = 0; i < 3; ++i) file >> word;
  return file && word != "Z";
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
