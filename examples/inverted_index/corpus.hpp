// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "../common/random.hpp"

// The texts to be indexed, and how a text falls into words. Nothing here knows of manta.
namespace texts {

struct document {
  std::uint32_t number = 0;
  std::string text;
};

// Word number `rank` of a made-up language: syllables spell the number, so each word is another.
inline std::string made_up_word(std::uint32_t rank) {
  constexpr std::string_view first = "bdfgklmnprstvz";
  constexpr std::string_view second = "aeiou";
  std::string word;
  for (std::uint32_t n = rank + 1; n > 0; n /= 70) {
    word += first[(n % 70) / 5];
    word += second[n % 5];
  }
  return word;
}

// A document of made-up words whose frequency falls with their rank, as in languages (Zipf), with
// capitals and full stops.
inline document made_up(std::uint64_t seed, std::uint32_t number, std::size_t words,
                        std::uint32_t vocabulary) {
  examples::random_stream random(examples::sub_seed(seed, number));
  document out{.number = number, .text = {}};
  bool is_start = true;
  for (std::size_t i = 0; i < words; ++i) {
    const double rank = std::exp(random.unit() * std::log(static_cast<double>(vocabulary))) - 1;
    std::string word = made_up_word(static_cast<std::uint32_t>(rank));
    if (is_start) word[0] = static_cast<char>(std::toupper(word[0]));
    is_start = random.below(12) == 0;
    out.text += word;
    out.text += is_start ? ". " : " ";
  }
  return out;
}

inline document from_file(const std::string& path, std::uint32_t number) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read '" + path + "'; name another file");
  return {.number = number, .text = std::string(std::istreambuf_iterator<char>(file), {})};
}

// Calls `use(word)` for each word: letters, digits and bytes beyond ASCII, in small letters.
template <class Use>
void for_words(std::string_view text, Use use) {
  std::string word;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 128 || std::isalnum(byte) != 0) {
      word += byte < 128 ? static_cast<char>(std::tolower(byte)) : c;
    } else if (!word.empty()) {
      use(word);
      word.clear();
    }
  }
  if (!word.empty()) use(word);
}

}  // namespace texts
