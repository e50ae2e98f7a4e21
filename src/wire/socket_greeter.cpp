// SPDX-License-Identifier: Apache-2.0
#include "wire/socket_greeter.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
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

// What an end says that has found nothing wrong itself: the other one keeps silent about it.
error not_trusted() {
  return error(errc::unsupported,
               "wire: the other process has closed the connection when the token was proved: it "
               "has another one; give both the same token file");
}
error wrong_proof() {
  return error(errc::unsupported,
               "wire: the other process could not prove that it has this cluster's token; give "
               "both the same token file");
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
                               way how, done then)
    : at_(at),
      socket_(kj::mv(socket)),
      self_(self),
      how_(std::move(how)),
      then_(std::move(then)),
      tasks_(*this) {
  fill_random(self_.nonce);
  const greeting_block bytes = to_bytes(self_);
  out_.assign(bytes.begin(), bytes.end());
  in_.resize(greeting_bytes);
  tasks_.add(at_.port().getTimer().afterDelay(how_.limit.count() * kj::MILLISECONDS).then([this] {
    finish(error(errc::timed_out,
                 fmt::format("wire: a greeting was awaited, {} of {} bytes came within {} ms; "
                             "the connection is closed",
                             read_, in_.size(), how_.limit.count())));
  }));
  begin();
}

void socket_greeter::begin() {
  if (how_.encrypts) {
    const auto side =
        how_.at == end_of_link::dialler ? tls_session::side::dialler : tls_session::side::listener;
    if (const result<void> is = socket_->encrypt(how_.proves->identity(), side); !is) {
      return finish(is.error());
    }
    stage_ = stage::negotiating;
  }
  go();
}

// As far as the socket allows now.
void socket_greeter::go() {
  if (is_over_) return;
  if (stage_ == stage::negotiating && !negotiate()) return;
  do {
    if (!send() || !receive()) return;
  } while (advance());
}

bool socket_greeter::negotiate() {
  switch (socket_->negotiate()) {
    case watched_socket::step::done:
      stage_ = stage::greeting;
      return true;
    case watched_socket::step::later:
      wait_for_data();
      return false;
    case watched_socket::step::closed:
      break;
  }
  lose("while its encryption was agreed on");
  return false;
}

// Without room it waits for that, and goes on to read.
bool socket_greeter::send() {
  std::span<const std::byte> rest = std::span<const std::byte>(out_).subspan(sent_);
  if (rest.empty()) return true;
  std::span<std::span<const std::byte>> left(&rest, 1);
  const watched_socket::step is = socket_->send(left);
  if (is == watched_socket::step::closed) {
    lose("it takes nothing more");
    return false;
  }
  sent_ = is == watched_socket::step::done ? out_.size() : out_.size() - rest.size();
  if (is == watched_socket::step::later) wait_for_room();
  return true;
}

bool socket_greeter::receive() {
  while (read_ < in_.size()) {
    std::size_t got = 0;
    switch (socket_->receive(std::span(in_).subspan(read_), got)) {
      case watched_socket::step::done:
        read_ += got;
        break;
      case watched_socket::step::later:
        wait_for_data();
        return false;
      case watched_socket::step::closed:
        if (stage_ == stage::proving && how_.at == end_of_link::dialler) {
          finish(not_trusted());
        } else {
          // Who waits for TLS takes a plain greeting for nonsense, and says so to itself only.
          lose(how_.proves != nullptr && !how_.encrypts && read_ == 0
                   ? "closed by the other process before it greeted; it may want encryption, and "
                     "insecure-plaintext is set for one of the two"
                   : "closed by the other process");
        }
        return false;
    }
  }
  return true;
}

// All that was awaited is there. True: there is more to do at once.
bool socket_greeter::advance() {
  if (stage_ == stage::greeting) {
    if (!hear_greeting()) return false;
    if (how_.proves != nullptr) return true;
  } else if (!hear_proof()) {
    return false;
  }
  if (sent_ < out_.size() && (!send() || sent_ < out_.size())) return false;
  finish(peer_);
  return false;
}

bool socket_greeter::hear_greeting() {
  if (peer_.sender != base::id{}) return true;  // heard before, and waited for room
  const result<greeting> is = to_greeting(in_);
  if (!is) {
    finish(is.error());
    return false;
  }
  if (const result<void> fits = check_greetings(self_, *is); !fits) {
    finish(fits.error());
    return false;
  }
  peer_ = *is;
  if (how_.proves == nullptr) return true;
  stage_ = stage::proving;
  in_.resize(greeting_bytes + sizeof(mac));
  if (how_.at == end_of_link::dialler) append_proof();
  return true;
}

void socket_greeter::append_proof() {
  greeting_block mine;
  greeting_block theirs;
  std::copy_n(out_.begin(), greeting_bytes, mine.begin());
  std::copy_n(in_.begin(), greeting_bytes, theirs.begin());
  const bool dials = how_.at == end_of_link::dialler;
  const mac proof = how_.proves->proof_of(how_.at, dials ? mine : theirs, dials ? theirs : mine);
  out_.insert(out_.end(), proof.begin(), proof.end());
}

bool socket_greeter::hear_proof() {
  const bool dials = how_.at == end_of_link::dialler;
  if (!dials && out_.size() > greeting_bytes) return true;  // right, and waited for room
  greeting_block mine;
  greeting_block theirs;
  std::copy_n(out_.begin(), greeting_bytes, mine.begin());
  std::copy_n(in_.begin(), greeting_bytes, theirs.begin());
  const mac right = how_.proves->proof_of(dials ? end_of_link::listener : end_of_link::dialler,
                                          dials ? mine : theirs, dials ? theirs : mine);
  if (!is_equal(right, std::span(in_).subspan(greeting_bytes))) {
    finish(wrong_proof());
    return false;
  }
  if (!dials) append_proof();
  return true;
}

void socket_greeter::wait_for_data() {
  if (std::exchange(waits_for_data_, true)) return;
  tasks_.add(socket_->has_data().then([this] {
    waits_for_data_ = false;
    go();
  }));
}

void socket_greeter::wait_for_room() {
  if (std::exchange(waits_for_room_, true)) return;
  tasks_.add(socket_->has_room().then([this] {
    waits_for_room_ = false;
    go();
  }));
}

void socket_greeter::lose(std::string_view found) {
  const error* const why = socket_->failure();
  finish(why != nullptr ? *why : lost(found));
}

// Outside of KJ's callbacks, since it makes an end to this. Until then abandon() may come.
void socket_greeter::finish(result<greeting> is) {
  if (std::exchange(is_over_, true)) return;
  at_.later([this, is = std::move(is)]() mutable {
    if (then_ != nullptr) then_(kj::mv(socket_), std::move(is));
  });
  at_.drop(this);
}

void socket_greeter::end() {
  finish(error(errc::cancelled, "wire: a greeting was awaited, its loop has ended"));
}

void socket_greeter::abandon() {
  then_ = nullptr;
  if (!std::exchange(is_over_, true)) at_.drop(this);
}

void socket_greeter::taskFailed(kj::Exception&& thrown) { lose(thrown.getDescription().cStr()); }

}  // namespace manta::inline v0::wire
