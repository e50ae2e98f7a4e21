// SPDX-License-Identifier: Apache-2.0
#include "bulk/connection.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace manta::inline v0::bulk {

namespace {

bool would_wait(int why) noexcept { return why == EAGAIN || why == EWOULDBLOCK; }

std::string lost_line(int why) {
  return fmt::format("the connection is lost: {}", std::strerror(why));
}

bool is_loopback(const sockaddr_storage& at) noexcept {
  if (at.ss_family == AF_INET) {
    const auto number = ntohl(reinterpret_cast<const sockaddr_in&>(at).sin_addr.s_addr);
    return number >> 24U == 127;
  }
  return at.ss_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(at).sin6_addr);
}

bool is_same_address(const sockaddr_storage& a, const sockaddr_storage& b) noexcept {
  if (a.ss_family != b.ss_family) return false;
  if (a.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(a).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(b).sin_addr.s_addr;
  }
  return a.ss_family == AF_INET6 &&
         IN6_ARE_ADDR_EQUAL(&reinterpret_cast<const sockaddr_in6&>(a).sin6_addr,
                            &reinterpret_cast<const sockaddr_in6&>(b).sin6_addr);
}

// Also from one of its addresses to the same one.
bool stays_on_machine(int file) noexcept {
  sockaddr_storage there{};
  sockaddr_storage here{};
  socklen_t size = sizeof there;
  if (getpeername(file, reinterpret_cast<sockaddr*>(&there), &size) != 0) return false;
  if (there.ss_family == AF_UNIX || is_loopback(there)) return true;
  size = sizeof here;
  return getsockname(file, reinterpret_cast<sockaddr*>(&here), &size) == 0 &&
         is_same_address(here, there);
}

// Within a machine it is the sender who wakes the reader: one that keeps up and is woken for each
// segment took a third of the sender's time, and 100 MB took 30 ms instead of 21.
constexpr int most_awaited_bytes = 128 << 10U;

// Within a machine no bytes are on a long way: what TCP's buffers grow to for one would lie outside
// of the cache by the time it is read, which made 100 MB over loopback take twice as long.
constexpr int local_buffer_bytes = 256 << 10U;

/// Whether it is TCP within a machine.
bool set_manner(int file) noexcept {
  const int on = 1;  // refused by a unix socket, which needs none
  const bool is_tcp = setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0;
  if (!stays_on_machine(file)) return false;
  setsockopt(file, SOL_SOCKET, SO_SNDBUF, &local_buffer_bytes, sizeof local_buffer_bytes);
  setsockopt(file, SOL_SOCKET, SO_RCVBUF, &local_buffer_bytes, sizeof local_buffer_bytes);
  return is_tcp;
}

// Empty: there is no memory for it.
std::string text_of(const std::exception& thrown) noexcept {
  try {
    return thrown.what();
  } catch (const std::bad_alloc&) {
    return {};
  }
}

// In constant time.
bool is_same_proof(const proof_block& a, const proof_block& b) noexcept {
  std::byte differs{0};
  for (std::size_t i = 0; i < a.size(); ++i) differs |= a[i] ^ b[i];
  return differs == std::byte{0};
}

}  // namespace

connection::connection(reactor& at, guard& by, int file, line_end as, const base::id& listener)
    : reactor_(at),
      guard_(by),
      as_(as),
      listener_(listener),
      socket_(at, file),
      stage_(as == line_end::dialler ? stage::connecting : stage::encrypting) {}

connection::~connection() = default;

void connection::begin() {
  if (stage_ != stage::connecting) return kick();
  wants_write_ = true;
  wait();
}

void connection::kick() {
  if (is_kicked_) return;
  reactor_.post([this, alive = std::weak_ptr<const int>(alive_)] {
    if (alive.expired()) return;
    is_kicked_ = false;
    pump();
  });
  is_kicked_ = true;
}

