// SPDX-License-Identifier: Apache-2.0
#include <manta/progress.hpp>

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <iostream>

#include <fmt/format.h>

namespace manta::inline v0::detail {

namespace {

using namespace std::chrono_literals;

constexpr auto redraw_every = 100ms;

std::string spoken(double seconds) {
  if (seconds < 60) return fmt::format("{:.0f} s", seconds);
  if (seconds < 3600) {
    return fmt::format("{:.0f} min {:.0f} s", std::floor(seconds / 60), std::fmod(seconds, 60));
  }
  return fmt::format("{:.0f} h {:.0f} min", std::floor(seconds / 3600),
                     std::floor(std::fmod(seconds, 3600) / 60));
}

std::ostream* stream_of(const progress_options& how) {
  const bool is_terminal =
      how.is_terminal.value_or(how.stream == nullptr && isatty(STDERR_FILENO) != 0);
  if (!is_terminal) return nullptr;
  return how.stream != nullptr ? how.stream : &std::cerr;
}

}  // namespace

std::string progress_text(const std::string& title, std::size_t done, std::size_t failed,
                          std::size_t total, duration elapsed) {
  const double seconds = std::chrono::duration<double>(elapsed).count();
  std::string text = title.empty() ? "" : title + ' ';
  text += fmt::format("{}/{}", done, total);
  if (failed > 0) text += fmt::format(", {} failed", failed);
  if (done == 0 || seconds <= 0) return text;
  const double rate = static_cast<double>(done) / seconds;
  text += fmt::format(", {:.{}f}/s", rate, rate < 10 ? 2 : rate < 100 ? 1 : 0);
  if (done == total) return text + " in " + spoken(seconds);
  return text + ", " + spoken(static_cast<double>(total - done) / rate) + " left";
}

progress_line::progress_line(std::size_t total, const progress_options& how)
    : out_(stream_of(how)), title_(how.title), total_(total), started_(base::now()) {
  next_ = started_;
}

void progress_line::step(bool is_failed) {
  ++done_;
  if (is_failed) ++failed_;
}

void progress_line::refresh(base::time_point now) {
  if (out_ == nullptr || now < next_) return;
  next_ = now + redraw_every;
  draw(now);
}

void progress_line::finish() {
  if (out_ == nullptr) return;
  draw(base::now());
  *out_ << '\n' << std::flush;
}

void progress_line::draw(base::time_point now) {
  ++drawn_;
  // Back to the line's start, and what is left of a longer one is cleared.
  *out_ << '\r' << progress_text(title_, done_, failed_, total_, now - started_) << "\033[K"
        << std::flush;
}

}  // namespace manta::inline v0::detail
