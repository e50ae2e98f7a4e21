// SPDX-License-Identifier: Apache-2.0
#include "wire/greeting.hpp"

#include <cstring>

#include <fmt/format.h>

#include <manta/base/check.hpp>

namespace manta::inline v0::wire {

namespace {

constexpr std::array<char, 8> magic{'m', 'a', 'n', 't', 'a', '-', 'w', '\n'};

template <class T>
void put(std::array<std::byte, greeting_bytes>& to, std::size_t at, const T& value) noexcept {
  std::memcpy(to.data() + at, &value, sizeof value);
}
template <class T>
T get(std::span<const std::byte> from, std::size_t at) noexcept {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

}  // namespace

std::array<std::byte, greeting_bytes> to_bytes(const greeting& from) noexcept {
  std::array<std::byte, greeting_bytes> to{};
  put(to, 0, magic);
  put(to, 8, protocol_version);
  put(to, 16, from.cluster.high);
  put(to, 24, from.cluster.low);
  put(to, 32, from.sender.high);
  put(to, 40, from.sender.low);
  put(to, 48, from.epoch);
  put(to, 56, from.credit_messages);
  put(to, 60, from.credit_bytes);
  return to;
}

result<greeting> to_greeting(std::span<const std::byte> bytes, const base::id& cluster) {
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
  out.cluster = {get<std::uint64_t>(bytes, 16), get<std::uint64_t>(bytes, 24)};
  out.sender = {get<std::uint64_t>(bytes, 32), get<std::uint64_t>(bytes, 40)};
  out.epoch = get<std::uint64_t>(bytes, 48);
  out.credit_messages = get<std::uint32_t>(bytes, 56);
  out.credit_bytes = get<std::uint32_t>(bytes, 60);
  if (get<std::uint32_t>(bytes, 12) != 0 || out.sender == base::id{} || out.credit_messages == 0 ||
      out.credit_bytes == 0) {
    return error(errc::decode_failed,
                 "wire: a greeting came with a zero where there must be none; compare the builds "
                 "of both processes");
  }
  if (out.cluster != cluster) {
    return error(errc::unsupported,
                 "wire: the other process belongs to another cluster; give both the same address "
                 "and token, or leave it alone");
  }
  return out;
}

}  // namespace manta::inline v0::wire
