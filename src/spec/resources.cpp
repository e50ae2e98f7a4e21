// SPDX-License-Identifier: Apache-2.0
#include <manta/spec/resources.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "spec/texts.hpp"

namespace manta::inline v0 {

const char* to_string(strategy how) noexcept {
  switch (how) {
    case strategy::pack:
      return "pack";
    case strategy::spread:
      return "spread";
    case strategy::strict_pack:
      return "strict_pack";
    case strategy::strict_spread:
      return "strict_spread";
  }
  return "unknown";
}

placement spread() {
  placement out;
  out.by = placement::rule::spread;
  return out;
}

placement on_node(std::string name, bool is_soft) {
  placement out;
  out.by = placement::rule::node;
  out.node = std::move(name);
  out.is_soft = is_soft;
  return out;
}

placement with_labels(label_list labels, bool is_soft) {
  placement out;
  out.by = placement::rule::labels;
  out.labels = std::move(labels);
  out.is_soft = is_soft;
  return out;
}

}  // namespace manta::inline v0

namespace manta::inline v0::spec {

namespace {

constexpr double smallest = 0.001;
constexpr double most_cpus = 1e9;
constexpr double most_gpus = 1e4;
constexpr double most_custom = 1e9;
constexpr std::size_t longest_resource_name = 64;
constexpr std::size_t most_keys = 256;  // of one list

std::int64_t thousandths(double amount) noexcept { return std::llround(amount * 1000.0); }

bool is_amount(double amount, double most) noexcept {
  return amount == 0 || (amount >= smallest && amount <= most);  // false for what is no number
}

bool is_gpu_amount(double gpus) noexcept {
  return is_amount(gpus, most_gpus) && (gpus < 1 || gpus == std::floor(gpus));
}

bool is_memory(std::size_t bytes) noexcept {
  return bytes <= static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max() / 1024);
}

bool is_name(std::string_view text) noexcept {
  const auto is_good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '/';
  };
  return !text.empty() && text.size() <= longest_resource_name &&
         std::all_of(text.begin(), text.end(), is_good);
}

bool has_own_field(std::string_view key) noexcept {
  return key == "cpus" || key == "gpus" || key == "memory_bytes";
}

// What is wrong with entry `i` of `list`, or nothing.
std::optional<std::string> fault(const resource_list& list, std::size_t i) {
  const auto& [key, amount] = list[i];
  if (!is_name(key)) {
    return fmt::format(
        "asked the key \"{}\", allowed are 1 to 64 letters, digits, '_', '-', '.' and '/'",
        shown(key));
  }
  if (has_own_field(key)) {
    return fmt::format("asked the key \"{}\", which has a field of its own; use that one", key);
  }
  if (!is_amount(amount, most_custom)) {
    return fmt::format("asked {} of \"{}\", allowed 0 or 0.001 to 1e9", amount, key);
  }
  for (std::size_t k = 0; k < i; ++k) {
    if (list[k].first == key) return fmt::format("asked \"{}\" twice; name each key once", key);
  }
  return std::nullopt;
}

std::optional<std::string> fault(const label_list& list, std::size_t i) {
  const auto& [key, value] = list[i];
  if (!is_name(key) || !is_name(value)) {
    return fmt::format(
        "asked the label \"{}={}\", allowed on both sides are 1 to 64 letters, digits, '_', '-', "
        "'.' and '/'",
        shown(key), shown(value));
  }
  for (std::size_t k = 0; k < i; ++k) {
    if (list[k].first == key) return fmt::format("asked \"{}\" twice; name each key once", key);
  }
  return std::nullopt;
}

template <class List>
void check_list(const char* field, const List& list) {
  if (list.size() > most_keys) {
    raise(errc::invalid_argument,
          fmt::format("{}: asked {} keys, allowed are {} at most", field, list.size(), most_keys));
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (const auto found = fault(list, i)) {
      raise(errc::invalid_argument, fmt::format("{}: {}", field, *found));
    }
  }
}

std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, value);
  if (status != std::errc() || rest != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

error bad_text(std::string message) { return {errc::invalid_argument, std::move(message)}; }

// Splits "k:v,k:v" and gives each pair to `add`, which answers false for a bad value.
template <class List, class Add>
result<List> parse_list(std::string_view text, char between, const char* shape, Add add) {
  List out;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view entry = text.substr(0, comma);
    const std::size_t middle = entry.find(between);
    if (middle == std::string_view::npos ||
        !add(out, entry.substr(0, middle), entry.substr(middle + 1))) {
      return bad_text(fmt::format("\"{}\" is not {}", shown(entry), shape));
    }
    if (out.size() > most_keys) {
      return bad_text(fmt::format("asked more than {} keys, which is the most", most_keys));
    }
    if (const auto found = fault(out, out.size() - 1)) return bad_text(*found);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return bad_text(fmt::format("nothing after the last comma; want {}", shape));
  }
  return out;
}

}  // namespace

void check_cpus(const char* field, double cpus) {
  if (is_amount(cpus, most_cpus)) return;
  raise(errc::invalid_argument,
        fmt::format("{}: asked {}, allowed 0 or more: 0, or 0.001 to 1e9", field, cpus));
}

void check_gpus(const char* field, double gpus) {
  if (is_gpu_amount(gpus)) return;
  raise(errc::invalid_argument,
        fmt::format("{}: asked {}, allowed 0, a fraction below 1 (from 0.001) or a whole number",
                    field, gpus));
}

