// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "corpus.hpp"

// What an index is, made by one loop, and how a question is answered. Nothing here knows of manta.
namespace texts {

// That a document has a word, and how often.
struct posting {
  std::uint32_t document = 0;
  std::uint32_t count = 0;

  bool operator==(const posting&) const = default;
};
using postings = std::vector<posting>;  // of one word, in the order of the documents

// Some of the words in their order, each with its postings.
using part = std::vector<std::pair<std::string, postings>>;

inline std::map<std::string, std::uint32_t> counted_words(const document& d) {
  std::map<std::string, std::uint32_t> counts;
  for_words(d.text, [&](const std::string& word) { ++counts[word]; });
  return counts;
}

inline std::map<std::string, postings> serial_index(const std::vector<document>& documents) {
  std::map<std::string, postings> index;
  for (const document& d : documents) {
    for (const auto& [word, count] : counted_words(d)) {
      index[word].push_back({.document = d.number, .count = count});
    }
  }
  return index;
}

// The word's postings, or none.
inline postings look_up(const part& words, const std::string& word) {
  const auto at =
      std::lower_bound(words.begin(), words.end(), word,
                       [](const auto& entry, const auto& w) { return entry.first < w; });
  return at != words.end() && at->first == word ? at->second : postings();
}

// The documents that have every word, those with most occurrences first.
inline postings documents_with_all(const std::vector<postings>& of_words) {
  std::map<std::uint32_t, std::pair<std::size_t, std::uint32_t>> found;  // words, occurrences
  for (const postings& one : of_words) {
    for (const posting& p : one) {
      ++found[p.document].first;
      found[p.document].second += p.count;
    }
  }
  postings out;
  for (const auto& [number, words_and_count] : found) {
    if (words_and_count.first < of_words.size()) continue;
    out.push_back({.document = number, .count = words_and_count.second});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const posting& a, const posting& b) { return a.count > b.count; });
  return out;
}

inline std::vector<std::string> words_of(const std::string& question) {
  std::vector<std::string> words;
  for_words(question, [&](const std::string& word) { words.push_back(word); });
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

}  // namespace texts
