// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include <manta/argument.hpp>
#include <manta/as_completed.hpp>
#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/future.hpp>

// progress: a line on the terminal while many futures end.

namespace manta::inline v0 {

/// Where and how progress draws its line.
struct progress_options {
  /// Stands in front of the line.
  std::string title = {};
  /// Where the line goes; null for standard error.
  std::ostream* stream = nullptr;
  /// Whether that is a terminal; when not, nothing is drawn. Unset: asked from the system for
  /// standard error, no for any other stream.
  std::optional<bool> is_terminal = std::nullopt;
};

namespace detail {

/// "render 37/100, 2 failed, 12.3/s, 5 s left": `done` of `total` after `elapsed`.
[[nodiscard]] MANTA_API std::string progress_text(const std::string& title, std::size_t done,
                                                  std::size_t failed, std::size_t total,
                                                  duration elapsed);

/// The line; redrawn at most ten times a second. Externally synchronised.
class MANTA_API progress_line {
 public:
  progress_line(std::size_t total, const progress_options& how);
  ~progress_line() = default;
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;

  /// One more has ended.
  void step(bool is_failed);
  /// Draws the line if it is time.
  void refresh(base::time_point now);
  /// Draws the last line and ends it.
  void finish();

  /// Lines drawn so far.
  std::size_t drawn() const noexcept { return drawn_; }

 private:
  void draw(base::time_point now);

  std::ostream* out_;  // null: quiet
  std::string title_;
  std::size_t total_;
  std::size_t done_ = 0;
  std::size_t failed_ = 0;
  std::size_t drawn_ = 0;
  base::time_point started_;
  base::time_point next_;
};

}  // namespace detail

/// Waits until all futures have ended, with a value or an error, and meanwhile shows how many have,
/// at which rate, and how much time is left at that rate:
///
///     manta::progress(futures, {.title = "render"});
///     // render 37/100, 12.3/s, 5 s left
///
/// The line is drawn again at most ten times a second; nothing is drawn where standard error is not
/// a terminal. Throws as as_completed does. Runs nothing on this thread.
template <class T>
void progress(const std::vector<future<T>>& futures, const progress_options& how = {}) {
  constexpr duration redraw_every = std::chrono::milliseconds(100);
  completion_range<T> ended = as_completed(futures);
  detail::progress_line line(futures.size(), how);
  while (ended.remaining() > 0) {
    if (const std::optional<future<T>> f = ended.next(redraw_every)) {
      line.step(detail::failure_of(detail::access::job(*f)) != nullptr);
    }
    line.refresh(base::now());
  }
  line.finish();
}

}  // namespace manta::inline v0
