// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "harness/measure.hpp"
#include "rivals/tcp.hpp"

namespace bench {

// A program that reads how many times to do its work, a number in each line, and answers each with
// how many seconds that took. It ends when there are no more lines, and its owner waits for that.
class line_process {
 public:
  explicit line_process(std::vector<std::string> command) {
    check(pipe(to_) == 0 && pipe(from_) == 0, "pipes");
    process_ = std::make_unique<forked>([&] {
      dup2(to_[0], STDIN_FILENO);
      dup2(from_[1], STDOUT_FILENO);
      for (const int end : {to_[0], to_[1], from_[0], from_[1]}) close(end);
      std::vector<char*> words;
      for (std::string& word : command) words.push_back(word.data());
      words.push_back(nullptr);
      execvp(words[0], words.data());
    });
    close(to_[0]);
    close(from_[1]);
    answers_ = fdopen(from_[0], "r");
    check(answers_ != nullptr, "a pipe");
  }
  ~line_process() {
    close(to_[1]);
    char rest = 0;
    while (std::fread(&rest, 1, 1, answers_) == 1) {
    }
    std::fclose(answers_);
  }
  line_process(const line_process&) = delete;
  line_process& operator=(const line_process&) = delete;

  double seconds(std::size_t count) const {
    const std::string asked = std::to_string(count) + "\n";
    check(write_all(to_[1], asked.data(), asked.size()), "a program that reads");
    double took = 0;
    check(std::fscanf(answers_, "%lf", &took) == 1 && took > 0, "a program that answers");
    return took;
  }

 private:
  int to_[2] = {-1, -1};
  int from_[2] = {-1, -1};
  std::unique_ptr<forked> process_;
  std::FILE* answers_ = nullptr;
};

}  // namespace bench
