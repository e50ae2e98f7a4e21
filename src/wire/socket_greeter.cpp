// SPDX-License-Identifier: Apache-2.0
#include "wire/socket_greeter.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <kj/timer.h>
#include <sys/socket.h>

namespace manta::inline v0::wire {

namespace {

error lost(std::string_view why) {
  return error(errc::node_lost,
               fmt::format("wire: a greeting was awaited, the connection ended: {}; look whether "
                           "the other process lives",
                           why));
}

}  // namespace

result<void> check_user(int socket, std::uint32_t user) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return error(errc::unsupported,
                 fmt::format("wire: asked who is at the other end of a socket, found: {}; it must "
                             "be a unix socket",
                             std::strerror(errno)));
  }
  if (peer.uid == user) return {};
  return error(errc::unsupported,
               fmt::format("wire: a process of user {} is at the other end, allowed is user {}; "
                           "run both as the same user",
                           peer.uid, user));
}

socket_greeter::socket_greeter(loop_core& at, kj::Own<watched_socket> socket, const greeting& self,
                               std::chrono::milliseconds limit, done then)
    : at_(at),
      socket_(kj::mv(socket)),
      cluster_(self.cluster),
      then_(std::move(then)),
      out_(to_bytes(self)),
      tasks_(*this) {
  tasks_.add(at_.port().getTimer().afterDelay(limit.count() * kj::MILLISECONDS).then([this, limit] {
    finish(error(errc::timed_out,
                 fmt::format("wire: a greeting was awaited, {} of {} bytes came within {} ms; "
                             "the connection is closed",
                             read_, greeting_bytes, limit.count())));
  }));
  send();
  read();
}

void socket_greeter::send() {
  while (sent_ < out_.size()) {
    const ssize_t now = ::send(socket_->file, out_.data() + sent_, out_.size() - sent_,
                               MSG_NOSIGNAL | MSG_DONTWAIT);
    if (now > 0) {
      sent_ += static_cast<std::size_t>(now);
    } else if (now < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      tasks_.add(socket_->has_room().then([this] { send(); }));
      return;
    } else if (now < 0 && errno != EINTR) {
      finish(lost(std::strerror(errno)));
      return;
    }
  }
  if (read_ == in_.size()) finish(to_greeting(in_, cluster_));
}

void socket_greeter::read() {
  while (read_ < in_.size()) {
    const ssize_t now = recv(socket_->file, in_.data() + read_, in_.size() - read_, MSG_DONTWAIT);
    if (now > 0) {
      read_ += static_cast<std::size_t>(now);
    } else if (now < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      tasks_.add(socket_->observer.whenBecomesReadable().then([this] { read(); }));
      return;
    } else if (now == 0 || errno != EINTR) {
      finish(lost(now == 0 ? "closed by the other process" : std::strerror(errno)));
      return;
    }
  }
  if (sent_ == out_.size()) finish(to_greeting(in_, cluster_));
}

// Outside of KJ's callbacks, since it makes an end to this. Until then end() may come.
void socket_greeter::finish(result<greeting> is) {
  if (std::exchange(is_over_, true)) return;
  at_.later([this, is = std::move(is)]() mutable {
    if (then_ != nullptr) then_(kj::mv(socket_), std::move(is));
  });
  at_.drop(this);
}

void socket_greeter::end() {
  then_ = nullptr;
  if (!std::exchange(is_over_, true)) at_.drop(this);
}

void socket_greeter::taskFailed(kj::Exception&& thrown) {
  finish(lost(thrown.getDescription().cStr()));
}

}  // namespace manta::inline v0::wire
