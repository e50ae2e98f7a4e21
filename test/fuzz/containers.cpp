// SPDX-License-Identifier: Apache-2.0
// Containers of all kinds, within each other too.
#include <array>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <forward_list>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "fuzz/harness.hpp"

namespace {

// Takes 32 KiB for a byte, so that few bytes reach the bound of memory.
struct fat {
  std::optional<std::array<double, 4096>> maybe;
};

using hashed = std::unordered_map<std::int16_t, std::vector<bool>>;
using hashed_texts = std::unordered_set<std::string>;

}  // namespace

template <>
inline constexpr bool fuzz::has_order<hashed> = false;
template <>
inline constexpr bool fuzz::has_order<hashed_texts> = false;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::run<std::string, std::vector<double>, std::vector<std::int32_t>, std::vector<test::pixel>,
            std::vector<test::opaque>, std::vector<bool>, std::vector<std::string>,
            std::vector<std::vector<std::uint8_t>>, std::vector<fat>, std::vector<test::nothing>,
            std::vector<test::color>, std::deque<std::int16_t>, std::deque<std::deque<char>>,
            std::list<std::vector<bool>>, std::forward_list<std::string>, std::set<std::string>,
            std::set<double>, std::multiset<std::int8_t>,
            std::map<std::string, std::map<std::uint8_t, std::vector<float>>>,
            std::multimap<std::int8_t, std::string>, hashed, hashed_texts, std::filesystem::path,
            std::u16string, std::vector<std::array<std::set<std::int16_t>, 2>>, std::list<fat>,
            test::rich, std::vector<fuzz::handle>, std::vector<std::deque<fat>>>({data, size});
  return 0;
}
