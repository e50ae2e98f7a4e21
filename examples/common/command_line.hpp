// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

// What all examples do with their arguments, so that each shows its own matter only.
//
//   examples::command_line line("allreduce", help, argc, argv);
//   const auto ranks = line.whole("--ranks", 4, 1, 1024);   // default, least, greatest
//   line.finish();  // whatever nobody asked for is an error
//
// "--ranks 8" and "--ranks=8" are the same; the last one counts. --help prints the text and exits
// with 0. Anything wrong is one line on stderr and exit code 2. Arguments that begin with --manta-
// are the runtime's and are left to it.
namespace examples {

class command_line {
 public:
  command_line(std::string_view program, const char* help, int argc, char** argv)
      : program_(program) {
    for (int i = 1; i < argc; ++i) {
      const std::string_view word = argv[i];
      if (word == "--help") {
        std::fputs(help, stdout);
        std::exit(0);
      }
      if (!word.starts_with("--manta-")) words_.emplace_back(word);
    }
  }

  // A whole number between least and greatest.
  std::int64_t whole(std::string_view name, std::int64_t otherwise, std::int64_t least,
                     std::int64_t greatest) {
    const std::string wanted =
        "a whole number from " + std::to_string(least) + " to " + std::to_string(greatest);
    return number(name, otherwise, least, greatest, wanted);
  }

  // A number between least and greatest.
  double real(std::string_view name, double otherwise, double least, double greatest) {
    char wanted[96];
    std::snprintf(wanted, sizeof wanted, "a number from %g to %g", least, greatest);
    return number(name, otherwise, least, greatest, wanted);
  }

  // One of a few words.
  std::string choice(std::string_view name, std::string_view otherwise,
                     std::initializer_list<std::string_view> words) {
    std::string found = text(name, otherwise);
    std::string wanted;
    for (std::string_view one : words) {
      if (found == one) return found;
      wanted += (wanted.empty() ? "" : ", ") + std::string(one);
    }
    refuse(name, found, "one of " + wanted);
  }

  // Any text that is not empty.
  std::string text(std::string_view name, std::string_view otherwise) {
    std::string found(otherwise);
    for (std::size_t i = 0; i < words_.size();) {
      const std::string word = words_[i];
      const std::size_t equals = word.find('=');
      if (word.substr(0, equals) != name) {
        ++i;
        continue;
      }
      if (equals != std::string::npos) {
        found = word.substr(equals + 1);
      } else {
        if (i + 1 == words_.size()) refuse(name, "nothing", "a value");
        found = words_[i + 1];
        words_.erase(words_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      words_.erase(words_.begin() + static_cast<std::ptrdiff_t>(i));
      if (found.empty()) refuse(name, found, "a value");
    }
    return found;
  }

  // Whether the option stands there; it takes no value.
  bool flag(std::string_view name) { return std::erase(words_, name) > 0; }

  // Refuses what is left over.
  void finish() const {
    if (!words_.empty()) refuse("argument", words_.front(), "an option");
  }

  // For what only the program can check: one line on stderr, exit code 2.
  [[noreturn]] void refuse(std::string_view name, std::string_view found,
                           std::string_view wanted) const {
    std::fprintf(stderr, "%s: %s: found '%s', wanted %s (--help lists all)\n", program_.c_str(),
                 std::string(name).c_str(), std::string(found).c_str(),
                 std::string(wanted).c_str());
    std::exit(2);
  }

 private:
  template <class Number>
  Number number(std::string_view name, Number otherwise, Number least, Number greatest,
                std::string_view wanted) {
    const std::string found = text(name, "");
    if (found.empty()) return otherwise;
    Number value{};
    const char* const last = found.data() + found.size();
    const auto [end, error] = std::from_chars(found.data(), last, value);
    const bool is_number = error == std::errc() && end == last;
    if (!is_number || !(value >= least && value <= greatest)) refuse(name, found, wanted);
    return value;
  }

  std::string program_;
  std::vector<std::string> words_;
};

}  // namespace examples
