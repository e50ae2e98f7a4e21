// SPDX-License-Identifier: Apache-2.0
//
// Raw TCP between two processes of this machine.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>

#include "harness/measure.hpp"

namespace bench {

// A socket of its own port of this machine's loopback, which listens if it is to; whoever calls
// closes it.
inline int loopback_socket(sockaddr_in& at, bool listens) {
  const int out = socket(AF_INET, SOCK_STREAM, 0);
  at = {};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  auto* const address = reinterpret_cast<sockaddr*>(&at);
  check(bind(out, address, size) == 0 && (!listens || listen(out, 1) == 0), "a socket");
  check(getsockname(out, address, &size) == 0, "its port");
  return out;
}

// Two connected ends of TCP on this machine.
inline void tcp_pair(int (&ends)[2]) {
  sockaddr_in at{};
  const int listener = loopback_socket(at, true);
  ends[0] = socket(AF_INET, SOCK_STREAM, 0);
  check(connect(ends[0], reinterpret_cast<sockaddr*>(&at), sizeof at) == 0, "a connection");
  ends[1] = accept(listener, nullptr, nullptr);
  check(ends[1] >= 0, "its other end");
  close(listener);
  for (const int end : ends) {
    const int yes = 1;
    setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  }
}

// A port on which nobody listens, unless somebody takes it before the caller does.
inline int free_tcp_port() {
  sockaddr_in at{};
  close(loopback_socket(at, false));
  return ntohs(at.sin_port);
}

// A copy of this process that does `work`. It ends with its owner, and with the process of that.
class forked {
 public:
  template <class Work>
  explicit forked(Work work) : pid_(fork()) {
    check(pid_ >= 0, "a process");
    if (pid_ > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    work();
    _exit(0);
  }
  ~forked() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  forked(const forked&) = delete;
  forked& operator=(const forked&) = delete;

 private:
  pid_t pid_;
};

// False when the other end is closed.
inline bool write_all(int file, const char* from, std::size_t size) {
  while (size > 0) {
    const ssize_t now = write(file, from, size);
    if (now <= 0) return false;
    from += now;
    size -= static_cast<std::size_t>(now);
  }
  return true;
}
inline bool read_all(int file, char* to, std::size_t size) {
  while (size > 0) {
    const ssize_t now = read(file, to, size);
    if (now <= 0) return false;
    to += now;
    size -= static_cast<std::size_t>(now);
  }
  return true;
}

}  // namespace bench
