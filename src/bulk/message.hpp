// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <manta/base/id.hpp>

// What is said on a connection of this room, byte by byte. All numbers are little endian.
//
// hello, each way, once           proof, each way, once, over TCP alone
//    0  8  "mantablk"                0 32  HMAC-SHA256 (guard::proof_of) over both hellos
//    8  4  version, 2
//   12  4  zero
//   16 16  process: high, low, of the listener; a dialler says whom it means
//   32 32  nonce
//
// request                         answer
//    0  4  0x3f6b6c62                0  4  0x216b6c62
//    4  4  bytes, 1 to 4 MiB         4  4  status: 0 here they are, 1 not here, 2 ask another,
//                                          3 not here yet
//    8 16  id: high, low             8  8  at, as asked
//   24  8  at                       16  4  bytes that follow: as asked if here, else 0
//   32  8  reader: 0, or who asks   20  4  zero
//                                   24  8  whom to ask; 0 but for status 2
//                                  then, if here they are, the bytes, and
//                                    0  8  XXH3, 64 bits, of the bytes
//
// A request of 0 bytes is a note, which has no answer: that reader has all of the object from now
// on (at is 1), or reads it no more and has none (at is 0). A reader is what the process with the
// object knows others by; who says 0 in a request is not told of another one.
//
// The checksum is behind the bytes, so that both ends make it of each piece while that is in the
// cache. Answers come in the order of the requests. Whatever is not exactly this closes the
// connection.
//
// Threads: values.

namespace manta::inline v0::bulk {

inline constexpr std::size_t hello_bytes = 64;
inline constexpr std::size_t nonce_bytes = 32;
inline constexpr std::size_t proof_bytes = 32;
inline constexpr std::size_t request_bytes = 40;
inline constexpr std::size_t answer_bytes = 32;
inline constexpr std::size_t sum_bytes = 8;
/// The most that a request may ask for.
inline constexpr std::uint32_t most_chunk_bytes = std::uint32_t{4} << 20U;

using hello_block = std::array<std::byte, hello_bytes>;
using proof_block = std::array<std::byte, proof_bytes>;
using request_block = std::array<std::byte, request_bytes>;
using answer_block = std::array<std::byte, answer_bytes>;
using sum_block = std::array<std::byte, sum_bytes>;

struct request {
  base::id object = {};
  std::uint64_t at = 0;
  std::uint32_t bytes = 0;
  std::uint64_t reader = 0;

  bool is_note() const noexcept { return bytes == 0; }
};

/// late: who answers waits for them itself, for longer than others are to wait with it.
enum class answer_status : std::uint32_t { here = 0, not_here = 1, elsewhere = 2, late = 3 };

struct answer {
  answer_status is = answer_status::here;
  std::uint64_t at = 0;
  std::uint32_t bytes = 0;
  std::uint64_t whom = 0;
};

hello_block write_hello(const base::id& process,
                        std::span<const std::byte, nonce_bytes> nonce) noexcept;
/// The process that it names; nothing: it is none of this version.
std::optional<base::id> read_hello(const hello_block& from) noexcept;
request_block write_request(const request& from) noexcept;
/// Nothing: it is none.
std::optional<request> read_request(const request_block& from) noexcept;
answer_block write_answer(const answer& from) noexcept;
std::optional<answer> read_answer(const answer_block& from) noexcept;
sum_block write_sum(std::uint64_t sum) noexcept;
std::uint64_t read_sum(const sum_block& from) noexcept;

/// XXH3 of pieces that come one after the other.
class checksum {
 public:
  checksum() noexcept;
  void reset() noexcept;
  void add(std::span<const std::byte> piece) noexcept;
  std::uint64_t value() const noexcept;

 private:
  // The library's state, whose type is the .cpp's alone.
  alignas(64) std::array<std::byte, 640> state_;
};

}  // namespace manta::inline v0::bulk
