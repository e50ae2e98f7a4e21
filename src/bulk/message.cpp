// SPDX-License-Identifier: Apache-2.0
#include "bulk/message.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace manta::inline v0::bulk {

namespace {

constexpr std::uint32_t request_mark = 0x3f6b6c62;
constexpr std::uint32_t answer_mark = 0x216b6c62;
constexpr std::uint32_t bulk_version = 2;
constexpr std::string_view hello_mark = "mantablk";

template <class Number>
void put_number(std::span<std::byte> to, std::size_t at, Number value) noexcept {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    to[at + i] = static_cast<std::byte>(value >> (8 * i));
  }
}
template <class Number>
Number number_at(std::span<const std::byte> from, std::size_t at) noexcept {
  Number out = 0;
  for (std::size_t i = 0; i < sizeof out; ++i) {
    out |= static_cast<Number>(static_cast<Number>(from[at + i]) << (8 * i));
  }
  return out;
}

XXH3_state_t* sum_state(std::byte* from) noexcept {
  return std::launder(reinterpret_cast<XXH3_state_t*>(from));
}
const XXH3_state_t* sum_state(const std::byte* from) noexcept {
  return std::launder(reinterpret_cast<const XXH3_state_t*>(from));
}

}  // namespace

hello_block write_hello(const base::id& process,
                        std::span<const std::byte, nonce_bytes> nonce) noexcept {
  hello_block out{};
  std::memcpy(out.data(), hello_mark.data(), hello_mark.size());
  put_number(out, 8, bulk_version);
  put_number(out, 16, process.high);
  put_number(out, 24, process.low);
  std::ranges::copy(nonce, out.begin() + 32);
  return out;
}

std::optional<base::id> read_hello(const hello_block& from) noexcept {
  const bool is_one = std::memcmp(from.data(), hello_mark.data(), hello_mark.size()) == 0 &&
                      number_at<std::uint32_t>(from, 8) == bulk_version &&
                      number_at<std::uint32_t>(from, 12) == 0;
  if (!is_one) return std::nullopt;
  return base::id{number_at<std::uint64_t>(from, 16), number_at<std::uint64_t>(from, 24)};
}

request_block write_request(const request& from) noexcept {
  request_block out{};
  put_number(out, 0, request_mark);
  put_number(out, 4, from.bytes);
  put_number(out, 8, from.object.high);
  put_number(out, 16, from.object.low);
  put_number(out, 24, from.at);
  put_number(out, 32, from.reader);
  return out;
}

std::optional<request> read_request(const request_block& from) noexcept {
  request out;
  out.bytes = number_at<std::uint32_t>(from, 4);
  out.object = {number_at<std::uint64_t>(from, 8), number_at<std::uint64_t>(from, 16)};
  out.at = number_at<std::uint64_t>(from, 24);
  out.reader = number_at<std::uint64_t>(from, 32);
  if (number_at<std::uint32_t>(from, 0) != request_mark) return std::nullopt;
  if (out.bytes > most_chunk_bytes) return std::nullopt;
  if (out.is_note() && (out.reader == 0 || out.at > 1)) return std::nullopt;
  if (out.at + out.bytes < out.at) return std::nullopt;
  return out;
}

answer_block write_answer(const answer& from) noexcept {
  answer_block out{};
  put_number(out, 0, answer_mark);
  put_number(out, 4, static_cast<std::uint32_t>(from.is));
  put_number(out, 8, from.at);
  put_number(out, 16, from.bytes);
  put_number(out, 24, from.whom);
  return out;
}

std::optional<answer> read_answer(const answer_block& from) noexcept {
  const auto status = number_at<std::uint32_t>(from, 4);
  const answer out{static_cast<answer_status>(status), number_at<std::uint64_t>(from, 8),
                   number_at<std::uint32_t>(from, 16), number_at<std::uint64_t>(from, 24)};
  if (number_at<std::uint32_t>(from, 0) != answer_mark) return std::nullopt;
  if (status > 3 || number_at<std::uint32_t>(from, 20) != 0) return std::nullopt;
  if ((out.is == answer_status::here) != (out.bytes > 0)) return std::nullopt;
  if ((out.is == answer_status::elsewhere) != (out.whom > 0)) return std::nullopt;
  return out;
}

sum_block write_sum(std::uint64_t sum) noexcept {
  sum_block out{};
  put_number(out, 0, sum);
  return out;
}
std::uint64_t read_sum(const sum_block& from) noexcept { return number_at<std::uint64_t>(from, 0); }

checksum::checksum() noexcept : state_{} {
  static_assert(sizeof(XXH3_state_t) <= sizeof state_ && alignof(XXH3_state_t) <= 64);
  new (state_.data()) XXH3_state_t;
  reset();
}
void checksum::reset() noexcept { XXH3_64bits_reset(sum_state(state_.data())); }
void checksum::add(std::span<const std::byte> piece) noexcept {
  XXH3_64bits_update(sum_state(state_.data()), piece.data(), piece.size());
}
std::uint64_t checksum::value() const noexcept {
  return XXH3_64bits_digest(sum_state(state_.data()));
}

}  // namespace manta::inline v0::bulk