void check_memory(const char* field, std::size_t bytes) {
  if (is_memory(bytes)) return;
  raise(errc::invalid_argument,
        fmt::format("{}: asked {}, allowed 0 to 2^53 - 1; a negative number was given?", field,
                    bytes));
}

void check_resources(const char* field, const resource_list& list) { check_list(field, list); }
void check_labels(const char* field, const label_list& list) { check_list(field, list); }

void check(const placement& where) {
  switch (where.by) {
    case placement::rule::node:
      if (where.node == own_node_name) return;
      if (fault_of_member_name(where.node.value_or("")) == nullptr) return;
      raise(errc::invalid_argument,
            fmt::format("on_node: asked the node \"{}\", allowed are 1 to 64 bytes without control "
                        "characters; this_task::node() gives a node's name",
                        shown(where.node.value_or(""))));
    case placement::rule::labels:
      check_labels("with_labels", where.labels);
      return;
    case placement::rule::group:
    case placement::rule::anywhere:
    case placement::rule::spread:
      return;
  }
  raise(errc::invalid_argument,
        fmt::format("option where: asked the rule {}, which there is not; make a placement with "
                    "spread, on_node, with_labels or in_group",
                    static_cast<int>(where.by)));
}

void check(const bundle& asked, std::size_t index) {
  bool is_good = is_amount(asked.cpus, most_cpus) && is_gpu_amount(asked.gpus) &&
                 is_memory(asked.memory_bytes);
  is_good = is_good && asked.resources.size() <= most_keys;
  for (std::size_t i = 0; i < asked.resources.size() && is_good; ++i) {
    is_good = !fault(asked.resources, i);
  }
  if (is_good) return;  // without making the text
  const std::string where = fmt::format("bundle {}", index);
  check_cpus((where + ", cpus").c_str(), asked.cpus);
  check_gpus((where + ", gpus").c_str(), asked.gpus);
  check_memory((where + ", memory_bytes").c_str(), asked.memory_bytes);
  check_resources((where + ", resources").c_str(), asked.resources);
}

demand to_demand(const bundle& asked) {
  demand out;
  out.cpus = thousandths(asked.cpus);
  out.gpus = thousandths(asked.gpus);
  out.memory_bytes = static_cast<std::int64_t>(asked.memory_bytes);
  out.custom.reserve(asked.resources.size());
  for (const auto& [key, amount] : asked.resources) {
    if (const std::int64_t n = thousandths(amount); n != 0) out.custom.emplace_back(key, n);
  }
  std::sort(out.custom.begin(), out.custom.end());
  return out;
}

bundle to_bundle(const demand& asked) {
  const auto amount = [](std::int64_t n) { return static_cast<double>(n) / 1000.0; };
  bundle out;
  out.cpus = amount(asked.cpus);
  out.gpus = amount(asked.gpus);
  out.memory_bytes = static_cast<std::size_t>(std::max<std::int64_t>(asked.memory_bytes, 0));
  for (const auto& [key, n] : asked.custom) out.resources.emplace_back(key, amount(n));
  return out;
}

std::string show_amount(std::int64_t thousandths) {
  return fmt::format("{}", static_cast<double>(thousandths) / 1000.0);
}

std::string to_string(const demand& asked) {
  std::string text;
  const auto add = [&text](const std::string& amount, std::string_view key) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", amount, key);
  };
  if (asked.cpus != 0) add(show_amount(asked.cpus), "cpus");
  if (asked.gpus != 0) add(show_amount(asked.gpus), "gpus");
  if (asked.memory_bytes != 0) add(fmt::format("{}", asked.memory_bytes), "memory_bytes");
  for (const auto& [key, n] : asked.custom) add(show_amount(n), key);
  return text.empty() ? "nothing" : text;
}

result<std::int64_t> parse_bytes(std::string_view text) {
  struct unit {
    std::string_view name;
    double bytes;
  };
  constexpr double k = 1024;
  constexpr unit units[] = {{"KiB", k}, {"MiB", k * k}, {"GiB", k * k * k}, {"TiB", k * k * k * k}};
  double factor = 1;
  std::string_view number = text;
  for (const unit& u : units) {
    if (!text.ends_with(u.name)) continue;
    factor = u.bytes;
    number.remove_suffix(u.name.size());
  }
  const std::optional<double> value = parse_number(number);
  if (!value || *value < 0 || *value * factor > 9e15) {
    return bad_text(
        fmt::format("\"{}\" is not a size in bytes like 8GiB, 512MiB or 1048576", shown(text)));
  }
  return static_cast<std::int64_t>(*value * factor);
}

result<resource_list> parse_resources(std::string_view text) {
  return parse_list<resource_list>(
      text, ':', "name:amount like license:3",
      [](resource_list& out, std::string_view key, std::string_view value) {
        const std::optional<double> amount = parse_number(value);
        if (amount) out.emplace_back(key, *amount);
        return amount.has_value();
      });
}

result<label_list> parse_labels(std::string_view text) {
  return parse_list<label_list>(text, '=', "key=value like zone=a",
                                [](label_list& out, std::string_view key, std::string_view value) {
                                  out.emplace_back(key, value);
                                  return true;
                                });
}

std::string to_text(const resource_list& list) {
  std::string out;
  for (const auto& [key, amount] : list) {
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", key, amount);
  }
  return out;
}

std::string to_text(const label_list& list) {
  std::string out;
  for (const auto& [key, value] : list) {
    out += fmt::format("{}{}={}", out.empty() ? "" : ",", key, value);
  }
  return out;
}

}  // namespace manta::inline v0::spec
