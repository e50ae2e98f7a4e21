// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <manta/spec/config.hpp>

// The keys of all settings: how each is called, read, checked and passed on. What a config without
// one becomes stands in config.cpp.
//
// Threads: constants.

namespace manta::inline v0::spec {

/// A setting that is a whole number.
struct number_key {
  const char* name;
  const char* variable;
  int config::*field;
  int low;
  int high;
  int grants::*fallback;  ///< null: `otherwise`
  int otherwise;          ///< -1: a config may be without
};

/// A setting whose text is more than a number.
struct text_key {
  const char* name;
  const char* variable;
  /// What is wrong with `text`, or none.
  std::optional<std::string> (*read)(config& into, std::string_view text);
  /// Takes it from another config where this one has none.
  void (*inherit)(config& into, config& from);
  /// What is wrong with what the program has set, or none. Null: see config.cpp.
  std::optional<std::string> (*fault)(const config& given);
};

inline constexpr std::int64_t most_memory = (std::int64_t{1} << 53) - 1;
inline constexpr std::int64_t least_store = std::int64_t{1} << 20;

std::span<const number_key> number_keys() noexcept;
std::span<const text_key> text_keys() noexcept;

/// Whether `text` can be the name of a job: it is a file's, too.
bool is_job_name(std::string_view text) noexcept;

}  // namespace manta::inline v0::spec
