// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <manta/codec/identity.hpp>

// From what the compilers say about a function and its type to what a person would write. The name
// comes from the one, the parameters from the other. GCC 12 and Clang 14 say:
//
//   function           &ns::trainer::update         the same
//   its type           int (ns::trainer::*)(long) const
//   a constructor      ns::trainer(long)            ns::trainer (long)
//   a lambda           <lambda closure object>main()::<lambda(int)>()           {}
//   a lambda's type    const main()::<lambda(int)>  const (lambda at main.cpp:9:22)
//
// What comes in is a compiler's text and nobody's input, yet nothing but a poor name comes of text
// that is not as expected.

namespace manta::inline v0::codec {

namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
  }
}

// One spelling for both compilers. No result contains what it came from, so each of them ends.
std::string in_our_words(std::string text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> words = {{
      {"std::__cxx11::", "std::"},
      {"std::basic_string<char>", "std::string"},
      {"{anonymous}", "(anonymous)"},
      {"(anonymous namespace)", "(anonymous)"},
      {"manta::v0::", "manta::"},
      {" >", ">"},
      {" &", "&"},
      {" *", "*"},
      {" (", "("},
  }};
  for (const auto& [from, to] : words) replace_all(text, from, to);
  return text;
}

// Where `wanted` begins outside of all <>.
std::size_t find_outside(std::string_view text, std::string_view wanted) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>') --depth;
    if (depth == 0 && text.substr(i).starts_with(wanted)) return i;
  }
  return std::string_view::npos;
}

// "(long) const" out of "int (ns::trainer::*)(long) const noexcept": the parameters stand behind
// the first pointer, since a function that returns a pointer to a function has them inside.
std::string_view parameters_of(std::string_view type) {
  const std::size_t pointer = find_outside(type, "*)(");
  if (pointer == std::string_view::npos) return {};
  const std::string_view rest = type.substr(pointer + 2);
  int depth = 0;
  std::size_t end = 0;
  while (end < rest.size()) {
    if (rest[end] == '(') ++depth;
    if (rest[end] == ')') --depth;
    ++end;
    if (depth == 0) break;
  }
  for (const std::string_view qualifier : {" const", "&&", "&"}) {
    if (rest.substr(end).starts_with(qualifier)) end += qualifier.size();
  }
  return rest.substr(0, end);
}

bool is_lambda(std::string_view function) {
  return function == "{}" || function.starts_with("<lambda closure object>");
}

std::string without_const(std::string type) {
  if (type.starts_with("const")) type.erase(0, 5);
  if (type.starts_with(" ")) type.erase(0, 1);
  return type;
}

}  // namespace

std::string display_name(const char* function, const char* type) {
  const std::string name = in_our_words(readable_name(function));
  const std::string spelled = readable_name(type);
  if (name.empty()) return in_our_words(spelled);
  if (is_lambda(name)) return without_const(in_our_words(spelled));
  return name + std::string(parameters_of(in_our_words(spelled)));
}

}  // namespace manta::inline v0::codec
