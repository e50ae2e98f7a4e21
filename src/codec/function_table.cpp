// SPDX-License-Identifier: Apache-2.0
#include <manta/codec/function_table.hpp>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "codec/modules.hpp"

#include <fmt/format.h>

namespace manta::inline v0::codec {

namespace {

constexpr std::size_t shown_name = 200;  // bytes of a name; a peer may have sent any number

// Two processes mean the same by a function when all of this is equal. By name first, so that what
// is missing is named in the order of the alphabet.
auto key_of(const named_function& f) { return std::tie(f.name, f.id.module, f.id.offset); }

std::vector<named_function> sorted(std::vector<named_function> functions) {
  std::ranges::sort(functions, {}, key_of);
  return functions;
}

// What is in `here` and not in `there`, which are sorted.
template <class Key>
std::vector<named_function> only_in(const std::vector<named_function>& here,
                                    const std::vector<named_function>& there, Key key) {
  std::vector<named_function> only;
  std::ranges::set_difference(here, there, std::back_inserter(only), {}, key, key);
  return only;
}

std::string program_text(const function_table& t) {
  return fmt::format("build {} ({}, {} functions)", build_text(t.build),
                     t.file.substr(0, shown_name), t.functions.size());
}

std::string missing_text(const function_table& here, const function_table& there) {
  const std::vector<named_function> ours = sorted(here.functions);
  const std::vector<named_function> theirs = sorted(there.functions);
  const auto name_of = [](const named_function& f) -> const std::string& { return f.name; };
  const auto first = [&](const char* claim, const std::vector<named_function>& from) {
    return fmt::format(" {}: \"{}\" of build {}", claim, from.front().name.substr(0, shown_name),
                       build_text(from.front().id.module));
  };
  const auto named_here = only_in(ours, theirs, name_of);
  if (!named_here.empty()) return first("the first function missing there is", named_here);
  const auto named_there = only_in(theirs, ours, name_of);
  if (!named_there.empty()) return first("the first function missing here is", named_there);
  // As many of each name here as there: if a function is another one here, one there is, too.
  const auto placed = only_in(ours, theirs, key_of);
  return placed.empty() ? std::string()
                        : first("the first function that is another one there is", placed);
}

}  // namespace

std::string describe_difference(const function_table& here, const function_table& there) {
  const std::string missing = missing_text(here, there);
  if (missing.empty()) return {};
  return fmt::format("the functions differ: here is {}, there {};{}; {}", program_text(here),
                     program_text(there), missing,
                     here.build == there.build
                         ? "load the same libraries in both processes before they meet"
                         : "start the same build of the program in both places");
}

}  // namespace manta::inline v0::codec
