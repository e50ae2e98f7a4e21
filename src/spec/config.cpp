// SPDX-License-Identifier: Apache-2.0
#include <manta/spec/config.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace manta::inline v0::spec {

namespace {

struct number_key {
  const char* name;
  const char* variable;
  int config::*field;
  int low;
  int high;
  int grants::*fallback;  // null: `otherwise`
  int otherwise;
};

constexpr number_key numbers[] = {
    {"workers", "MANTA_WORKERS", &config::workers, 1, 1024, &grants::cores, 0},
    {"spin-us", "MANTA_SPIN_US", &config::spin_us, 0, 10000, nullptr, 50},
    {"extra-threads", "MANTA_EXTRA_THREADS", &config::extra_threads, 0, 100000, nullptr, 256},
    {"gpus", "MANTA_GPUS", &config::gpus, 0, 1024, &grants::gpus, 0},
    {"store-wait-ms", "MANTA_STORE_WAIT_MS", &config::store_wait_ms, 0, 3'600'000, nullptr, 10'000},
    {"worker-tasks", "MANTA_WORKER_TASKS", &config::worker_tasks, 0, 1'000'000'000, nullptr, 0},
};

constexpr std::int64_t most_memory = (std::int64_t{1} << 53) - 1;
constexpr std::int64_t least_store = std::int64_t{1} << 20;
constexpr std::int64_t store_percent = 30;
constexpr std::int64_t usual_spill = std::int64_t{1} << 40;

// A setting whose text is more than a number: how it is read, and how a config takes it from
// another when it has none of its own.
struct text_key {
  const char* name;
  const char* variable;
  std::optional<std::string> (*read)(config& into,
                                     std::string_view text);  // what is wrong, or none
  void (*inherit)(config& into, config& from);
};

template <class T>
std::optional<std::string> keep(T& into, const result<std::int64_t>& parsed) {
  if (!parsed) return parsed.error().message();
  into = *parsed;
  return std::nullopt;
}
template <class T>
std::optional<std::string> keep(std::optional<T>& into, result<T> parsed) {
  if (!parsed) return parsed.error().message();
  into = *std::move(parsed);
  return std::nullopt;
}

result<check_mode> parse_check(std::string_view text) {
  if (text == "none") return check_mode::none;
  if (text == "copy") return check_mode::copy;
  if (text == "slow") return check_mode::slow;
  return error(errc::invalid_config,
               fmt::format("found \"{}\", allowed are none, copy and slow", text));
}

result<event_mode> parse_events(std::string_view text) {
  if (text == "none") return event_mode::none;
  if (text == "rare") return event_mode::rare;
  if (text == "all") return event_mode::all;
  return error(errc::invalid_config,
               fmt::format("found \"{}\", allowed are none, rare and all", text));
}

result<isolation_mode> parse_isolation(std::string_view text) {
  if (text == "threads") return isolation_mode::threads;
  if (text == "processes") return isolation_mode::processes;
  return error(errc::invalid_config,
               fmt::format("found \"{}\", allowed are threads and processes", text));
}

result<zygote_mode> parse_zygote(std::string_view text) {
  if (text == "late") return zygote_mode::late;
  if (text == "early") return zygote_mode::early;
  return error(errc::invalid_config, fmt::format("found \"{}\", allowed are late and early", text));
}

result<output_mode> parse_output(std::string_view text) {
  if (text == "prefixed") return output_mode::prefixed;
  if (text == "plain") return output_mode::plain;
  return error(errc::invalid_config,
               fmt::format("found \"{}\", allowed are prefixed and plain", text));
}

result<interrupt_mode> parse_interrupt(std::string_view text) {
  if (text == "end") return interrupt_mode::end;
  if (text == "leave") return interrupt_mode::leave;
  return error(errc::invalid_config, fmt::format("found \"{}\", allowed are end and leave", text));
}

result<std::string> parse_control(std::string_view text) {
  if (!text.empty()) return std::string(text);
  return error(errc::invalid_config, "found \"\", allowed are memory and the path of a folder");
}

result<std::string> parse_spill(std::string_view text) {
  if (!text.empty()) return std::string(text);
  return error(errc::invalid_config, "found \"\", allowed are none and the path of a folder");
}

result<std::string> parse_quota(std::string_view text) {
  if (!text.empty()) return std::string(text);
  return error(errc::invalid_config, "found \"\", allowed is the path of a folder");
}

result<std::int64_t> parse_store(std::string_view text) {
  result<std::int64_t> parsed = parse_bytes(text);
  if (!parsed || (*parsed >= least_store && *parsed <= most_memory)) return parsed;
  return error(errc::invalid_config,
               fmt::format("found \"{}\", allowed are 1 MiB to 2^53 - 1 bytes", text));
}

constexpr text_key texts[] = {
    {"memory", "MANTA_MEMORY",
     [](config& into, std::string_view text) { return keep(into.memory_bytes, parse_bytes(text)); },
     [](config& into, config& from) {
       if (into.memory_bytes == -1) into.memory_bytes = from.memory_bytes;
     }},
    {"resources", "MANTA_RESOURCES",
     [](config& into, std::string_view text) {
       return keep(into.resources, parse_resources(text));
     },
     [](config& into, config& from) {
       if (!into.resources) into.resources = std::move(from.resources);
     }},
    {"check", "MANTA_CHECK",
     [](config& into, std::string_view text) { return keep(into.check, parse_check(text)); },
     [](config& into, config& from) {
       if (!into.check) into.check = from.check;
     }},
    {"labels", "MANTA_LABELS",
     [](config& into, std::string_view text) { return keep(into.labels, parse_labels(text)); },
     [](config& into, config& from) {
       if (!into.labels) into.labels = std::move(from.labels);
     }},
    {"control", "MANTA_CONTROL",
     [](config& into, std::string_view text) { return keep(into.control, parse_control(text)); },
     [](config& into, config& from) {
       if (!into.control) into.control = std::move(from.control);
     }},
    {"events", "MANTA_EVENTS",
     [](config& into, std::string_view text) { return keep(into.events, parse_events(text)); },
     [](config& into, config& from) {
       if (!into.events) into.events = from.events;
     }},
    {"isolation", "MANTA_ISOLATION",
     [](config& into, std::string_view text) {
       return keep(into.isolation, parse_isolation(text));
     },
     [](config& into, config& from) {
       if (!into.isolation) into.isolation = from.isolation;
     }},
    {"zygote", "MANTA_ZYGOTE",
     [](config& into, std::string_view text) { return keep(into.zygote, parse_zygote(text)); },
     [](config& into, config& from) {
       if (!into.zygote) into.zygote = from.zygote;
     }},
    {"worker-output", "MANTA_WORKER_OUTPUT",
     [](config& into, std::string_view text) {
       return keep(into.worker_output, parse_output(text));
     },
     [](config& into, config& from) {
       if (!into.worker_output) into.worker_output = from.worker_output;
     }},
    {"store-bytes", "MANTA_STORE_BYTES",
     [](config& into, std::string_view text) { return keep(into.store_bytes, parse_store(text)); },
     [](config& into, config& from) {
       if (into.store_bytes == -1) into.store_bytes = from.store_bytes;
     }},
    {"spill-folder", "MANTA_SPILL_FOLDER",
     [](config& into, std::string_view text) { return keep(into.spill_folder, parse_spill(text)); },
     [](config& into, config& from) {
       if (!into.spill_folder) into.spill_folder = std::move(from.spill_folder);
     }},
    {"spill-bytes", "MANTA_SPILL_BYTES",
     [](config& into, std::string_view text) { return keep(into.spill_bytes, parse_bytes(text)); },
     [](config& into, config& from) {
       if (into.spill_bytes == -1) into.spill_bytes = from.spill_bytes;
     }},
    {"quota-bytes", "MANTA_QUOTA_BYTES",
     [](config& into, std::string_view text) { return keep(into.quota_bytes, parse_bytes(text)); },
     [](config& into, config& from) {
       if (into.quota_bytes == -1) into.quota_bytes = from.quota_bytes;
     }},
    {"quota-folder", "MANTA_QUOTA_FOLDER",
     [](config& into, std::string_view text) { return keep(into.quota_folder, parse_quota(text)); },
     [](config& into, config& from) {
       if (!into.quota_folder) into.quota_folder = std::move(from.quota_folder);
     }},
    {"worker-recycle", "MANTA_WORKER_RECYCLE",
     [](config& into, std::string_view text) {
       return keep(into.worker_recycle_bytes, parse_bytes(text));
     },
     [](config& into, config& from) {
       if (into.worker_recycle_bytes == -1) into.worker_recycle_bytes = from.worker_recycle_bytes;
     }},
    {"worker-memory", "MANTA_WORKER_MEMORY",
     [](config& into, std::string_view text) {
       return keep(into.worker_memory_bytes, parse_bytes(text));
     },
     [](config& into, config& from) {
       if (into.worker_memory_bytes == -1) into.worker_memory_bytes = from.worker_memory_bytes;
     }},
    {"interrupt", "MANTA_INTERRUPT",
     [](config& into, std::string_view text) {
       return keep(into.interrupt, parse_interrupt(text));
     },
     [](config& into, config& from) {
       if (!into.interrupt) into.interrupt = from.interrupt;
     }},
};

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
  for (const number_key& key : numbers) add(key.name);
  for (const text_key& key : texts) add(key.name);
  return list;
}

error bad(std::string message) { return {errc::invalid_config, std::move(message)}; }

error refuse(const number_key& key, std::string_view origin, std::string_view value) {
  return bad(fmt::format("{}: found \"{}\", allowed are whole numbers from {} to {}", origin, value,
                         key.low, key.high));
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
  if (const number_key* key = find_key(numbers, found.key)) return read(into, *key, found);
  if (const text_key* key = find_key(texts, found.key)) {
    if (const auto wrong = key->read(into, found.value)) {
      return bad(fmt::format("{}: {}", found.origin, *wrong));
    }
    return std::nullopt;
  }
  return bad(fmt::format("{}: no such setting; known are {}", found.origin, known_names()));
}

// The last of several settings of one key counts, as on every command line; each must be valid.
std::optional<error> fill(config& into, const std::vector<setting>& settings) {
  config found;
  for (const setting& s : settings) {
    if (auto wrong = read(found, s)) return wrong;
  }
  for (const number_key& key : numbers) {
    if (into.*(key.field) == -1) into.*(key.field) = found.*(key.field);
  }
  for (const text_key& key : texts) key.inherit(into, found);
  return std::nullopt;
}

// The fields that were set in the program.
std::optional<error> fault(const config& given) {
  for (const number_key& key : numbers) {
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
  try {
    if (given.resources) check_resources("config resources", *given.resources);
    if (given.labels) check_labels("config labels", *given.labels);
    if (given.control && given.control->empty()) {
      return bad("config control: found \"\", allowed are memory and the path of a folder");
    }
    if (given.spill_folder && given.spill_folder->empty()) {
      return bad("config spill_folder: found \"\", allowed are none and the path of a folder");
    }
    if (given.quota_folder && given.quota_folder->empty()) {
      return bad("config quota_folder: found \"\", allowed is the path of a folder");
    }
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
  look(numbers);
  look(texts);
  return found;
}

result<config> complete(config base, const std::vector<setting>& arguments,
                        const std::vector<setting>& environment, const grants& machine) {
  if (auto wrong = fault(base)) return *std::move(wrong);
  if (auto wrong = fill(base, arguments)) return *std::move(wrong);
  if (auto wrong = fill(base, environment)) return *std::move(wrong);
  for (const number_key& key : numbers) {
    if (base.*(key.field) != -1) continue;
    base.*(key.field) = key.fallback == nullptr ? key.otherwise : machine.*(key.fallback);
  }
  if (base.memory_bytes == -1) base.memory_bytes = machine.memory_bytes;
  const std::int64_t share = std::max(least_store, machine.memory_bytes / 100 * store_percent);
  if (base.store_bytes == -1) base.store_bytes = share;
  if (base.quota_bytes == -1) base.quota_bytes = std::max(share, base.store_bytes);
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
  return base;
}

}  // namespace manta::inline v0::spec
