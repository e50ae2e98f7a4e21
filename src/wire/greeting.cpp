// SPDX-License-Identifier: Apache-2.0
#include "wire/greeting.hpp"

#include <cstring>

#include <fmt/format.h>

#include <manta/base/check.hpp>

namespace manta::inline v0::wire {

namespace {

constexpr std::array<char, 8> magic{'m', 'a', 'n', 't', 'a', '-', 'w', '\n'};

template <class T>
void put(greeting_block& to, std::size_t at, const T& value) noexcept {
  std::memcpy(to.data() + at, &value, sizeof value);
}
template <class T>
T get(std::span<const std::byte> from, std::size_t at) noexcept {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}
base::id get_id(std::span<const std::byte> from, std::size_t at) noexcept {
  return {get<std::uint64_t>(from, at), get<std::uint64_t>(from, at + 8)};
}

error another_process() {
  return error(errc::node_lost,
               "wire: the process that was looked for is not at its address any more, another one "
               "is; ask the head where it is now");
}

}  // namespace

greeting_block to_bytes(const greeting& from) noexcept {
  greeting_block to{};
  put(to, 0, magic);
  put(to, 8, protocol_version);
  put(to, 12, from.as);
  put(to, 16, from.cluster.high);
  put(to, 24, from.cluster.low);
  put(to, 32, from.sender.high);
  put(to, 40, from.sender.low);
  put(to, 48, from.wanted.high);
  put(to, 56, from.wanted.low);
  put(to, 64, from.epoch);
  put(to, 72, from.credit_messages);
  put(to, 76, from.credit_bytes);
  put(to, 80, from.nonce);
  return to;
}

result<greeting> to_greeting(std::span<const std::byte> bytes) {
  MANTA_CHECK_VALUE(bytes.size() == greeting_bytes, bytes.size());
  if (get<std::array<char, 8>>(bytes, 0) != magic) {
    return error(errc::decode_failed,
                 "wire: a greeting was to be read, found other bytes; whoever connected is no "
                 "process of manta: the connection is closed");
  }
  const auto protocol = get<std::uint32_t>(bytes, 8);
  if (protocol != protocol_version) {
    return error(errc::unsupported,
                 fmt::format("wire: the other process speaks protocol {}, this one {}; build both "
                             "with the same version of manta",
                             protocol, protocol_version));
  }
  greeting out;
  const auto kind = get<std::uint32_t>(bytes, 12);
  out.as = static_cast<guest_kind>(kind);
  out.cluster = get_id(bytes, 16);
  out.sender = get_id(bytes, 32);
  out.wanted = get_id(bytes, 48);
  out.epoch = get<std::uint64_t>(bytes, 64);
  out.credit_messages = get<std::uint32_t>(bytes, 72);
  out.credit_bytes = get<std::uint32_t>(bytes, 76);
  out.nonce = get<std::array<std::byte, 32>>(bytes, 80);
  const bool is_known = kind >= static_cast<std::uint32_t>(guest_kind::member) &&
                        kind <= static_cast<std::uint32_t>(guest_kind::asker);
  if (!is_known || out.sender == base::id{} || out.credit_messages == 0 || out.credit_bytes == 0) {
    return error(errc::decode_failed,
                 "wire: a greeting came with a number that none has; compare the builds of both "
                 "processes");
  }
  return out;
}

result<void> check_greetings(const greeting& self, const greeting& peer) {
  const bool is_same = self.cluster == peer.cluster;
  const bool is_open = self.cluster == base::id{} || peer.cluster == base::id{};
  if (!is_same && !is_open) {
    return error(errc::unsupported,
                 "wire: the other process belongs to another cluster; give both the same address "
                 "and token, or leave it alone");
  }
  if (is_same && is_open) {
    return error(errc::unsupported,
                 "wire: neither process knows its cluster; one of them has to be its head, or to "
                 "have been taken in by it");
  }
  if (self.wanted != base::id{} && self.wanted != peer.sender) return another_process();
  if (peer.wanted != base::id{} && peer.wanted != self.sender) return another_process();
  return {};
}

}  // namespace manta::inline v0::wire
