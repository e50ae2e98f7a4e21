// SPDX-License-Identifier: Apache-2.0
#include "wire/watched_socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <kj/timer.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace manta::inline v0::wire {

namespace {

struct room_watcher {
  room_watcher(kj::UnixEventPort& port, kj::AutoCloseFd copy)
      : file(kj::mv(copy)), observer(port, file, kj::UnixEventPort::FdObserver::OBSERVE_WRITE) {}

  kj::AutoCloseFd file;
  kj::UnixEventPort::FdObserver observer;
};

void take_off(std::span<std::span<const std::byte>>& left, std::size_t sent) noexcept {
  while (!left.empty() && sent >= left.front().size()) {
    sent -= left.front().size();
    left = left.subspan(1);
  }
  if (!left.empty()) left.front() = left.front().subspan(sent);
}

}  // namespace

result<void> watched_socket::encrypt(std::shared_ptr<const tls_identity> self,
                                     tls_session::side at) {
  result<std::unique_ptr<tls_session>> made = tls_session::start(std::move(self), file_, at);
  if (!made) return made.error();
  tls_ = *std::move(made);
  return {};
}

watched_socket::step watched_socket::step_of(tls_session::step is) {
  wants_room_ = is == tls_session::step::wants_write;
  switch (is) {
    case tls_session::step::done:
      return step::done;
    case tls_session::step::wants_read:
    case tls_session::step::wants_write:
      return step::later;
    case tls_session::step::failed:
      has_failed_ = true;
      break;
    case tls_session::step::closed:
      break;
  }
  return step::closed;
}

watched_socket::step watched_socket::negotiate() { return step_of(tls_->handshake()); }

watched_socket::step watched_socket::receive(std::span<std::byte> to, std::size_t& got) {
  if (tls_ != nullptr) return step_of(tls_->read(to, got));
  for (;;) {
    const ssize_t now = recv(file_, to.data(), to.size(), MSG_DONTWAIT);
    if (now > 0) {
      got = static_cast<std::size_t>(now);
      return step::done;
    }
    if (now < 0 && errno == EINTR) continue;
    if (now < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return step::later;
    if (now < 0) was_reset_ = true;
    return step::closed;
  }
}

watched_socket::step watched_socket::send(std::span<std::span<const std::byte>>& left) {
  if (tls_ != nullptr) return send_encrypted(left);
  while (!left.empty()) {
    std::array<iovec, 64> parts;
    const std::size_t count = std::min(left.size(), parts.size());
    for (std::size_t i = 0; i < count; ++i) {
      parts[i] = {const_cast<std::byte*>(left[i].data()), left[i].size()};
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent = sendmsg(file_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return step::later;
    if (sent < 0 && errno != EPIPE) was_reset_ = true;
    if (sent < 0) return step::closed;
    take_off(left, static_cast<std::size_t>(sent));
  }
  return step::done;
}

// Of TLS 1.3 what is written does not wait for what is to be read.
watched_socket::step watched_socket::send_encrypted(std::span<std::span<const std::byte>>& left) {
  while (!left.empty()) {
    if (left.front().empty()) {
      left = left.subspan(1);
      continue;
    }
    std::size_t sent = 0;
    switch (tls_->write(left.front(), sent)) {
      case tls_session::step::done:
        take_off(left, sent);
        break;
      case tls_session::step::wants_write:
        return step::later;
      case tls_session::step::failed:
        has_failed_ = true;
        return step::closed;
      case tls_session::step::wants_read:
      case tls_session::step::closed:
        return step::closed;
    }
  }
  return step::done;
}

void watched_socket::shut(bool both) noexcept {
  if (tls_ != nullptr) tls_->say_close();
  shutdown(file_, both ? SHUT_RDWR : SHUT_WR);
}

kj::Promise<void> watched_socket::has_data() {
  if (std::exchange(wants_room_, false)) return has_room();
  return observer_.whenBecomesReadable();
}

// By a descriptor of its own, since one can be watched once only.
kj::Promise<void> watched_socket::has_room() {
  const int copy = fcntl(file_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return port_.getTimer().afterDelay(1 * kj::MILLISECONDS);
  auto watcher = kj::heap<room_watcher>(port_, kj::AutoCloseFd(copy));
  auto promise = watcher->observer.whenBecomesWritable();
  return promise.attach(kj::mv(watcher));
}

const error* watched_socket::failure() const noexcept {
  return has_failed_ ? &tls_->failure() : nullptr;
}

bool watched_socket::was_reset() const noexcept {
  const int why = tls_ != nullptr ? tls_->lost_by() : 0;
  const bool is = was_reset_ || (why != 0 && why != EPIPE);
  int domain = AF_UNSPEC;
  socklen_t size = sizeof domain;
  if (is) getsockopt(file_, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  return is && domain != AF_UNIX;
}

}  // namespace manta::inline v0::wire
