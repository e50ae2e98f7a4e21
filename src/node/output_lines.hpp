// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <manta/base/clock.hpp>

// What isolated workers print, made into lines that a person can read.
//
// Problem. Text comes from many workers in pieces of any size. A line should come out whole and say
// whose it is; one that all workers print should not fill the screen; and text without an end, or
// very much of it, should neither be lost nor kept for ever.
//
// Idea. Each worker has a buffer for each stream; what is behind its last line's end waits there.
// When a task has ended that printed, its worker writes a mark behind the text (output_mark), which
// names the task: so text that is read late has the right name, and a last line without an end ends
// there. Text without a mark is that of whoever runs while it is read.
//
// The first line of a text is shown at once. When another worker prints the same within the
// window, that is counted; at the window's end the count is shown, `text [repeated 12x]`, or the
// line itself if there was but one. A worker that repeats its own lines has a reason, and all are
// shown as long as it is alone.
//
// Limits. A line has most_line_bytes; a longer one is shown in parts. So many lines are remembered,
// none of them longer than longest_folded; past that the oldest's window ends early.
//
// Pure: events in, lines out; the times are the caller's. Threads: externally synchronised.

namespace manta::inline v0::node {

enum class output_stream : std::uint8_t { out, err };

/// A function's name as short as it is clear: without parameters and unnamed namespaces.
std::string speaker_name(std::string readable);

/// What a worker writes behind a task's text. An actor has no name here: its worker is its own.
std::string output_mark(std::string_view name);

class output_lines {
 public:
  static constexpr std::size_t most_line_bytes = 16 * 1024;
  static constexpr std::size_t longest_folded = 1024;
  static constexpr std::size_t most_remembered = 1000;

  struct line {
    output_stream to = output_stream::out;
    std::string text;  ///< with its prefix and its end
  };
  using lines = std::vector<line>;

  explicit output_lines(duration window) : window_(window) {}

  /// Text that a worker printed, while `speaker` ran there (empty: nobody).
  void text(std::uint64_t worker, std::int64_t pid, output_stream from, std::string_view bytes,
            std::string_view speaker, base::time_point now, lines& into);
  /// Whether there is text without a line's end.
  bool has_part(std::uint64_t worker) const noexcept;
  /// What is without a line's end is shown as a line: its writer has ended.
  void end_part(std::uint64_t worker, base::time_point now, lines& into);
  /// The worker has ended.
  void ended(std::uint64_t worker, base::time_point now, lines& into);
  /// When due() has something to do next.
  std::optional<base::time_point> next_due() const noexcept;
  /// Windows that have ended by then.
  void due(base::time_point now, lines& into);
  /// All windows end.
  void close(lines& into);

 private:
  struct part {
    std::string bytes;
    std::string speaker;
  };
  struct source {
    std::int64_t pid = 0;
    std::array<part, 2> parts;
  };
  struct memory {
    output_stream to;
    std::string key;     // the stream and the text
    std::string prefix;  // of the last one that was not shown
    base::time_point until;
    std::size_t count = 0;  // not shown
    std::unordered_set<std::uint64_t> workers;
  };
  using place = std::list<memory>::iterator;

  void take_lines(std::uint64_t worker, const source& of, output_stream from, std::string& bytes,
                  std::string_view speaker, base::time_point now, lines& into);
  void show(std::uint64_t worker, const source& of, output_stream to, std::string_view text,
            std::string_view speaker, base::time_point now, lines& into);
  static void tell(const memory& of, lines& into);
  void forget(place which);

  const duration window_;
  std::unordered_map<std::uint64_t, source> sources_;
  std::list<memory> recent_;  // by the ends of their windows
  std::unordered_map<std::string_view, place> by_key_;
};

}  // namespace manta::inline v0::node
