// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include <unistd.h>

namespace es {

// One generation's line.
struct progress {
  const char* environment = "";
  int attempt = 0;
  int generation = 0;
  double population_mean = 0.0;  // the moved candidates
  double fresh_mean = 0.0;       // the policy itself
  std::size_t rollouts = 0;
  std::size_t cut = 0;
  double seconds = 0.0;
};

// Prints progress: a line each, or one line that is refreshed where somebody watches. The learning
// curve goes to a file as well if one is named, in digits enough to compare two runs bit by bit.
class reporter {
 public:
  explicit reporter(const std::string& curve_file) : is_terminal_(isatty(fileno(stdout)) == 1) {
    if (curve_file.empty()) return;
    curve_.reset(std::fopen(curve_file.c_str(), "w"));
    if (!curve_) throw std::runtime_error("cannot write '" + curve_file + "'; name another file");
    std::fputs("environment,attempt,generation,population_mean,fresh_mean\n", curve_.get());
  }

  void show(const progress& p) {
    std::printf("%s%-8s  attempt %d  generation %3d  population %8.1f  fresh %8.1f", start(),
                p.environment, p.attempt, p.generation, p.population_mean, p.fresh_mean);
    std::printf("  | %zu rollouts in %.3f s, %zu cut%s", p.rollouts, p.seconds, p.cut, end());
    std::fflush(stdout);
    if (curve_) {
      std::fprintf(curve_.get(), "%s,%d,%d,%.17g,%.17g\n", p.environment, p.attempt, p.generation,
                   p.population_mean, p.fresh_mean);
    }
  }

  // Ends the refreshed line, so that it stays.
  void settle() {
    if (is_terminal_) std::puts("");
  }

 private:
  struct close_file {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  const char* start() const { return is_terminal_ ? "\r\033[K" : ""; }
  const char* end() const { return is_terminal_ ? "" : "\n"; }

  bool is_terminal_;
  std::unique_ptr<std::FILE, close_file> curve_;
};

}  // namespace es
