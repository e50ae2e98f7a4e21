// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tool/control.hpp"

namespace manta::tool {

namespace {

bool is_printable(unsigned char byte) noexcept { return byte >= 0x20 && byte < 0x7f; }

}  // namespace

std::string escaped(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\\') {
      out += "\\\\";
    } else if (is_printable(byte)) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  return out;
}

std::string json_string(const std::string& bytes) {
  std::string out = "\"";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (is_printable(byte)) {
      out += c;
    } else {
      out += fmt::format("\\u{:04x}", byte);
    }
  }
  return out + '"';
}

}  // namespace manta::tool
