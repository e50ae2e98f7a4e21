// SPDX-License-Identifier: Apache-2.0
// Messages to other nodes that are long, or wait for room: peers.hpp.
#include <chrono>
#include <span>
#include <thread>
#include <vector>

#include "node/peers.hpp"
#include "wire/parts.hpp"

namespace manta::inline v0::node {

using namespace std::chrono_literals;

result<void> peers::send_when_room(std::uint64_t to, const base::id& request,
                                   std::span<const std::span<const std::byte>> pieces,
                                   std::size_t size) {
  if (size > most_at_once) return send_parts(to, request, pieces, size, true);
  const user here(*this);
  const bool may_wait = is_over_.load() || !at_.is_here();
  for (;;) {
    result<void> is = send(to, request, pieces, size, !may_wait);
    if (is || is.error().code() != errc::store_full) return is;
    if (!can_reach(to)) return error(errc::node_lost, "the node can't be reached from here");
    std::this_thread::sleep_for(1ms);
  }
}

// Not all at once: what others have to say meanwhile goes between.
result<void> peers::send_parts(std::uint64_t to, const base::id& request,
                               std::span<const std::span<const std::byte>> pieces, std::size_t size,
                               bool waits) {
  if (size > wire::largest_frame) return error(errc::store_full, "it is too long for a message");
  const base::id about{part, ++long_messages_};
  const user here(*this);
  const bool may_wait = waits && (is_over_.load() || !at_.is_here());
  std::vector<std::span<const std::byte>> some;
  for (std::size_t at = 0; at < size;) {
    while (may_wait && !has_room_for_part(to)) std::this_thread::sleep_for(1ms);
    const auto head = wire::parts::head_of(request, size, at);
    some.assign(1, head);
    const std::size_t now = wire::parts::cut(pieces, at, some);
    result<void> is = may_wait ? send_when_room(to, about, some, head.size() + now)
                               : send(to, about, some, head.size() + now, true);
    if (!is) return is;
    at += now;
  }
  return {};
}

result<void> peers::send_anyway(std::uint64_t to, const base::id& request,
                                std::span<const std::span<const std::byte>> pieces,
                                std::size_t size) {
  if (size > most_at_once) return send_parts(to, request, pieces, size, false);
  return send(to, request, pieces, size, true);
}

}  // namespace manta::inline v0::node
