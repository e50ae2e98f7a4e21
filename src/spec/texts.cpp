// SPDX-License-Identifier: Apache-2.0
#include "spec/texts.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "spec/cluster.hpp"

namespace manta::inline v0::spec {

namespace {

bool is_control(char c) noexcept { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

std::string shown(std::string_view value, std::size_t most) {
  std::string out(value.substr(0, most));
  std::replace_if(out.begin(), out.end(), is_control, '?');
  if (value.size() > most) out += "...";
  return out;
}

bool has_control_character(std::string_view text) noexcept {
  return std::any_of(text.begin(), text.end(), is_control);
}

const char* fault_of_member_name(std::string_view text) noexcept {
  if (text.empty()) return "is empty";
  if (text.size() > most_node_name) return "is too long";
  if (has_control_character(text)) return "has a control character";
  return text == own_node_name ? "is local, by which each node means itself" : nullptr;
}

std::string usual_member_name(std::string_view as, std::string_view host, std::int64_t pid) {
  const std::string end = fmt::format("-{}", pid);
  std::string out = fmt::format("{}-{}", as, host);
  out.resize(std::min(out.size(), most_node_name - end.size()));
  return out + end;
}

}  // namespace manta::inline v0::spec
