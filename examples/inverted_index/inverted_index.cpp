// SPDX-License-Identifier: Apache-2.0
//
// An inverted index: for each word, which texts have it and how often; made with map_reduce.
//
//   texts 0..99 ---> count words --+--> words of partition 0 ---> part 0 (a future)
//                                  |
//   texts 100..199 -> count words -+--> words of partition 1 ---> part 1 (a future)
//                        ...       |                                ...
//      map: a task for some        shuffle: by the word's    reduce: a task for each partition
//      texts                       hash                      sorts its words and their texts
//
//   a question: each of its words --> a look-up in each part --> texts that have all words, the
//   best first; tasks on futures, so a question may be asked before the index is there
//
// The texts are files, or made up: random words whose frequency falls as in languages, so that the
// partitions are as uneven as real ones. The index is compared with that of one loop, word by word,
// and so are the answers.
#include <manta/manta.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../common/command_line.hpp"
#include "index.hpp"
#include "remote_index.hpp"

namespace {

constexpr const char* help = R"(inverted_index: which texts have a word, by map_reduce

usage: inverted_index [options]
  --documents N    made-up texts, 1 to 10000000 (2000)
  --words N        words in each, 1 to 1000000 (300)
  --vocabulary N   different words at most, 1 to 100000000 (20000)
  --seed N         decides all texts (1)
  --files A,B,...  index these files instead
  --partitions N   parts of the index, 1 to 10000 (8)
  --query "WORDS"  show the texts that have all these words
  --top N          at most so many of them, 1 to 1000000 (10)
  --manta-...      the runtime's, such as --manta-workers=2
  --help           this text

Exit code: 0 the index is right, 1 not, 2 bad option.
)";

struct request {
  std::vector<texts::document> documents;
  std::vector<std::string> names;  // of files; empty for made-up texts
  std::size_t partitions = 0;
  std::size_t top = 0;
  std::string query;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Whether the parts together are the serial index, word by word; each is in order.
bool is_same(const texts::remote_index& index, std::map<std::string, texts::postings> serial) {
  for (const auto& p : index.parts()) {
    const std::string* before = nullptr;
    for (const auto& [word, found] : p.get()) {
      const auto at = serial.find(word);
      if (at == serial.end() || at->second != found) return false;
      if (before != nullptr && !(*before < word)) return false;
      serial.erase(at);
      before = &word;
    }
  }
  return serial.empty();
}

texts::postings serial_answer(const std::map<std::string, texts::postings>& index,
                              const std::string& question) {
  std::vector<texts::postings> of_words;
  for (const std::string& word : texts::words_of(question)) {
    const auto at = index.find(word);
    of_words.push_back(at == index.end() ? texts::postings() : at->second);
  }
  return texts::documents_with_all(of_words);
}

// One word, two, and one that no text has, out of the words of some texts.
std::vector<std::string> questions_from(const std::vector<texts::document>& documents) {
  std::vector<std::string> out = {"no-such-word-anywhere", ""};
  for (std::size_t i = 0; i < documents.size() && i < 50; ++i) {
    const std::vector<std::string> words = texts::words_of(documents[i].text);
    if (words.empty()) continue;
    out.push_back(words.front());
    out.push_back(words.back() + " " + words[words.size() / 2]);
  }
  return out;
}

void show(const request& asked, const texts::postings& found) {
  std::printf("'%s': %zu documents\n", asked.query.c_str(), found.size());
  for (std::size_t i = 0; i < found.size() && i < asked.top; ++i) {
    const std::size_t number = found[i].document;
    const std::string name =
        asked.names.empty() ? "text " + std::to_string(number) : asked.names[number];
    std::printf("  %20s  %u\n", name.c_str(), found[i].count);
  }
}

int run(const request& asked) {
  std::size_t bytes = 0;
  for (const auto& d : asked.documents) bytes += d.text.size();
  auto begin = std::chrono::steady_clock::now();
  const std::map<std::string, texts::postings> serial = texts::serial_index(asked.documents);
  const double serial_seconds = seconds_since(begin);
  begin = std::chrono::steady_clock::now();
  const texts::remote_index index(asked.documents, asked.partitions);
  for (const auto& p : index.parts()) p.get();
  const double remote_seconds = seconds_since(begin);
  std::printf("%.1f MB: one loop %.3f s, map_reduce %.3f s, speed-up %.2f\n",
              static_cast<double>(bytes) / 1e6, serial_seconds, remote_seconds,
              serial_seconds / remote_seconds);

  std::size_t words = serial.size();
  std::size_t count = 0;
  for (const auto& [word, found] : serial) count += found.size();
  std::size_t wrong = 0;
  const std::vector<std::string> questions = questions_from(asked.documents);
  for (const std::string& question : questions) {
    wrong += index.ask(question).get() == serial_answer(serial, question) ? 0 : 1;
  }
  const bool is_good = is_same(index, serial) && wrong == 0;
  if (!asked.query.empty()) show(asked, index.ask(asked.query).get());
  std::printf("inverted_index: %zu documents, %zu words, %zu postings: ", asked.documents.size(),
              words, count);
  if (is_good) {
    std::printf("the index is the serial one, %zu queries find the same\n", questions.size());
  } else {
    std::printf("the index is NOT the serial one, or %zu queries find something else\n", wrong);
  }
  return is_good ? 0 : 1;
}

std::vector<std::string> names_from(const examples::command_line& line, const std::string& list) {
  std::vector<std::string> names(1);
  for (const char c : list) {
    if (c == ',') {
      names.emplace_back();
    } else {
      names.back() += c;
    }
  }
  for (const std::string& name : names) {
    if (name.empty()) line.refuse("--files", list, "file names divided by commas");
  }
  return names;
}

request request_from(examples::command_line& line) {
  request asked;
  const std::string files = line.text("--files", "");
  const auto count = line.whole("--documents", 0, 1, 10'000'000);
  const auto words = static_cast<std::size_t>(line.whole("--words", 300, 1, 1'000'000));
  const auto vocabulary =
      static_cast<std::uint32_t>(line.whole("--vocabulary", 20'000, 1, 100'000'000));
  const auto seed = static_cast<std::uint64_t>(
      line.whole("--seed", 1, 0, std::numeric_limits<std::int64_t>::max()));
  asked.partitions = static_cast<std::size_t>(line.whole("--partitions", 8, 1, 10'000));
  asked.query = line.text("--query", "");
  asked.top = static_cast<std::size_t>(line.whole("--top", 10, 1, 1'000'000));
  line.finish();
  if (!files.empty() && count != 0) {
    line.refuse("--documents", std::to_string(count), "no --files beside it");
  }
  if (!files.empty()) asked.names = names_from(line, files);
  const auto wanted = static_cast<std::uint32_t>(count == 0 ? 2000 : count);
  const auto documents = files.empty() ? wanted : static_cast<std::uint32_t>(asked.names.size());
  for (std::uint32_t i = 0; i < documents; ++i) {
    asked.documents.push_back(files.empty() ? texts::made_up(seed, i, words, vocabulary)
                                            : texts::from_file(asked.names[i], i));
  }
  return asked;
}

}  // namespace

int main(int argc, char** argv) {
  examples::command_line line("inverted_index", help, argc, argv);
  try {
    const request asked = request_from(line);
    const manta::runtime rt(argc, argv);
    return run(asked);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "inverted_index: %s\n", error.what());
    return 1;
  }
}
