// SPDX-License-Identifier: Apache-2.0
#include <manta/spec/config.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "spec/config_keys.hpp"
#include "spec/texts.hpp"

namespace manta::inline v0::spec {

namespace {

// 30 % of what is granted.
constexpr std::int64_t store_share(std::int64_t memory_bytes) noexcept {
  return std::max(least_store, memory_bytes / 100 * 30);
}
constexpr std::int64_t usual_spill = std::int64_t{1} << 40;

template <class Keys>
auto find_key(const Keys& keys, std::string_view name) -> decltype(&keys[0]) {
  for (const auto& key : keys) {
    if (name == key.name) return &key;
  }
  return nullptr;
}

std::string known_names() {
  std::string list;
  const auto add = [&list](const char* name) {
    if (!list.empty()) list += ", ";
    list += name;
  };
  for (const number_key& key : number_keys()) add(key.name);
  for (const text_key& key : text_keys()) add(key.name);
  return list;
}

error bad(std::string message) { return {errc::invalid_config, std::move(message)}; }

error refuse(const number_key& key, std::string_view origin, std::string_view value) {
  return bad(fmt::format("{}: found \"{}\", allowed are whole numbers from {} to {}", origin,
                         shown(value), key.low, key.high));
}

std::optional<error> read(config& into, const number_key& key, const setting& found) {
  int value = 0;
  const char* end = found.value.data() + found.value.size();
  const auto [rest, status] = std::from_chars(found.value.data(), end, value);
  if (status != std::errc() || rest != end || value < key.low || value > key.high) {
    return refuse(key, found.origin, found.value);
  }
  into.*(key.field) = value;
  return std::nullopt;
}

std::optional<error> read(config& into, const setting& found) {
  if (const number_key* key = find_key(number_keys(), found.key)) return read(into, *key, found);
  if (const text_key* key = find_key(text_keys(), found.key)) {
    if (const auto wrong = key->read(into, found.value)) {
      return bad(fmt::format("{}: {}", found.origin, *wrong));
    }
    return std::nullopt;
  }
  return bad(fmt::format("{}: no such setting; known are {}", shown(found.origin), known_names()));
}

// The last of several settings of one key counts, as on every command line; each must be valid.
std::optional<error> fill(config& into, const std::vector<setting>& settings) {
  config found;
  for (const setting& s : settings) {
    if (auto wrong = read(found, s)) return wrong;
  }
  for (const number_key& key : number_keys()) {
    if (into.*(key.field) == -1) into.*(key.field) = found.*(key.field);
  }
  for (const text_key& key : text_keys()) key.inherit(into, found);
  return std::nullopt;
}

// The field of a config has the key's name, with _ for -.
std::string field_name(const text_key& key) {
  std::string name = key.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// The fields that were set in the program.
std::optional<error> fault(const config& given) {
  for (const number_key& key : number_keys()) {
    const int value = given.*(key.field);
    if (value != -1 && (value < key.low || value > key.high)) {
      return refuse(key, fmt::format("config {}", key.name), std::to_string(value));
    }
  }
  const auto check_bytes = [](const char* name, std::int64_t value) -> std::optional<error> {
    if (value >= -1 && value <= most_memory) return std::nullopt;
    return bad(fmt::format("config {}: found {}, allowed are 0 to 2^53 - 1", name, value));
  };
  if (auto wrong = check_bytes("memory_bytes", given.memory_bytes)) return wrong;
  if (auto wrong = check_bytes("spill_bytes", given.spill_bytes)) return wrong;
  if (auto wrong = check_bytes("quota_bytes", given.quota_bytes)) return wrong;
  if (auto wrong = check_bytes("worker_recycle_bytes", given.worker_recycle_bytes)) return wrong;
  if (auto wrong = check_bytes("worker_memory_bytes", given.worker_memory_bytes)) return wrong;
  if (given.store_bytes != -1 &&
      (given.store_bytes < least_store || given.store_bytes > most_memory)) {
    return bad(fmt::format("config store_bytes: found {}, allowed are 1 MiB to 2^53 - 1 bytes",
                           given.store_bytes));
  }
  for (const text_key& key : text_keys()) {
    if (key.fault == nullptr) continue;
    if (const auto wrong = key.fault(given)) {
      return bad(fmt::format("config {}: {}", field_name(key), *wrong));
    }
  }
  try {
    if (given.resources) check_resources("config resources", *given.resources);
    if (given.labels) check_labels("config labels", *given.labels);
  } catch (const exception& wrong) {
    return bad(wrong.as_error().message());
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
  const auto look = [&found](const auto& keys) {
    for (const auto& key : keys) {
      const char* value = std::getenv(key.variable);
      if (value != nullptr) found.push_back({key.name, value, key.variable});
    }
  };
  look(number_keys());
  look(text_keys());
  return found;
}

result<config> complete(config base, const std::vector<setting>& arguments,
                        const std::vector<setting>& environment, const grants& machine) {
  if (auto wrong = fault(base)) return *std::move(wrong);
  if (auto wrong = fill(base, arguments)) return *std::move(wrong);
  if (auto wrong = fill(base, environment)) return *std::move(wrong);
  for (const number_key& key : number_keys()) {
    if (base.*(key.field) != -1) continue;
    base.*(key.field) = key.fallback == nullptr ? key.otherwise : machine.*(key.fallback);
  }
  if (base.memory_bytes == -1) base.memory_bytes = machine.memory_bytes;
  if (base.store_bytes == -1) base.store_bytes = store_share(machine.memory_bytes);
  if (base.quota_bytes == -1) {
    base.quota_bytes = std::max(store_share(machine.quota_base_bytes), base.store_bytes);
  }
  if (base.spill_bytes == -1) base.spill_bytes = usual_spill;
  if (!base.spill_folder) base.spill_folder = "none";
  if (!base.resources) base.resources.emplace();
  if (!base.labels) base.labels.emplace();
  if (!base.check) base.check = check_mode::none;
  if (!base.control) base.control = "memory";
  if (!base.events) base.events = event_mode::rare;
  if (!base.isolation) base.isolation = isolation_mode::threads;
  if (!base.zygote) base.zygote = zygote_mode::late;
  if (base.worker_recycle_bytes == -1) base.worker_recycle_bytes = 0;
  if (base.worker_memory_bytes == -1) base.worker_memory_bytes = 0;
  if (!base.interrupt) base.interrupt = interrupt_mode::end;
  if (!base.worker_output) base.worker_output = output_mode::prefixed;
  if (!base.insecure_plaintext) base.insecure_plaintext = false;
  if (!base.spmd) base.spmd = false;
  if (!base.share) base.share = true;
  if (!base.share_resources) base.share_resources = true;
  if (!base.map_arrays) base.map_arrays = true;
  return base;
}

}  // namespace manta::inline v0::spec
