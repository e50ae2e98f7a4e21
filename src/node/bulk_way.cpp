// SPDX-License-Identifier: Apache-2.0
#include "node/bulk_way.hpp"

#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>

#include <manta/node/array_block.hpp>

#include "node/bulk_guard.hpp"
#include "node/far_arrays.hpp"
#include "node/far_pulls.hpp"
#include "node/peers.hpp"

namespace manta::inline v0::node {

namespace {

// The same address, at any port.
wire::socket_address at_any_port(const wire::socket_address& of) noexcept {
  sockaddr_storage at{};
  std::memcpy(&at, of.get(), of.size());
  if (at.ss_family == AF_INET) reinterpret_cast<sockaddr_in*>(&at)->sin_port = 0;
  if (at.ss_family == AF_INET6) reinterpret_cast<sockaddr_in6*>(&at)->sin6_port = 0;
  return {reinterpret_cast<const sockaddr*>(&at), of.size()};
}

result<wire::socket_place> place_beside(const wire::socket_address& of) {
  if (!of.is_unix()) return wire::socket_place::bind(at_any_port(of));
  return wire::socket_place::bind(of.text().substr(std::string_view("unix:").size()) + bulk_mark);
}

}  // namespace

// What is lent is in memory, and stays there while others have it; a copy while it is looked at.
class bulk_way::lent_source final : public bulk::source {
 public:
  std::optional<bulk::pinned_bytes> find(const base::id& object, std::uint64_t at,
                                         std::uint32_t bytes) override {
    array_block* block = far_arrays::global().block_of(object);
    if (block == nullptr) block = far_pulls::global().copy_of(object);
    if (block == nullptr) return std::nullopt;
    const std::shared_ptr<array_block> held(block, [](array_block* one) { one->drop(); });
    const std::span<const std::byte> all = block->bytes();
    if (at > all.size() || bytes > all.size() - at) return std::nullopt;
    return bulk::pinned_bytes{all.subspan(static_cast<std::size_t>(at), bytes), held};
  }
};

bulk_way::bulk_way(const wire::socket_settings& how)
    : guard_(std::make_unique<bulk_guard>(how)), source_(std::make_unique<lent_source>()) {}

bulk_way::~bulk_way() = default;

result<std::unique_ptr<bulk_way>> bulk_way::open(const base::id& self,
                                                 const std::vector<wire::socket_address>& beside,
                                                 const wire::socket_settings& how) {
  std::unique_ptr<bulk_way> made(new bulk_way(how));
  auto started =
      bulk::station::start({.by = made->guard_.get(), .from = made->source_.get(), .self = self});
  if (!started) return started.error();
  made->station_ = *std::move(started);
  made->listen(beside);
  return made;
}

void bulk_way::listen(const std::vector<wire::socket_address>& beside) {
  std::vector<wire::socket_address> found;
  for (const wire::socket_address& one : beside) {
    result<wire::socket_place> place = place_beside(one);
    if (!place) continue;
    const int file = fcntl(place->file(), F_DUPFD_CLOEXEC, 0);
    if (file < 0) continue;
    station_->listen(file);
    found.push_back(wire::socket_address::of(place->file()));
    places_.push_back(*std::move(place));
  }
  text_ = text_of_places(found);
}

}  // namespace manta::inline v0::node
