// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/support.hpp"

// Programs as processes of their own.

namespace test {

struct outcome {
  int status = -1;         // exit code, or 128 and the signal
  bool is_killed = false;  // by that
  std::string out;
  std::string err;
};

using variables = std::vector<std::string>;

/// A program as a child of this process, in a group of its own, with its output in pipes.
class child {
 public:
  /// A variable without `=` is taken away.
  child(std::vector<std::string> words, const variables& environment) {
    int out[2];
    int err[2];
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) std::abort();
    std::vector<char*> argv;
    for (std::string& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      setpgid(0, 0);
      dup2(out[1], 1);
      dup2(err[1], 2);
      for (const std::string& v : environment) putenv(const_cast<char*>(v.c_str()));
      execvp(argv[0], argv.data());
      _exit(127);
    }
    close(out[1]);
    close(err[1]);
    out_ = out[0];
    err_ = err[0];
  }
  child(const child&) = delete;
  child& operator=(const child&) = delete;
  ~child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(out_);
    close(err_);
  }
  pid_t pid() const { return pid_; }
  /// What was read.
  const outcome& so_far() const { return result_; }

  /// Reads stdout until it contains `text` so many times; false at the deadline or the end.
  bool says(const std::string& text, std::size_t times = 1) {
    return read_until([&] {
      std::size_t found = 0;
      std::size_t at = 0;
      for (; found < times && (at = result_.out.find(text, at)) != std::string::npos; ++at) ++found;
      return found == times;
    });
  }
  /// The same of stderr.
  bool complains(const std::string& text) {
    return read_until([&] { return result_.err.find(text) != std::string::npos; });
  }
  /// Reads to the end and waits for the process.
  outcome finish() {
    if (!read_until([] { return false; }) && !is_over_) kill(pid_, SIGKILL);
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    result_.is_killed = WIFSIGNALED(status);
    result_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result_;
  }

 private:
  template <class Done>
  bool read_until(Done done) {
    // The slow suite's programs have more to do.
    const int full = std::getenv("MANTA_TEST_FULL") != nullptr ? 9 : 1;
    const auto end = std::chrono::steady_clock::now() + full * test::patience;
    bool is_open[2] = {true, true};
    while (!done()) {
      if (!is_open[0] && !is_open[1]) {
        is_over_ = true;
        return false;
      }
      if (std::chrono::steady_clock::now() > end) return false;
      pollfd fds[2] = {{is_open[0] ? out_ : -1, POLLIN, 0}, {is_open[1] ? err_ : -1, POLLIN, 0}};
      if (poll(fds, 2, 1000) <= 0) continue;
      for (int i = 0; i < 2; ++i) {
        if ((fds[i].revents & (POLLIN | POLLHUP)) == 0) continue;
        char buffer[4096];
        const ssize_t n = read(fds[i].fd, buffer, sizeof(buffer));
        if (n <= 0) {
          is_open[i] = false;
        } else {
          (i == 0 ? result_.out : result_.err).append(buffer, static_cast<std::size_t>(n));
        }
      }
    }
    return true;
  }

  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  bool is_over_ = false;
  outcome result_;
};

#ifdef MANTA_E2E_PROGRAM
/// The test program (program.cpp) with these arguments.
inline std::vector<std::string> program(const std::vector<std::string>& arguments) {
  std::vector<std::string> words{MANTA_E2E_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return words;
}

inline outcome run(const std::vector<std::string>& arguments, const variables& environment = {}) {
  return child(program(arguments), environment).finish();
}
#endif

}  // namespace test
