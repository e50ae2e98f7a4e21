// SPDX-License-Identifier: Apache-2.0
//
// The work of bench_control, the same for everybody: keys, values, packed records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "harness/folder.hpp"
#include "harness/measure.hpp"

namespace bench {

inline constexpr std::size_t control_keys = 100'000;  // written again and again, at random
inline constexpr std::size_t key_bytes = 21;
inline constexpr std::size_t value_bytes = 100;
inline constexpr std::size_t changes_in_flight = 8192;  // of the batch rows
inline constexpr std::size_t packed_records = 256;      // in one value
inline constexpr std::size_t packed_bytes = packed_records * value_bytes;

// Numbers that look like chance.
inline std::uint64_t scatter(std::uint64_t n) {
  n = (n ^ (n >> 31U)) * 0x9e3779b97f4a7c15U;
  n = (n ^ (n >> 29U)) * 0xd6e8feb86659fd93U;
  return n ^ (n >> 32U);
}

// "task/" and 16 digits, in the order of numbers.
inline void write_key(char* to, std::uint64_t n) {
  std::memcpy(to, "task/", 5);
  for (std::size_t i = key_bytes; i-- > 5; n >>= 4U) to[i] = "0123456789abcdef"[n & 15U];
}

// Half of it ids, which can't be compressed, half of it text, which can.
inline void write_value(char* to, std::uint64_t n) {
  constexpr std::size_t ids = 6 * sizeof n;
  for (std::size_t i = 0; i < ids; i += sizeof n) {
    n = scatter(n + 1);
    std::memcpy(to + i, &n, sizeof n);
  }
  constexpr std::string_view text = "simulation::step(grid const&, double), attempt 1 of 4";
  static_assert(text.size() >= value_bytes - ids);
  std::memcpy(to + ids, text.data(), value_bytes - ids);
}

inline std::string key_of(std::uint64_t n) {
  std::string key(key_bytes, '\0');
  write_key(key.data(), n);
  return key;
}
inline std::string value_of(std::uint64_t n) {
  std::string value(value_bytes, '\0');
  write_value(value.data(), n);
  return value;
}
// The n-th value of packed records.
inline std::string pack(std::uint64_t n) {
  std::string value(packed_bytes, '\0');
  for (std::size_t i = 0; i < packed_records; ++i) {
    write_value(value.data() + i * value_bytes, n * packed_records + i);
  }
  return value;
}

// Of the files in it, those that end before they are looked at left out.
inline double folder_bytes(const std::string& path, const char* extension = nullptr) {
  double sum = 0;
  for (const auto& one : std::filesystem::directory_iterator(path)) {
    if (extension != nullptr && one.path().extension() != extension) continue;
    std::error_code gone;
    const auto size = one.file_size(gone);
    if (!gone) sum += static_cast<double>(size);
  }
  return sum;
}

struct batch_row {
  const char* key;
  std::size_t changes;  // of a batch
};
inline constexpr batch_row batch_rows[] = {{"batch_1", 1}, {"batch_16", 16}, {"batch_256", 256}};

// bench_control
inline constexpr const char* packed = "packed";
inline constexpr const char* packed_durable = "packed_durable";
inline constexpr const char* durable_alone = "durable_alone";
inline constexpr const char* durable_extra = "durable_extra";  // less the fsync
inline constexpr const char* get_one = "get_one";
inline constexpr const char* watched = "watched";
inline constexpr const char* long_store = "long_store";  // 50 M packed records
inline constexpr const char* reopened = "reopened";      // after kill -9
inline constexpr const char* events_cost = "events";

struct read_row {
  const char* key;
  std::size_t records;  // of the store
};
// The second does not fit into a store's cache: what a read costs then is its filters and indexes.
inline constexpr read_row read_rows[] = {{get_one, control_keys}, {"get_of_4m", 4'000'000}};

// The program as the process that fills a store and is killed.
inline constexpr const char* fill_option = "--fill-and-die";
int fill_and_die(const char* path);

}  // namespace bench
