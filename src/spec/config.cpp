// SPDX-License-Identifier: Apache-2.0
#include <manta/spec/config.hpp>

#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace manta::inline v0::spec {

namespace {

struct known_key {
  const char* name;
  const char* variable;
  int config::*field;
  int low;
  int high;
  int fallback;  // -1: the number of cores
};

constexpr std::array<known_key, 3> keys = {{
    {"workers", "MANTA_WORKERS", &config::workers, 1, 1024, -1},
    {"spin-us", "MANTA_SPIN_US", &config::spin_us, 0, 10000, 50},
    {"extra-threads", "MANTA_EXTRA_THREADS", &config::extra_threads, 0, 100000, 256},
}};

const known_key* find_key(std::string_view name) {
  for (const known_key& key : keys) {
    if (name == key.name) return &key;
  }
  return nullptr;
}

std::string known_names() {
  std::string text;
  for (const known_key& key : keys) {
    if (!text.empty()) text += ", ";
    text += key.name;
  }
  return text;
}

error refuse(const known_key& key, std::string_view origin, std::string_view value) {
  return error(errc::invalid_config,
               fmt::format("{}: found \"{}\", allowed are whole numbers from {} to {}", origin,
                           value, key.low, key.high));
}

result<int> parse(const known_key& key, const setting& found) {
  int value = 0;
  const char* end = found.value.data() + found.value.size();
  const auto [rest, status] = std::from_chars(found.value.data(), end, value);
  if (status != std::errc() || rest != end || value < key.low || value > key.high) {
    return refuse(key, found.origin, found.value);
  }
  return value;
}

// The last of several settings of one key counts, as on every command line; each must be valid.
std::optional<error> fill(config& into, const std::vector<setting>& settings) {
  config found;
  for (const setting& s : settings) {
    const known_key* key = find_key(s.key);
    if (key == nullptr) {
      return error(errc::invalid_config,
                   fmt::format("{}: no such setting; known are {}", s.origin, known_names()));
    }
    result<int> value = parse(*key, s);
    if (!value) return value.error();
    found.*(key->field) = *value;
  }
  for (const known_key& key : keys) {
    if (into.*(key.field) == -1) into.*(key.field) = found.*(key.field);
  }
  return std::nullopt;
}

}  // namespace

std::vector<setting> settings_from_arguments(int argc, const char* const* argv) {
  constexpr std::string_view prefix = "--manta-";
  std::vector<setting> found;
  for (int i = 1; i < argc && argv[i] != nullptr; ++i) {
    const std::string_view text = argv[i];
    if (text == "--") break;
    if (!text.starts_with(prefix)) continue;
    const std::size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    setting s{std::string(name.substr(prefix.size())), "", std::string(name)};
    if (equals != std::string_view::npos) s.value = text.substr(equals + 1);
    found.push_back(std::move(s));
  }
  return found;
}

std::vector<setting> settings_from_environment() {
  std::vector<setting> found;
  for (const known_key& key : keys) {
    const char* value = std::getenv(key.variable);
    if (value != nullptr) found.push_back({key.name, value, key.variable});
  }
  return found;
}

result<config> complete(config base, const std::vector<setting>& arguments,
                        const std::vector<setting>& environment, int cores) {
  for (const known_key& key : keys) {
    const int value = base.*(key.field);
    if (value != -1 && (value < key.low || value > key.high)) {
      return refuse(key, fmt::format("config {}", key.name), std::to_string(value));
    }
  }
  if (auto bad = fill(base, arguments)) return *std::move(bad);
  if (auto bad = fill(base, environment)) return *std::move(bad);
  for (const known_key& key : keys) {
    if (base.*(key.field) == -1) base.*(key.field) = key.fallback == -1 ? cores : key.fallback;
  }
  return base;
}

}  // namespace manta::inline v0::spec
