// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include <manta/base/clock.hpp>

#include "node/zygote.hpp"
#include "wire/worker_line.hpp"

// What an isolated worker does for its prints: the worker's side of worker_output.hpp.
//
// Problem. What a task printed shall be shown before its result is there. The node can't know of
// text in a pipe without asking the kernel, nor can the worker: 0.2 to 0.4 us for each task, most
// of which print nothing.
//
// Idea. It asks after tasks that took long enough for that not to matter, and after all of them
// once anything was printed, until nothing was for a while. When there is text that the node has
// not read yet, a mark goes behind it, which names the task, and the page says so: the node reads
// before it takes the result. So the one text that may come after its result, by a moment, is the
// first of a short task in a worker that has printed nothing for long.
//
// Threads: any.

namespace manta::inline v0::node {

class worker_voice {
 public:
  /// Makes the seat's pipes this process's standard output and error, if it has any.
  void open(const worker_seat& seat, wire::worker_page& page) noexcept;
  /// After a task that took so long: whether there is text that was not read yet.
  bool has_text(duration ran) noexcept;
  /// The text there is, is that speaker's; an actor's has no name. After has_text().
  void mark(std::string_view speaker) noexcept;

 private:
  // Copies, since a task may close 1 and 2.
  std::array<int, 2> written_{-1, -1};
  std::array<int, 2> read_{-1, -1};
  wire::worker_page* page_ = nullptr;
  std::atomic<int> misses_{0};
};

}  // namespace manta::inline v0::node
