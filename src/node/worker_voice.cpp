// SPDX-License-Identifier: Apache-2.0
#include "node/worker_voice.hpp"

#include <cerrno>
#include <chrono>
#include <new>
#include <string>

#include <poll.h>
#include <unistd.h>

#include "node/output_lines.hpp"

namespace manta::inline v0::node {

namespace {

// To ask costs a few per cent of such a task.
constexpr std::chrono::microseconds always_asked{5};
// Tasks without text until short ones are no longer asked after.
constexpr int most_misses = 1000;

}  // namespace

void worker_voice::open(const worker_seat& seat, wire::worker_page& page) noexcept {
  page.pid.store(getpid(), std::memory_order_relaxed);
  if (seat.output.front() < 0) return;
  written_ = {seat.output[0], seat.output[1]};
  read_ = {seat.output[2], seat.output[3]};
  page_ = &page;
  dup2(written_[0], STDOUT_FILENO);
  dup2(written_[1], STDERR_FILENO);
}

bool worker_voice::has_text(duration ran) noexcept {
  if (page_ == nullptr) return false;
  const bool prints = page_->prints.load(std::memory_order_relaxed) != 0;
  if (!prints && ran < always_asked) return false;
  pollfd looked[2] = {{read_[0], POLLIN, 0}, {read_[1], POLLIN, 0}};
  if (poll(looked, 2, 0) > 0 && ((looked[0].revents | looked[1].revents) & POLLIN) != 0) {
    misses_.store(0, std::memory_order_relaxed);
    page_->prints.store(1, std::memory_order_relaxed);
    return true;
  }
  if (prints && misses_.fetch_add(1, std::memory_order_relaxed) > most_misses) {
    misses_.store(0, std::memory_order_relaxed);
    page_->prints.store(0, std::memory_order_relaxed);
  }
  return false;
}

// Where the pipe is full it waits until the node has read.
void worker_voice::mark(std::string_view speaker) noexcept {
  try {
    const std::string text = output_mark(speaker);
    for (std::size_t i = 0; i < read_.size(); ++i) {
      pollfd looked{read_[i], POLLIN, 0};
      if (poll(&looked, 1, 0) <= 0) continue;
      while (::write(written_[i], text.data(), text.size()) < 0 && errno == EINTR) {
      }
    }
  } catch (const std::bad_alloc&) {
    // It has the name of whoever runs when it is read.
  }
  page_->printed.fetch_add(1, std::memory_order_release);
}

}  // namespace manta::inline v0::node
