// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include "control/rocks_folder.hpp"

// Whether a store's list of its tables is whole.
//
// Problem. RocksDB takes a manifest that ends within a record for one that a crash ended, and goes
// on with the tables that were named before. One flipped bit in a record's length looks the same:
// all records after it are dropped, their tables deleted as not needed, and the store opens without
// them.
//
// Idea. What a crash leaves after the last whole record is a part of one record. So the rest is
// searched for a whole one, and the first of it tried with the length that it should have: the
// checksum does not cover the length.
//
//     block of 32 KiB:  [ checksum 4 | length 2 | type 1 | bytes ] ...  zeros where no header fits

namespace manta::inline v0::control {

namespace {

constexpr std::size_t block_bytes = 32768;
constexpr std::size_t header_bytes = 7;

using table = std::array<std::uint32_t, 256>;

constexpr table make_table() {
  table out{};
  for (std::uint32_t i = 0; i < out.size(); ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1U) ^ ((c & 1U) != 0 ? 0x82f63b78U : 0U);
    out.at(i) = c;
  }
  return out;
}

// CRC-32C.
std::uint32_t checksum(std::string_view bytes) {
  static constexpr table of_byte = make_table();
  std::uint32_t c = ~0U;
  for (const char one : bytes) {
    c = (c >> 8U) ^ of_byte[(c ^ static_cast<unsigned char>(one)) & 0xffU];
  }
  return ~c;
}

std::uint32_t number(std::string_view bytes) {
  std::uint32_t out = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    out = (out << 8U) | static_cast<unsigned char>(bytes[i]);
  }
  return out;
}

/// Whether a record of `length` bytes begins at `at`. The checksum is stored turned and shifted.
bool is_record(std::string_view all, std::size_t at, std::size_t length) {
  if (at + header_bytes + length > all.size()) return false;
  const std::uint32_t c = checksum(all.substr(at + 6, 1 + length));
  return number(all.substr(at, 4)) == ((c >> 15U) | (c << 17U)) + 0xa282ead8U;
}

std::size_t length_at(std::string_view all, std::size_t at) {
  return number(all.substr(at + 4, 2));
}

/// Where the whole records from the beginning on end.
std::size_t whole_part(std::string_view all) {
  std::size_t at = 0;
  for (;;) {
    const std::size_t left = block_bytes - at % block_bytes;
    if (left < header_bytes) {
      at += left;
      continue;
    }
    if (at + header_bytes > all.size()) return std::min(at, all.size());
    const std::size_t length = length_at(all, at);
    if (header_bytes + length > left || !is_record(all, at, length)) return at;
    at += header_bytes + length;
  }
}

// A record that is there to its end and has another checksum was not cut off by a crash.
bool has_record(std::string_view all, std::size_t from) {
  if (from + header_bytes > all.size()) return false;
  const bool is_empty = all.substr(from, header_bytes) == std::string_view("\0\0\0\0\0\0\0", 7);
  if (!is_empty && from + header_bytes + length_at(all, from) <= all.size()) return true;
  if (is_record(all, from, all.size() - from - header_bytes)) return true;
  for (std::size_t at = from; at + header_bytes <= all.size(); ++at) {
    if (is_record(all, at, length_at(all, at))) return true;
  }
  return false;
}

}  // namespace

result<void> check_manifest(const std::string& path) {
  std::string name;
  std::ifstream current(path + "/CURRENT", std::ios::binary);
  std::getline(current, name);
  const std::filesystem::path at = std::filesystem::path(path) / name;
  std::error_code failed;
  // RocksDB says it better. To read a folder as a file throws.
  const bool is_one = name.starts_with("MANIFEST-") && name.find('/') == std::string::npos;
  if (!is_one || !std::filesystem::is_regular_file(at, failed)) return {};
  std::ifstream in(at, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), {}};
  if (!has_record(all, whole_part(all))) return {};
  return damaged(path, "Corruption: a record within " + name);
}

}  // namespace manta::inline v0::control
