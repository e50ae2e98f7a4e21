// SPDX-License-Identifier: Apache-2.0
#include "node/order_line.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <sys/uio.h>

namespace manta::inline v0::node {

namespace {

constexpr std::size_t most_text = 1024;

// More than one descriptor is nonsense, and the kernel closes what has no room here.
struct alignas(cmsghdr) control_room {
  std::array<char, CMSG_SPACE(sizeof(int))> bytes{};
};

}  // namespace

bool send_order(int socket, const worker_order& order, order_way way, int file,
                std::string_view text) noexcept {
  text = text.substr(0, most_text);
  std::array<iovec, 2> parts{{{const_cast<worker_order*>(&order), sizeof order},
                              {const_cast<char*>(text.data()), text.size()}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = text.empty() ? 1 : 2;
  control_room control;
  if (file >= 0) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = control.bytes.size();
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &file, sizeof file);
  }
  const int flags = MSG_NOSIGNAL | (way == order_way::at_once ? MSG_DONTWAIT : 0);
  for (;;) {
    if (::sendmsg(socket, &message, flags) >= 0) return true;
    if (errno != EINTR) return false;
  }
}

got_order receive_order(int socket, order_way way, came_order& into) {
  std::array<char, sizeof(worker_order) + most_text> room{};
  iovec part{room.data(), room.size()};
  control_room control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  // With its padding two would have room.
  message.msg_controllen = CMSG_LEN(sizeof(int));
  const int flags = MSG_CMSG_CLOEXEC | (way == order_way::at_once ? MSG_DONTWAIT : 0);
  const ssize_t got = ::recvmsg(socket, &message, flags);
  if (got == 0) return got_order::closed;
  if (got < 0) {
    return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK ? got_order::nothing
                                                                     : got_order::closed;
  }
  into = {};
  const cmsghdr* const head = CMSG_FIRSTHDR(&message);
  const bool has_file = head != nullptr && head->cmsg_level == SOL_SOCKET &&
                        head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof(int));
  if (has_file) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(head), sizeof number);
    into.file = store::descriptor(number);
  }
  const auto size = static_cast<std::size_t>(got);
  if (size < sizeof into.order) return got_order::nothing;
  std::memcpy(&into.order, room.data(), sizeof into.order);
  into.text.assign(room.data() + sizeof into.order, size - sizeof into.order);
  return got_order::order;
}

}  // namespace manta::inline v0::node
