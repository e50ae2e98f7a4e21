// SPDX-License-Identifier: Apache-2.0
#include "node/child_nodes.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/own_program.hpp"

namespace manta::inline v0::node {

namespace {

std::string describe_exit(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

// Without a descriptor by its number, which is nobody else's until this process has waited for it.
void kill_child(pid_t pid, int life) noexcept {
  if (life >= 0) {
    syscall(SYS_pidfd_send_signal, life, SIGKILL, nullptr, 0);
  } else {
    ::kill(pid, SIGKILL);
  }
}

}  // namespace

result<void> child_nodes::start(int count, const std::string& job, const std::string& address) {
  for (int rank = 1; rank < count; ++rank) {
    child one{.rank = rank};
    const int failed = start_own_program({.variables = {{"MANTA_RANK", std::to_string(rank)},
                                                        {"MANTA_WORLD_SIZE", std::to_string(count)},
                                                        {"MANTA_JOB", job},
                                                        {"MANTA_ROLE", ""},
                                                        {"MANTA_LISTEN", ""},
                                                        {"MANTA_MEMBER_NAME", ""},
                                                        {"MANTA_ADDRESS", address}},
                                          .reads_nothing = true},
                                         one.pid);
    if (failed != 0) {
      end(duration());
      return error(errc::worker_lost,
                   fmt::format("nodes: asked to start node {} of {}, found: {}; ask for fewer, or "
                               "raise the limit of processes",
                               rank, count, std::strerror(failed)));
    }
    one.life = static_cast<int>(syscall(SYS_pidfd_open, one.pid, 0));
    all_.push_back(one);
  }
  return {};
}

std::optional<error> child_nodes::failure(const std::function<bool(int rank)>& has_joined) {
  for (const child& one : all_) {
    siginfo_t is{};
    const bool has_ended =
        waitid(P_PID, static_cast<id_t>(one.pid), &is, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        is.si_pid == one.pid;
    if (!has_ended || has_joined(one.rank)) continue;
    const int status = is.si_code == CLD_EXITED ? is.si_status << 8 : is.si_status;
    return error(errc::worker_lost,
                 fmt::format("nodes: node {} (pid {}) ended with {} before it had joined; look at "
                             "what it printed: main has to come to its manta::runtime there, too",
                             one.rank, one.pid, describe_exit(status)));
  }
  return std::nullopt;
}

void child_nodes::end(std::optional<duration> limit) noexcept {
  const base::time_point until = base::after(limit.value_or(duration()));
  for (const child& one : all_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - base::now()).count();
    pollfd life{one.life, POLLIN, 0};
    const bool may_wait = one.life >= 0 && left > 0;
    const bool has_to_end = limit && (!may_wait || poll(&life, 1, static_cast<int>(left)) != 1);
    if (has_to_end) kill_child(one.pid, one.life);
    while (waitpid(one.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    if (one.life >= 0) close(one.life);
  }
  all_.clear();
}

}  // namespace manta::inline v0::node