// The last call may destroy it.
void connection::pump() noexcept {
  if (is_pumping_) return;  // it goes on by itself
  std::string why;
  try {
    is_pumping_ = true;
    wants_read_ = wants_write_ = false;
    const turn is = go();
    is_pumping_ = false;
    if (is == turn::again) kick();
    if (is != turn::over) return wait();
    why = std::move(why_);
  } catch (const std::exception& thrown) {
    why = text_of(thrown);
  }
  try {
    on_over(why);
  } catch (const std::bad_alloc&) {
    return;  // it may be destroyed by now; what its end would have begun comes with another event
  }
}

void connection::wait() {
  if (wants_read_ && !waits_for_data_) {
    socket_.when_readable([this] {
      waits_for_data_ = false;
      pump();
    });
    waits_for_data_ = true;
  }
  if (wants_write_ && !waits_for_room_) {
    socket_.when_writable([this] {
      waits_for_room_ = false;
      pump();
    });
    waits_for_room_ = true;
  }
}

connection::turn connection::go() {
  if (stage_ != stage::open) {
    const turn is = greet();
    if (is != turn::waits || stage_ != stage::open) return is;
    on_open();
  }
  return advance();
}

connection::turn connection::greet() {
  for (;;) {
    const stage before = stage_;
    turn is = turn::waits;
    switch (stage_) {
      case stage::connecting:
        is = finish_connecting();
        break;
      case stage::encrypting:
        is = finish_encrypting();
        break;
      case stage::hello:
        is = hear_hello();
        break;
      case stage::proof:
        is = hear_proof();
        break;
      case stage::open:
        return turn::waits;
    }
    if (is == turn::over || stage_ == before) return is;
  }
}

connection::turn connection::finish_connecting() {
  int why = 0;
  socklen_t size = sizeof why;
  if (getsockopt(socket_.file(), SOL_SOCKET, SO_ERROR, &why, &size) != 0) why = errno;
  if (why != 0) return end(fmt::format("nobody answers there: {}", std::strerror(why)));
  stage_ = stage::encrypting;
  return turn::waits;
}

connection::turn connection::finish_encrypting() {
  if (cipher_ == nullptr) {
    if (!guard_.admits(socket_.file())) return end("another user's process is at the other end");
    is_near_tcp_ = set_manner(socket_.file());
    if (guard_.encrypts(socket_.file())) {
      cipher_ = guard_.encrypt(socket_.file(), as_);
      if (cipher_ == nullptr) return end("it can't be encrypted");
    }
  }
  if (cipher_ != nullptr) {
    const io_step is = note(cipher_->handshake(), 0);
    if (is == io_step::ended) return end("TLS was refused; compare both processes' tokens");
    if (is != io_step::done) return turn::waits;
  }
  std::array<std::byte, nonce_bytes> nonce{};
  guard_.draw(nonce);
  own_ = write_hello(listener_, nonce);
  say(own_);
  stage_ = stage::hello;
  return turn::waits;
}

connection::turn connection::hear_hello() {
  if (flush() == io_step::ended) return turn::over;
  while (read_ < other_.size()) {
    std::size_t got = 0;
    const io_step is = read(std::span(other_).subspan(read_), got);
    if (is == io_step::ended) return turn::over;
    if (is != io_step::done) return turn::waits;
    read_ += got;
  }
  const std::optional<base::id> named = read_hello(other_);
  if (!named.has_value()) return end("whoever is there is no process of this version of manta");
  if (*named != listener_) return end("another process has its place by now");
  read_ = 0;
  if (!guard_.asks_for_proof(socket_.file())) return enter();
  if (as_ == line_end::dialler) say(guard_.proof_of(as_, own_, other_));
  stage_ = stage::proof;
  return turn::waits;
}

connection::turn connection::hear_proof() {
  if (flush() == io_step::ended) return turn::over;
  while (read_ < proof_.size()) {
    std::size_t got = 0;
    const io_step is = read(std::span(proof_).subspan(read_), got);
    if (is == io_step::ended) {
      return end("the other process does not take this one's proof; give both the same token");
    }
    if (is != io_step::done) return turn::waits;
    read_ += got;
  }
  const bool dials = as_ == line_end::dialler;
  const proof_block right = dials ? guard_.proof_of(line_end::listener, own_, other_)
                                  : guard_.proof_of(line_end::dialler, other_, own_);
  if (!is_same_proof(proof_, right)) return end("the other process has another token");
  if (!dials) say(guard_.proof_of(line_end::listener, other_, own_));
  return enter();
}

