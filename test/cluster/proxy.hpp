// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

// A path between two ends of TCP that is not what they think: it is slow, hands bytes on in shreds,
// keeps all to itself, resets connections, ends them in one direction, or lets nobody in. What TCP
// promises it keeps: order, and nothing twice.

namespace cluster_test {

class proxy {
 public:
  struct faults {
    std::atomic<int> delay_ms{0};     ///< each way
    std::atomic<bool> shreds{false};  ///< 1 to 7 bytes at a time
    std::atomic<bool> stalls{false};  ///< nothing goes, nobody is told
    std::atomic<int> lives_ms{0};     ///< then both ends of a connection get a reset; 0: never
    std::atomic<bool> shuts{false};   ///< who connects is not let in, and not told
  };

  /// Between who connects to address() and `port` of this machine.
  explicit proxy(std::uint16_t port) : to_(port), listener_(bound()) {
    thread_ = std::thread([this] { run(); });
  }
  proxy(const proxy&) = delete;
  proxy& operator=(const proxy&) = delete;
  ~proxy() {
    is_over_ = true;
    thread_.join();
    for (const way& one : ways_) end(one);
    close(listener_);
  }

  std::string address() const {
    sockaddr_in at{};
    socklen_t size = sizeof at;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size);
    return "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  }
  faults& having() { return faults_; }
  std::uint64_t bytes() const { return bytes_; }
  /// That came to be.
  std::uint64_t connections() const { return connections_; }
  /// Of all connections that are: who has connected hears that nothing more comes, and may speak.
  void half_close() { half_closes_ = true; }
  /// Both ends of all connections that are get a reset; returns when they have.
  void reset_all() {
    resets_ = true;
    while (resets_) std::this_thread::yield();
  }

 private:
  using clock = std::chrono::steady_clock;
  struct piece {
    clock::time_point due;
    std::vector<char> bytes;
  };
  struct way {
    int ends[2];
    std::deque<piece> under_way[2];  // from either end to the other
    clock::time_point born = clock::now();
    bool is_half = false;  // nothing goes to ends[0], who has connected
  };

  static int bound() {
    const int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(file, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 ||
        listen(file, 16) != 0) {
      FAIL("no place for a proxy");
    }
    return file;
  }
  static void end(const way& one) {
    for (const int file : one.ends) close(file);
  }
  void accept_one() {
    const int here = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    const int there = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(to_);
    if (connect(there, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
      close(here);
      close(there);
      return;
    }
    // Or pieces would wait for each other.
    const int yes = 1;
    for (const int file : {here, there}) {
      setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    }
    way& made = ways_.emplace_back();
    made.ends[0] = here;
    made.ends[1] = there;
    ++connections_;
  }
  static void reset(const way& one) {
    const linger at_once{1, 0};
    for (const int file : one.ends) {
      setsockopt(file, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
  }
  // False: the connection is over.
  bool read_from(way& one, int side) {
    char some[4096];
    const ssize_t got = recv(one.ends[side], some, sizeof some, MSG_DONTWAIT);
    if (got == 0) return false;
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    const auto due = clock::now() + std::chrono::milliseconds(faults_.delay_ms);
    one.under_way[side].push_back({due, {some, some + got}});
    return true;
  }
  bool write_due(way& one, int from) {
    std::deque<piece>& queue = one.under_way[from];
    for (int turns = 0; turns < 64 && !queue.empty() && queue.front().due <= clock::now();
         ++turns) {
      std::vector<char>& bytes = queue.front().bytes;
      if (from == 1 && one.is_half) {
        queue.pop_front();
        continue;
      }
      const std::size_t most = faults_.shreds ? 1 + bytes_ % 7 : bytes.size();
      const ssize_t sent = send(one.ends[1 - from], bytes.data(), std::min(most, bytes.size()),
                                MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0) return errno == EAGAIN || errno == EINTR;
      bytes_ += static_cast<std::uint64_t>(sent);
      bytes.erase(bytes.begin(), bytes.begin() + sent);
      if (bytes.empty()) queue.pop_front();
    }
    return true;
  }
  bool serve(way& one) {
    const int lives = faults_.lives_ms;
    if (lives > 0 && clock::now() - one.born >= std::chrono::milliseconds(lives)) {
      reset(one);
      return false;
    }
    for (int side = 0; side < 2; ++side) {
      if (!read_from(one, side) || !write_due(one, side)) return false;
    }
    return true;
  }
  void run() {
    while (!is_over_) {
      pollfd door{faults_.shuts ? -1 : listener_, POLLIN, 0};
      if (poll(&door, 1, 1) == 1) accept_one();
      if (faults_.stalls) continue;
      if (half_closes_.exchange(false)) {
        for (way& one : ways_) one.is_half = shutdown(one.ends[0], SHUT_WR) == 0;
      }
      const bool all_go = resets_;
      for (auto at = ways_.begin(); at != ways_.end();) {
        if (all_go) reset(*at);
        if (!all_go && serve(*at)) {
          ++at;
        } else {
          end(*at);
          at = ways_.erase(at);
        }
      }
      if (all_go) resets_ = false;
    }
  }

  const std::uint16_t to_;
  const int listener_;
  faults faults_;
  std::atomic<bool> is_over_{false};
  std::atomic<bool> half_closes_{false};
  std::atomic<bool> resets_{false};
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> connections_{0};
  std::list<way> ways_;  // the thread's
  std::thread thread_;
};

}  // namespace cluster_test
