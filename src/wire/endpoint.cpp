// SPDX-License-Identifier: Apache-2.0
#include "wire/endpoint.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <charconv>
#include <cstring>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "wire/socket_place.hpp"

namespace manta::inline v0::wire {

namespace {

constexpr std::string_view unix_mark = "unix:";
constexpr std::size_t longest_host = 255;

error not_an_endpoint(std::string_view text, std::string_view wrong) {
  return error(errc::invalid_argument,
               fmt::format("wire: asked the address \"{}\", found {}; write host:port, [::1]:port "
                           "or unix:/path",
                           text, wrong));
}

struct looked_up {
  int code = 0;
  std::vector<socket_address> found = {};
};

looked_up look_up(const endpoint& from, int flags) {
  addrinfo wish{};
  wish.ai_family = AF_UNSPEC;
  wish.ai_socktype = SOCK_STREAM;
  wish.ai_flags = AI_NUMERICSERV | flags;
  if (from.host.empty()) wish.ai_flags |= AI_PASSIVE;
  addrinfo* list = nullptr;
  looked_up out;
  out.code = getaddrinfo(from.host.empty() ? nullptr : from.host.c_str(),
                         std::to_string(from.port).c_str(), &wish, &list);
  if (out.code != 0) return out;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> keep(list, &freeaddrinfo);
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    out.found.emplace_back(one->ai_addr, one->ai_addrlen);
  }
  return out;
}

}  // namespace

std::string endpoint::text() const {
  if (is_unix()) return fmt::format("{}{}", unix_mark, path);
  if (host.find(':') != std::string::npos) return fmt::format("[{}]:{}", host, port);
  return fmt::format("{}:{}", host, port);
}

result<endpoint> endpoint::parse(std::string_view text) {
  endpoint out;
  if (text.starts_with(unix_mark)) {
    out.path = text.substr(unix_mark.size());
    if (!out.path.starts_with('/')) return not_an_endpoint(text, "a path that is not whole");
    return out;
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return not_an_endpoint(text, "no port");
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return not_an_endpoint(text, "several colons, and no brackets around the host");
  }
  const std::string_view port = text.substr(colon + 1);
  const auto [rest, status] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (status != std::errc() || rest != port.data() + port.size()) {
    return not_an_endpoint(text, fmt::format("the port \"{}\", allowed are 0 to 65535", port));
  }
  if (host.size() > longest_host) return not_an_endpoint(text, "a host of more than 255 letters");
  out.host = host;
  return out;
}

socket_address::socket_address(const sockaddr* from, socklen_t size) noexcept
    : size_(std::min<socklen_t>(size, sizeof at_)) {
  std::memcpy(&at_, from, size_);
}

bool socket_address::is_loopback() const noexcept {
  if (family() == AF_UNIX) return true;
  if (family() == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &at_, sizeof v4);
    return (ntohl(v4.sin_addr.s_addr) >> 24U) == 127;
  }
  if (family() != AF_INET6) return false;
  sockaddr_in6 v6{};
  std::memcpy(&v6, &at_, sizeof v6);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) return v6.sin6_addr.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

bool socket_address::is_any() const noexcept {
  if (family() == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &at_, sizeof v4);
    return v4.sin_addr.s_addr == htonl(INADDR_ANY);
  }
  if (family() != AF_INET6) return false;
  sockaddr_in6 v6{};
  std::memcpy(&v6, &at_, sizeof v6);
  return IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
}

std::uint16_t socket_address::port() const noexcept {
  // At the same place in both families.
  sockaddr_in any{};
  std::memcpy(&any, &at_, sizeof any);
  return family() == AF_INET || family() == AF_INET6 ? ntohs(any.sin_port) : std::uint16_t{0};
}

std::string socket_address::text() const {
  if (is_unix()) {
    const auto& path = reinterpret_cast<const sockaddr_un*>(&at_)->sun_path;
    return fmt::format("{}{}", unix_mark, std::string_view(path, strnlen(path, sizeof path)));
  }
  char host[NI_MAXHOST] = "?";
  getnameinfo(get(), size_, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return endpoint{.host = host, .port = port()}.text();
}

socket_address socket_address::of(int socket) noexcept {
  socket_address out;
  out.size_ = sizeof out.at_;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&out.at_), &out.size_) != 0) return {};
  return out;
}

socket_address socket_address::peer_of(int socket) noexcept {
  socket_address out;
  out.size_ = sizeof out.at_;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&out.at_), &out.size_) != 0) return {};
  return out;
}

// The resolver has its own ideas of how long it may take: it is left behind when it takes too long.
result<std::vector<socket_address>> resolve(const endpoint& from, std::chrono::milliseconds limit) {
  if (from.is_unix()) {
    const result<sockaddr_un> at = address_of(from.path);
    if (!at) return at.error();
    return std::vector{socket_address(reinterpret_cast<const sockaddr*>(&*at), sizeof *at)};
  }
  // A number needs nobody's answer.
  if (looked_up at_once = look_up(from, AI_NUMERICHOST); at_once.code == 0) {
    return std::move(at_once.found);
  }
  if (limit == std::chrono::milliseconds::zero()) {
    return error(errc::invalid_argument,
                 fmt::format("wire: asked for a number, found the name {}", from.host));
  }
  std::promise<looked_up> there;
  std::future<looked_up> here = there.get_future();
  try {
    std::thread([from, promise = std::move(there)]() mutable {
      promise.set_value(look_up(from, 0));
    }).detach();
  } catch (const std::system_error& failed) {
    return error(errc::store_full, fmt::format("wire: asked a thread for the name {}, found: {}; "
                                               "raise the limit of threads",
                                               from.host, failed.what()));
  }
  if (here.wait_for(limit) != std::future_status::ready) {
    return error(errc::node_lost,
                 fmt::format("wire: asked where {} is, nobody has answered within {} ms; give a "
                             "number instead of a name, or mend the machine's resolver",
                             from.host, limit.count()));
  }
  looked_up found = here.get();
  if (found.code == 0 && !found.found.empty()) return std::move(found.found);
  return error(errc::node_lost,
               fmt::format("wire: asked where {} is, found: {}; look whether the name is right",
                           from.host, gai_strerror(found.code)));
}

}  // namespace manta::inline v0::wire
