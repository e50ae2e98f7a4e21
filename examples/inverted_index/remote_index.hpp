// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/manta.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "index.hpp"

namespace texts {

// The index in partitions, each a future: it can be asked while it is being made, and a question
// waits only for what it needs.
class remote_index {
 public:
  remote_index(std::vector<document> documents, std::size_t partitions)
      : parts_(manta::map_reduce<std::string, posting>(
            std::move(documents),
            [](const document& d, auto& emit) {
              for (const auto& [word, count] : counted_words(d)) {
                emit(word, {.document = d.number, .count = count});
              }
            },
            // They come in the order of the documents.
            [](const std::string&, postings all) { return all; }, {.partitions = partitions})) {}

  const std::vector<manta::future<part>>& parts() const { return parts_; }

  // Each word is looked up in each partition by a task that reads the partition in place; the
  // answers are gathered by one more.
  manta::future<postings> ask(const std::string& question) const {
    std::vector<manta::future<postings>> of_words;
    for (const std::string& word : words_of(question)) {
      std::vector<manta::future<postings>> found;
      for (const auto& p : parts_) found.push_back(manta::remote<look_up>(p, word));
      of_words.push_back(manta::remote<only_one>(std::move(found)));
    }
    return manta::remote<documents_with_all>(std::move(of_words));
  }

 private:
  // A word is in one partition at most.
  static postings only_one(std::vector<postings> found) {
    for (postings& one : found) {
      if (!one.empty()) return std::move(one);
    }
    return {};
  }

  std::vector<manta::future<part>> parts_;
};

}  // namespace texts
