// SPDX-License-Identifier: Apache-2.0
//
// A unix socket, or TCP, between two processes on two cores, each asleep in epoll_wait until bytes
// come: the least that a message over sockets can cost here.
#include <memory>
#include <vector>

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/measure.hpp"
#include "rivals/pinned.hpp"
#include "rivals/rows.hpp"
#include "rivals/tcp.hpp"

namespace bench {
namespace {

constexpr std::size_t message_bytes = 128;

/// One end of the socket, and the epoll that sleeps on it.
class sleeper {
 public:
  explicit sleeper(int file) : file_(file), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    fcntl(file_, F_SETFL, O_NONBLOCK);
    epoll_event on{};
    on.events = EPOLLIN;
    epoll_ctl(epoll_, EPOLL_CTL_ADD, file_, &on);
  }
  ~sleeper() { close(epoll_); }
  sleeper(const sleeper&) = delete;
  sleeper& operator=(const sleeper&) = delete;

  void send(std::size_t bytes) {
    std::size_t done = 0;
    while (done < bytes) {
      const ssize_t now = write(file_, memory_.data(), std::min(bytes - done, memory_.size()));
      if (now > 0) done += static_cast<std::size_t>(now);
    }
  }
  std::size_t receive() {
    for (;;) {
      const ssize_t got = read(file_, memory_.data(), memory_.size());
      if (got > 0) return static_cast<std::size_t>(got);
      if (got == 0) _exit(0);
      epoll_event one{};
      epoll_wait(epoll_, &one, 1, -1);
    }
  }

 private:
  int file_;
  int epoll_;
  std::vector<char> memory_ = std::vector<char>(std::size_t{64} << 10U);
};

class echo_process {
 public:
  explicit echo_process(bool is_tcp) {
    if (is_tcp) {
      tcp_pair(files_);
    } else {
      check(socketpair(AF_UNIX, SOCK_STREAM, 0, files_) == 0, "a socketpair");
    }
    pid_ = fork();
    if (pid_ == 0) {
      pin_to(1);
      close(files_[0]);
      sleeper end(files_[1]);
      for (;;) end.send(end.receive());
    }
    pin_to(0);
    close(files_[1]);
    end_ = std::make_unique<sleeper>(files_[0]);
  }
  ~echo_process() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(files_[0]);
  }
  echo_process(const echo_process&) = delete;
  echo_process& operator=(const echo_process&) = delete;

  void round_trip(std::size_t messages) {
    const std::size_t bytes = messages * message_bytes;
    end_->send(bytes);
    std::size_t got = 0;
    while (got < bytes) got += end_->receive();
    check(got == bytes, "bytes that came back");
  }

 private:
  int files_[2] = {-1, -1};
  pid_t pid_ = 0;
  std::unique_ptr<sleeper> end_;
};

}  // namespace

void add_epoll(suite& s) {
  add_round_trips(s, "unix socket, epoll", side::reference,
                  [] { return std::make_shared<echo_process>(false); });
  add_round_trips(s, "TCP, epoll", side::reference,
                  [] { return std::make_shared<echo_process>(true); });
}

void add_epoll_calls(suite& s) {
  for (const char* const row : {cluster_far_one, cluster_call_one}) {
    contestant c{row, "TCP, epoll", side::reference};
    c.start = [](const plan& p) -> body {
      const std::size_t count = p.quick ? 100 : 5000;
      const auto echo = std::make_shared<echo_process>(true);
      return [=](const turn&) {
        return time_per_operation(unit::microseconds, count, [&] {
          for (std::size_t i = 0; i < count; ++i) echo->round_trip(1);
        });
      };
    };
    s.add(std::move(c));
  }
}

}  // namespace bench