connection::turn connection::enter() {
  stage_ = stage::open;
  return turn::waits;
}

// ---- bytes

io_step connection::note(io_step is, std::size_t moved) {
  if (moved > 0) moved_ = base::now();
  wants_read_ = wants_read_ || is == io_step::wants_read;
  wants_write_ = wants_write_ || is == io_step::wants_write;
  return is;
}

io_step connection::flush() {
  while (sent_ < out_.size()) {
    const std::span<const std::byte> rest = std::span(out_).subspan(sent_);
    std::size_t put = 0;
    const io_step is =
        cipher_ != nullptr ? cipher_->write(rest, put) : write_plain(std::span(&rest, 1), put);
    if (note(is, put) == io_step::ended && why_.empty()) why_ = "the connection was closed";
    if (is != io_step::done) return is;
    sent_ += put;
  }
  out_.clear();
  sent_ = 0;
  return io_step::done;
}

io_step connection::read(std::span<std::byte> to, std::size_t& got) {
  got = 0;
  const io_step is = cipher_ != nullptr ? cipher_->read(to, got) : read_plain(to, got);
  if (is == io_step::ended && why_.empty()) why_ = "the connection was closed";
  return note(is, got);
}

bool connection::has_unread() const noexcept {
  int bytes = 0;
  return ioctl(socket_.file(), FIONREAD, &bytes) == 0 && bytes > 0;
}

void connection::await(std::size_t bytes) noexcept {
  if (!is_near_tcp_ || cipher_ != nullptr) return;
  const int wanted = bytes < std::size_t{most_awaited_bytes} ? 1 : most_awaited_bytes;
  if (wanted == low_water_) return;
  if (setsockopt(socket_.file(), SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof wanted) == 0) {
    low_water_ = wanted;
  }
}

io_step connection::read_plain(std::span<std::byte> to, std::size_t& got) {
  for (;;) {
    const ssize_t came = recv(socket_.file(), to.data(), to.size(), MSG_DONTWAIT);
    if (came > 0) {
      got = static_cast<std::size_t>(came);
      return io_step::done;
    }
    if (came == 0) return io_step::ended;
    if (would_wait(errno)) return io_step::wants_read;
    if (errno == EINTR) continue;
    why_ = lost_line(errno);
    return io_step::ended;
  }
}

io_step connection::write(std::span<const std::span<const std::byte>> pieces, std::size_t& put) {
  put = 0;
  if (const io_step is = flush(); is != io_step::done) return is;
  if (cipher_ == nullptr) {
    const io_step is = write_plain(pieces, put);
    if (is == io_step::ended && why_.empty()) why_ = "the connection was closed";
    return note(is, put);
  }
  for (const std::span<const std::byte> piece : pieces) {
    std::size_t went = 0;
    const io_step is = cipher_->write(piece, went);
    put += went;
    if (is == io_step::ended) why_ = "the connection was closed";
    if (is != io_step::done) return note(put > 0 && is != io_step::ended ? io_step::done : is, put);
    if (went < piece.size()) break;
  }
  return note(io_step::done, put);
}

io_step connection::write_plain(std::span<const std::span<const std::byte>> pieces,
                                std::size_t& put) {
  std::array<iovec, 4> at{};
  std::size_t count = 0;
  for (const std::span<const std::byte> piece : pieces) {
    // sendmsg only reads there.
    at[count++] = {const_cast<std::byte*>(piece.data()), piece.size()};
  }
  msghdr message{};
  message.msg_iov = at.data();
  message.msg_iovlen = count;
  for (;;) {
    const ssize_t went = sendmsg(socket_.file(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (went >= 0) {
      put = static_cast<std::size_t>(went);
      return io_step::done;
    }
    if (would_wait(errno)) return io_step::wants_write;
    if (errno == EINTR) continue;
    why_ = lost_line(errno);
    return io_step::ended;
  }
}

}  // namespace manta::inline v0::bulk
