// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <netinet/in.h>

#include "wire/link_support.hpp"
#include "wire/proof.hpp"

// A place where links over TCP are accepted, and sockets that speak for no honest end.

namespace manta_test {

enum class guard { proof, tls };

inline wire::secret token_of(int digit) {
  std::array<std::byte, wire::secret::bytes> all;
  all.fill(static_cast<std::byte>(digit));
  return wire::secret(all);
}

inline wire::socket_settings settings_of(guard by, int token = 1) {
  wire::socket_settings out;
  out.trusts = *wire::trust::from(token_of(token), by == guard::proof);
  out.encrypts_loopback = by == guard::tls;
  return out;
}

class tcp_house {
 public:
  explicit tcp_house(const wire::socket_settings& how) : how_(how), loop_(*wire::loop::start({})) {
    auto opened = wire::socket_listener::open(
        *loop_, {.host = "127.0.0.1"}, someone(1),
        [this](link_ptr one, const wire::greeting&) {
          const std::lock_guard lock(mutex_);
          accepted_.push_back(std::move(one));
        },
        how);
    if (!opened) FAIL(opened.error().message());
    listener_ = *std::move(opened);
  }
  explicit tcp_house(guard by) : tcp_house(settings_of(by)) {}
  ~tcp_house() {
    listener_.reset();
    accepted_.clear();
  }
  tcp_house(const tcp_house&) = delete;
  tcp_house& operator=(const tcp_house&) = delete;

  wire::loop& loop() { return *loop_; }
  const wire::socket_address& address() const { return listener_->address(); }
  wire::listener_counts counts() const { return listener_->counts(); }
  link_ptr connect(const wire::greeting& as, const wire::socket_settings& how) {
    auto made = wire::connect(*loop_, {address()}, as, how);
    if (!made) FAIL(made.error().message());
    return *std::move(made);
  }
  link_ptr connect() { return connect(someone(2), how_); }
  link_ptr accept() {
    link_ptr out;
    happens([&] {
      const std::lock_guard lock(mutex_);
      if (accepted_.empty()) return false;
      out = std::move(accepted_.front());
      accepted_.erase(accepted_.begin());
      return true;
    });
    return out;
  }
  std::size_t waiting() {
    const std::lock_guard lock(mutex_);
    return accepted_.size();
  }
  std::pair<link_ptr, link_ptr> both() {
    link_ptr there = connect();
    return {std::move(there), accept()};
  }

 private:
  wire::socket_settings how_;
  std::mutex mutex_;
  std::vector<link_ptr> accepted_;
  std::unique_ptr<wire::loop> loop_;
  std::unique_ptr<wire::socket_listener> listener_;
};

/// A connection over TCP without anything of ours.
class raw_tcp {
 public:
  explicit raw_tcp(const wire::socket_address& to)
      : file_(socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (::connect(file_, to.get(), to.size()) != 0) FAIL("no connection");
    const timeval most{60, 0};
    setsockopt(file_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  }
  ~raw_tcp() { close(file_); }
  raw_tcp(const raw_tcp&) = delete;
  raw_tcp& operator=(const raw_tcp&) = delete;

  void send(std::span<const std::byte> what) const {
    static_cast<void>(::send(file_, what.data(), what.size(), MSG_NOSIGNAL) == 0);
  }
  void finish() const { shutdown(file_, SHUT_WR); }
  /// So many bytes, fewer when the other end closes before.
  bytes receive(std::size_t size) const {
    bytes out(size);
    std::size_t done = 0;
    while (done < size) {
      const ssize_t got = recv(file_, out.data() + done, size - done, 0);
      if (got <= 0) break;
      done += static_cast<std::size_t>(got);
    }
    out.resize(done);
    return out;
  }
  /// All that comes until the other end closes.
  bytes rest() const { return receive(1 << 20); }

 private:
  int file_;
};

}  // namespace manta_test
