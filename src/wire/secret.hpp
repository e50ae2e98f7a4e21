// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

// What only the processes of one cluster know, and what is made of it.
//
// Problem: one shared value has to prove who belongs to a cluster, and to be the root of its
// certificates; it must not stay in memory that others get later, nor in anybody's log.
// Idea: the value has a type of its own, which wipes itself and can't be printed. Each use derives
// a secret of its own from it, by HKDF with the use as its label, so that what one use gives away
// says nothing about another.
// Limits: 32 bytes, SHA-256. What the compiler keeps in registers is not wiped. A library that has
// no SHA-256 ends the process: there is nothing that could be done without.
// Source: RFC 5869 (HKDF), RFC 2104 (HMAC).
// Threads: values; the functions from any.

namespace manta::inline v0::wire {

/// 32 bytes that are wiped when they go.
class secret {
 public:
  static constexpr std::size_t bytes = 32;

  /// Zeroes.
  secret() noexcept = default;
  /// These.
  explicit secret(std::span<const std::byte, bytes> from) noexcept;
  secret(const secret&) noexcept = default;
  secret& operator=(const secret&) noexcept = default;
  ~secret();

  /// As long as this.
  std::span<const std::byte, bytes> view() const noexcept { return bytes_; }

  /// In constant time.
  friend bool operator==(const secret& a, const secret& b) noexcept;

 private:
  std::array<std::byte, bytes> bytes_{};
};

/// What authenticate makes.
using mac = std::array<std::byte, 32>;

/// Writes zeroes that no compiler leaves out.
void wipe(std::span<std::byte> what) noexcept;

/// Random bytes of the kernel's, which are those of a process of its own after a fork, too.
void fill_random(std::span<std::byte> to);

/// HKDF-SHA256 in its general form; `to` has at most 255 * 32 bytes.
void expand(std::span<const std::byte> from, std::span<const std::byte> salt,
            std::span<const std::byte> info, std::span<std::byte> to);

/// The secret for one use: expand without a salt, `label` is the info.
secret derive(const secret& from, std::string_view label);

/// HMAC-SHA256 over the pieces, one behind the other. Where one ends is not part of it: pieces
/// whose sizes a peer may choose need their sizes among them.
mac authenticate(const secret& key, std::span<const std::span<const std::byte>> pieces);

/// The same for a key of any size.
mac authenticate(std::span<const std::byte> key,
                 std::span<const std::span<const std::byte>> pieces);

/// Whether both are the same; the time tells nothing but whether their sizes are.
bool is_equal(std::span<const std::byte> a, std::span<const std::byte> b) noexcept;

}  // namespace manta::inline v0::wire
