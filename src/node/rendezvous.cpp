// SPDX-License-Identifier: Apache-2.0
#include "node/rendezvous.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/leftovers.hpp"
#include "node/own_program.hpp"

namespace manta::inline v0::node {

namespace {

constexpr std::string_view first_line = "manta rendezvous 1";
constexpr std::size_t most_places = 64;
constexpr std::size_t most_text = std::size_t{64} << 10U;  // of which so many places take a part

error not_published(const std::string& path, std::string_view found) {
  return error(errc::storage_failed,
               fmt::format("nodes: asked to say at {} where the head is, found: {}; name a folder "
                           "that all machines of the job share with --manta-rendezvous, or give "
                           "--manta-address",
                           path, found));
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t now = ::write(file, text.data(), text.size());
    if (now < 0 && errno != EINTR) return false;
    if (now > 0) text.remove_prefix(static_cast<std::size_t>(now));
  }
  return true;
}

std::string read_some(int file) {
  std::string text(most_text, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t now = ::read(file, text.data() + size, text.size() - size);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) break;
    size += static_cast<std::size_t>(now);
  }
  text.resize(size);
  return text;
}

struct found_places {
  std::vector<wire::endpoint> all;
  const char* is = "nothing";
};

// Who opens a pipe waits until somebody writes to it, and what a device gives has no end.
found_places look_at(const std::string& path) {
  found_places out;
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0) {
    if (errno != ENOENT) out.is = "what can't be read";
    return out;
  }
  struct stat is {};
  const bool is_plain = fstat(file, &is) == 0 && S_ISREG(is.st_mode);
  std::istringstream text(is_plain ? read_some(file) : std::string());
  close(file);
  out.is = is_plain ? "a file that no head of this version has written" : "no plain file";
  std::string line;
  if (!std::getline(text, line) || line != first_line) return out;
  while (out.all.size() < most_places && std::getline(text, line)) {
    if (result<wire::endpoint> one = wire::endpoint::parse(line); one) out.all.push_back(*one);
  }
  out.is = out.all.empty() ? "a file without an address" : "addresses that lead nowhere";
  return out;
}

}  // namespace

rendezvous::rendezvous(std::string folder, std::string name) noexcept
    : folder_(std::move(folder)), path_(folder_ + "/" + std::move(name)) {}

result<void> rendezvous::publish(const std::vector<wire::endpoint>& places) const {
  std::error_code failed;
  std::filesystem::create_directories(folder_, failed);
  if (failed) return not_published(path_, failed.message());
  std::string text = fmt::format("{}\n", first_line);
  for (const wire::endpoint& one : places) text += one.text() + "\n";
  const std::string before = fmt::format("{}.{}.{}", path_, own_host_name(), getpid());
  std::string first = before;
  std::string later = path_;
  const int file =
      open(before.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return not_published(path_, std::strerror(errno));
  // First: whichever signal ends this process takes it along from here on.
  bool is_there = leftovers::global().add_meeting(file, std::move(first), std::move(later)) &&
                  write_all(file, text) && fsync(file) == 0;
  is_there = close(file) == 0 && is_there;
  if (is_there && std::rename(before.c_str(), path_.c_str()) == 0) return {};
  const int why = errno;
  unlink(before.c_str());
  return not_published(path_, std::strerror(why));
}

std::optional<std::vector<wire::endpoint>> rendezvous::find() const {
  found_places there = look_at(path_);
  if (there.all.empty()) return std::nullopt;
  return std::move(there.all);
}

const char* rendezvous::what_lies_there() const { return look_at(path_).is; }

std::vector<wire::endpoint> own_numbers(std::uint16_t port) {
  std::vector<wire::endpoint> out;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    for (const int family : {AF_INET, AF_INET6}) {
      for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
        const bool is_wanted = one->ifa_addr != nullptr && one->ifa_addr->sa_family == family &&
                               (one->ifa_flags & IFF_UP) != 0 &&
                               (one->ifa_flags & IFF_LOOPBACK) == 0;
        if (!is_wanted) continue;
        const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
        const std::string text = wire::socket_address(one->ifa_addr, size).text();
        const result<wire::endpoint> place = wire::endpoint::parse(text);
        // One with a scope is of one cable alone.
        if (!place || place->host.find('%') != std::string::npos) continue;
        out.push_back({.host = place->host, .port = port});
      }
    }
    freeifaddrs(list);
  }
  return out;
}

std::vector<wire::endpoint> own_places(std::uint16_t port) {
  std::vector<wire::endpoint> out = own_numbers(port);
  if (const std::string name = own_host_name(); !name.empty()) {
    out.push_back({.host = name, .port = port});
  }
  if (out.size() > most_places) out.resize(most_places);
  return out;
}

}  // namespace manta::inline v0::node
