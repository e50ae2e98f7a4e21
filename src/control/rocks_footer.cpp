// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "control/rocks_folder.hpp"

// Whether the ends of a store's tables say what ours say.
//
// Problem. Every block of a table has a checksum, but the table's last 53 bytes, which say by which
// method and how blocks are to be read, have none. One flipped bit there turns the checksums off,
// or makes RocksDB take a block for another kind, which ends the process where it is built with
// assertions.
//
// Idea. All tables are written with one method and one format, so the bytes that say so
// are known.
//
//     checksum's method 1 | places of two blocks, 40, which have checksums | format 4 | magic 8

namespace manta::inline v0::control {

namespace {

constexpr std::size_t most_damaged = 3;  // of the 13 known bytes of what is an end of ours
constexpr std::size_t footer_bytes = 53;
constexpr char our_method = 4;  // rocksdb::kXXH3
constexpr std::string_view our_end("\5\0\0\0\xf7\xcf\xf4\x85\xb7\x41\xe2\x88", 12);

/// Where a table's footer begins; none in a file that is too short or can't be read.
std::optional<std::streamoff> footer_of(const std::filesystem::path& table) {
  std::error_code failed;
  const std::uintmax_t size = std::filesystem::file_size(table, failed);
  if (failed || size < footer_bytes) return std::nullopt;
  return static_cast<std::streamoff>(size - footer_bytes);
}

// Nothing is wrong with what can't be read here, nor with what is no end at all: that is a table
// that a crash kept from being finished, which nobody names, or RocksDB says it better.
bool has_our_end(const std::filesystem::path& table) {
  const std::optional<std::streamoff> at = footer_of(table);
  if (!at) return true;
  std::ifstream in(table, std::ios::binary);
  in.seekg(*at);
  std::string footer(footer_bytes, '\0');
  if (!in.read(footer.data(), static_cast<std::streamsize>(footer.size()))) return true;
  const std::string_view end = std::string_view(footer).substr(footer_bytes - our_end.size());
  std::size_t others = footer.front() == our_method ? 0 : 1;
  for (std::size_t i = 0; i < our_end.size(); ++i) others += end[i] == our_end[i] ? 0 : 1;
  return others == 0 || others > most_damaged;
}

}  // namespace

result<void> check_footers(const std::string& path) {
  const result<folder_listing> has = folder_listing::of_any(path);
  if (!has) return {};
  for (const std::string& name : has->tables) {
    if (has_our_end(std::filesystem::path(path) / name)) continue;
    return damaged(path, fmt::format("Corruption: the end of {}", name));
  }
  return {};
}

std::vector<std::string> mend_footers(const std::string& path) {
  std::vector<std::string> mended;
  const result<folder_listing> has = folder_listing::of_any(path);
  if (!has) return mended;
  for (const std::string& name : has->tables) {
    const std::filesystem::path table = std::filesystem::path(path) / name;
    const std::optional<std::streamoff> at = footer_of(table);
    if (!at || has_our_end(table)) continue;
    std::fstream to(table, std::ios::in | std::ios::out | std::ios::binary);
    to.seekp(*at);
    to.put(our_method);
    to.seekp(*at + static_cast<std::streamoff>(footer_bytes - our_end.size()));
    to.write(our_end.data(), static_cast<std::streamsize>(our_end.size()));
    mended.push_back(name);
  }
  return mended;
}

}  // namespace manta::inline v0::control
