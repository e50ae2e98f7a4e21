// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "exec/support.hpp"
#include "folder.hpp"
#include "wire/link.hpp"
#include "wire/loop.hpp"
#include "wire/ring_link.hpp"
#include "wire/socket_link.hpp"
#include "wire/socket_listener.hpp"

// What the tests of links share: both ends of one, for each body.

namespace manta_test {

namespace wire = manta::wire;
using bytes = std::vector<std::byte>;
using link_ptr = std::unique_ptr<wire::link>;

inline constexpr std::chrono::seconds long_time{60};

inline wire::greeting someone(std::uint64_t sender) {
  wire::greeting out;
  out.cluster = {7, 7};
  out.sender = {sender, 1};
  out.epoch = 1;
  return out;
}

/// A message of `size` bytes that says which it is.
inline bytes message(std::uint64_t number, std::size_t size = 16) {
  bytes out(size, static_cast<std::byte>(number));
  std::memcpy(out.data(), &number, std::min(size, sizeof number));
  return out;
}
inline std::uint64_t number_of(std::span<const std::byte> of) {
  std::uint64_t number = 0;
  std::memcpy(&number, of.data(), std::min(of.size(), sizeof number));
  return number;
}

inline manta::result<void> send(wire::link& to, std::span<const std::byte> what) {
  return to.send({&what, 1}, what.size());
}

/// The next message, or nothing when the link ends or there is none for a long time.
inline std::optional<bytes> receive(wire::link& from, std::chrono::seconds within = long_time) {
  wire::frame_buffer frame;
  const auto end = std::chrono::steady_clock::now() + within;
  for (;;) {
    switch (from.take(frame)) {
      case wire::link::got::message:
        return bytes(frame.bytes().begin(), frame.bytes().end());
      case wire::link::got::ended:
        return std::nullopt;
      case wire::link::got::nothing:
        break;
    }
    const auto left = end - std::chrono::steady_clock::now();
    if (left.count() <= 0 || !from.wait(left)) return std::nullopt;
  }
}

/// Waits for the link's end, and says its reason.
inline std::optional<manta::errc> end_of(wire::link& of) {
  wire::frame_buffer frame;
  const bool is_over = happens([&] {
    if (of.take(frame) == wire::link::got::nothing) of.wait(std::chrono::milliseconds(10));
    return of.state().ended.has_value();
  });
  if (!is_over) return std::nullopt;
  return of.state().ended->code();
}

/// A place where sockets' links are accepted.
class socket_house {
 public:
  explicit socket_house(const wire::socket_settings& how = {},
                        const wire::loop::settings& looks = {std::chrono::microseconds(0)})
      : how_(how), loop_(*wire::loop::start(looks)) {
    auto opened = wire::socket_listener::open(
        *loop_, {.path = path()}, someone(1),
        [this](link_ptr one, const wire::greeting& peer) {
          const std::lock_guard lock(mutex_);
          accepted_.emplace_back(std::move(one), peer);
        },
        how);
    if (!opened) FAIL(opened.error().message());
    listener_ = *std::move(opened);
  }
  ~socket_house() {
    listener_.reset();
    const std::lock_guard lock(mutex_);
    accepted_.clear();
  }
  socket_house(const socket_house&) = delete;
  socket_house& operator=(const socket_house&) = delete;

  std::string path() const { return (folder_.path() / "sockets" / "a").string(); }
  wire::loop& loop() { return *loop_; }
  void end_loop() { loop_.reset(); }
  void close() { listener_.reset(); }
  wire::listener_counts counts() const { return listener_->counts(); }

  link_ptr connect(std::uint64_t sender = 2) { return connect(sender, how_); }
  link_ptr connect(std::uint64_t sender, const wire::socket_settings& how) {
    auto made = wire::connect(*loop_, path(), someone(sender), how);
    if (!made) return nullptr;
    return *std::move(made);
  }
  /// The next link that was accepted; null when there is none for a long time.
  link_ptr accept() {
    link_ptr out;
    happens([&] {
      const std::lock_guard lock(mutex_);
      if (accepted_.empty()) return false;
      out = std::move(accepted_.front().first);
      accepted_.erase(accepted_.begin());
      return true;
    });
    return out;
  }
  /// Both ends of a link.
  std::pair<link_ptr, link_ptr> both() {
    link_ptr there = connect();
    return {std::move(there), accept()};
  }

 private:
  folder folder_;
  wire::socket_settings how_;
  std::mutex mutex_;
  std::vector<std::pair<link_ptr, wire::greeting>> accepted_;
  std::unique_ptr<wire::loop> loop_;
  std::unique_ptr<wire::socket_listener> listener_;
};

/// A socket without anything of ours, for what no honest end sends.
class raw_socket {
 public:
  explicit raw_socket(const std::string& path)
      : file_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path, path.data(), path.size());
    is_connected_ = ::connect(file_, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
  }
  ~raw_socket() { close(file_); }
  raw_socket(const raw_socket&) = delete;
  raw_socket& operator=(const raw_socket&) = delete;

  bool is_connected() const { return is_connected_; }
  bool send(std::span<const std::byte> what) const {
    return ::send(file_, what.data(), what.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(what.size());
  }
  void finish() const { shutdown(file_, SHUT_WR); }
  void greet(const wire::greeting& as) const { send(wire::to_bytes(as)); }
  /// Reads until the other end closes; false when it does not within a minute.
  bool is_closed() const {
    const timeval most{60, 0};
    setsockopt(file_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    std::byte some[4096];
    for (;;) {
      const ssize_t got = recv(file_, some, sizeof some, 0);
      if (got == 0 || (got < 0 && errno == ECONNRESET)) return true;
      if (got < 0) return false;
    }
  }

 private:
  int file_;
  bool is_connected_ = false;
};

}  // namespace manta_test
