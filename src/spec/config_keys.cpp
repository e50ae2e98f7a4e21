// SPDX-License-Identifier: Apache-2.0
#include "spec/config_keys.hpp"

#include <algorithm>
#include <charconv>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "spec/texts.hpp"

namespace manta::inline v0::spec {

namespace {

constexpr number_key numbers[] = {
    {"workers", "MANTA_WORKERS", &config::workers, 1, 1024, &grants::cores, 0},
    {"spin-us", "MANTA_SPIN_US", &config::spin_us, 0, 10000, nullptr, 50},
    {"extra-threads", "MANTA_EXTRA_THREADS", &config::extra_threads, 0, 100000, nullptr, 256},
    {"gpus", "MANTA_GPUS", &config::gpus, 0, 1024, &grants::gpus, 0},
    {"store-wait-ms", "MANTA_STORE_WAIT_MS", &config::store_wait_ms, 0, 3'600'000, nullptr, 10'000},
    {"worker-tasks", "MANTA_WORKER_TASKS", &config::worker_tasks, 0, 1'000'000'000, nullptr, 0},
    {"nodes", "MANTA_NODES", &config::nodes, 1, 1024, nullptr, -1},
    {"rank", "MANTA_RANK", &config::rank, 0, 65535, nullptr, -1},
    {"world-size", "MANTA_WORLD_SIZE", &config::world_size, 1, 65536, nullptr, -1},
    {"join-ms", "MANTA_JOIN_MS", &config::join_ms, 100, 3'600'000, nullptr, 15'000},
    {"dead-after-ms", "MANTA_DEAD_AFTER_MS", &config::dead_after_ms, 500, 3'600'000, nullptr, 3000},
    {"drain-ms", "MANTA_DRAIN_MS", &config::drain_ms, 0, 3'600'000, nullptr, 30'000},
};

constexpr std::size_t longest_host = 255;
constexpr std::size_t longest_socket_path = 107;  // what a unix socket's address holds
constexpr std::size_t longest_job_name = 64;

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

bool is_unset(std::int64_t value) noexcept { return value == -1; }
template <class T>
bool is_unset(const std::optional<T>& value) noexcept {
  return !value.has_value();
}

error not_allowed(std::string_view text, std::string_view allowed) {
  constexpr std::size_t most = 300;  // of a path or a host all that there may be
  return error(errc::invalid_config,
               fmt::format("found \"{}\", allowed {}", shown(text, most), allowed));
}

result<check_mode> parse_check(std::string_view text) {
  if (text == "none") return check_mode::none;
  if (text == "copy") return check_mode::copy;
  if (text == "slow") return check_mode::slow;
  if (text == "far") return check_mode::far;
  if (text == "far-tasks") return check_mode::far_tasks;
  return not_allowed(text, "are none, copy, slow, far and far-tasks");
}

result<event_mode> parse_events(std::string_view text) {
  if (text == "none") return event_mode::none;
  if (text == "rare") return event_mode::rare;
  if (text == "all") return event_mode::all;
  return not_allowed(text, "are none, rare and all");
}

result<isolation_mode> parse_isolation(std::string_view text) {
  if (text == "threads") return isolation_mode::threads;
  if (text == "processes") return isolation_mode::processes;
  return not_allowed(text, "are threads and processes");
}

result<zygote_mode> parse_zygote(std::string_view text) {
  if (text == "late") return zygote_mode::late;
  if (text == "early") return zygote_mode::early;
  return not_allowed(text, "are late and early");
}

result<output_mode> parse_output(std::string_view text) {
  if (text == "prefixed") return output_mode::prefixed;
  if (text == "plain") return output_mode::plain;
  return not_allowed(text, "are prefixed and plain");
}

result<interrupt_mode> parse_interrupt(std::string_view text) {
  if (text == "end") return interrupt_mode::end;
  if (text == "leave") return interrupt_mode::leave;
  return not_allowed(text, "are end and leave");
}

result<role_mode> parse_role(std::string_view text) {
  if (text == "driver") return role_mode::driver;
  if (text == "node") return role_mode::node;
  if (text == "head") return role_mode::head;
  if (text == "observer") return role_mode::observer;
  return not_allowed(text, "are driver, node, head and observer");
}

result<bool> parse_yes(std::string_view text) {
  if (text == "yes") return true;
  if (text == "no") return false;
  return not_allowed(text, "are yes and no");
}

result<std::string> parse_control(std::string_view text) {
  if (!text.empty()) return std::string(text);
  return not_allowed(text, "are memory and the path of a folder");
}

result<std::string> parse_spill(std::string_view text) {
  if (!text.empty()) return std::string(text);
  return not_allowed(text, "are none and the path of a folder");
}

result<std::string> parse_quota(std::string_view text) {
  if (!text.empty()) return std::string(text);
  return not_allowed(text, "is the path of a folder");
}

result<std::string> parse_token(std::string_view text) {
  if (!text.empty()) return std::string(text);
  return not_allowed(text, "is the path of a file");
}

// Ranks may have been started in different folders: a path that is not whole would be several.
result<std::string> parse_rendezvous(std::string_view text) {
  if (text.starts_with('/')) return std::string(text);
  return not_allowed(text, "is the path of a folder, from / on");
}

result<std::string> parse_job(std::string_view text) {
  if (is_job_name(text)) return std::string(text);
  return not_allowed(text, "are 1 to 64 letters, digits, '.', '_' and '-'");
}

result<std::string> parse_member_name(std::string_view text) {
  if (fault_of_member_name(text) == nullptr) return std::string(text);
  return not_allowed(text,
                     "are 1 to 64 bytes without control characters, but for local, by which each "
                     "node means itself");
}

// Of HOST:PORT, or none when that is not what it is: the host may be empty.
struct host_and_port {
  std::string_view host;
  unsigned port = 0;
};

std::optional<host_and_port> split_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  host_and_port out{text.substr(0, colon)};
  const std::string_view port = text.substr(colon + 1);
  const auto [rest, status] = std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (status != std::errc() || rest != port.data() + port.size() || out.port > 65535) {
    return std::nullopt;
  }
  const bool has_brackets = out.host.starts_with('[') && out.host.ends_with(']');
  if (has_brackets) {
    out.host = out.host.substr(1, out.host.size() - 2);
    if (out.host.find(':') == std::string_view::npos) return std::nullopt;
  }
  const auto is_odd = [has_brackets](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f || c == '[' || c == ']' || c == '/' ||
           (c == ':' && !has_brackets);
  };
  if (out.host.size() > longest_host || std::any_of(out.host.begin(), out.host.end(), is_odd)) {
    return std::nullopt;
  }
  return out;
}

result<std::string> parse_address(std::string_view text) {
  constexpr std::string_view unix_mark = "unix:/";
  if (text.starts_with(unix_mark)) {
    const std::string_view path = text.substr(unix_mark.size() - 1);
    if (path.size() > 1 && path.size() <= longest_socket_path && !has_control_character(path)) {
      return std::string(text);
    }
    return not_allowed(text, "behind unix: is a path of 2 to 107 bytes, from / on");
  }
  const auto place = split_port(text);
  if (place && !place->host.empty() && place->port != 0) return std::string(text);
  return not_allowed(text, "are host:port, [address]:port and unix:/path, the port 1 to 65535");
}

result<std::string> parse_listen(std::string_view text) {
  if (text == "none" || split_port(text)) return std::string(text);
  return not_allowed(text, "are none, host:port, [address]:port and :port, the port 0 to 65535");
}

result<std::int64_t> parse_store(std::string_view text) {
  result<std::int64_t> parsed = parse_bytes(text);
  if (!parsed || (*parsed >= least_store && *parsed <= most_memory)) return parsed;
  return not_allowed(text, "are 1 MiB to 2^53 - 1 bytes");
}

// The last of each, which a value of the program's may lie behind.
constexpr check_mode last_of(check_mode) { return check_mode::far_tasks; }
constexpr event_mode last_of(event_mode) { return event_mode::all; }
constexpr isolation_mode last_of(isolation_mode) { return isolation_mode::processes; }
constexpr zygote_mode last_of(zygote_mode) { return zygote_mode::early; }
constexpr output_mode last_of(output_mode) { return output_mode::plain; }
constexpr interrupt_mode last_of(interrupt_mode) { return interrupt_mode::leave; }
constexpr role_mode last_of(role_mode) { return role_mode::observer; }

template <class T>
inline constexpr bool is_choice = false;
template <class T>
inline constexpr bool is_choice<std::optional<T>> = std::is_enum_v<T>;

// A setting whose text Parse turns into what Field holds.
template <auto Field, auto Parse>
constexpr text_key setting_of(const char* name, const char* variable) {
  using field_type = std::remove_reference_t<decltype(std::declval<config&>().*Field)>;
  text_key key{name, variable, nullptr, nullptr, nullptr};
  key.read = [](config& into, std::string_view text) { return keep(into.*Field, Parse(text)); };
  key.inherit = [](config& into, config& from) {
    if (is_unset(into.*Field)) into.*Field = std::move(from.*Field);
  };
  if constexpr (std::is_same_v<field_type, std::optional<std::string>>) {
    key.fault = [](const config& given) -> std::optional<std::string> {
      if (is_unset(given.*Field)) return std::nullopt;
      std::optional<std::string> unused;
      return keep(unused, Parse(*(given.*Field)));
    };
  } else if constexpr (is_choice<field_type>) {
    key.fault = [](const config& given) -> std::optional<std::string> {
      const auto& set = given.*Field;
      if (is_unset(set) || *set <= last_of(*set)) return std::nullopt;
      return Parse(std::to_string(static_cast<int>(*set))).error().message();  // the text of none
    };
  }
  return key;
}

constexpr text_key texts[] = {
    setting_of<&config::memory_bytes, parse_bytes>("memory", "MANTA_MEMORY"),
    setting_of<&config::resources, parse_resources>("resources", "MANTA_RESOURCES"),
    setting_of<&config::check, parse_check>("check", "MANTA_CHECK"),
    setting_of<&config::labels, parse_labels>("labels", "MANTA_LABELS"),
    setting_of<&config::control, parse_control>("control", "MANTA_CONTROL"),
    setting_of<&config::events, parse_events>("events", "MANTA_EVENTS"),
    setting_of<&config::isolation, parse_isolation>("isolation", "MANTA_ISOLATION"),
    setting_of<&config::zygote, parse_zygote>("zygote", "MANTA_ZYGOTE"),
    setting_of<&config::worker_output, parse_output>("worker-output", "MANTA_WORKER_OUTPUT"),
    setting_of<&config::store_bytes, parse_store>("store-bytes", "MANTA_STORE_BYTES"),
    setting_of<&config::spill_folder, parse_spill>("spill-folder", "MANTA_SPILL_FOLDER"),
    setting_of<&config::spill_bytes, parse_bytes>("spill-bytes", "MANTA_SPILL_BYTES"),
    setting_of<&config::quota_bytes, parse_bytes>("quota-bytes", "MANTA_QUOTA_BYTES"),
    setting_of<&config::quota_folder, parse_quota>("quota-folder", "MANTA_QUOTA_FOLDER"),
    setting_of<&config::worker_recycle_bytes, parse_bytes>("worker-recycle",
                                                           "MANTA_WORKER_RECYCLE"),
    setting_of<&config::worker_memory_bytes, parse_bytes>("worker-memory", "MANTA_WORKER_MEMORY"),
    setting_of<&config::interrupt, parse_interrupt>("interrupt", "MANTA_INTERRUPT"),
    setting_of<&config::role, parse_role>("role", "MANTA_ROLE"),
    setting_of<&config::address, parse_address>("address", "MANTA_ADDRESS"),
    setting_of<&config::listen, parse_listen>("listen", "MANTA_LISTEN"),
    setting_of<&config::token_file, parse_token>("token-file", "MANTA_TOKEN_FILE"),
    setting_of<&config::insecure_plaintext, parse_yes>("insecure-plaintext",
                                                       "MANTA_INSECURE_PLAINTEXT"),
    setting_of<&config::spmd, parse_yes>("spmd", "MANTA_SPMD"),
    setting_of<&config::share, parse_yes>("share", "MANTA_SHARE"),
    setting_of<&config::share_resources, parse_yes>("share-resources", "MANTA_SHARE_RESOURCES"),
    setting_of<&config::map_arrays, parse_yes>("map-arrays", "MANTA_MAP_ARRAYS"),
    setting_of<&config::rendezvous, parse_rendezvous>("rendezvous", "MANTA_RENDEZVOUS"),
    setting_of<&config::job, parse_job>("job", "MANTA_JOB"),
    setting_of<&config::member_name, parse_member_name>("member-name", "MANTA_MEMBER_NAME"),
};

}  // namespace

std::span<const number_key> number_keys() noexcept { return numbers; }
std::span<const text_key> text_keys() noexcept { return texts; }

bool is_job_name(std::string_view text) noexcept {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= longest_job_name &&
         std::all_of(text.begin(), text.end(), fits);
}

}  // namespace manta::inline v0::spec
