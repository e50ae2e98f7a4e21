// SPDX-License-Identifier: Apache-2.0
#include "node/facts_line.hpp"

#include <future>
#include <memory>
#include <utility>

#include <pthread.h>

namespace manta::inline v0::node {

namespace {
constinit thread_local const facts_line* runs_here = nullptr;
}  // namespace

bool facts_line::is_here() const noexcept { return runs_here == this; }
bool facts_line::is_of_things_here() noexcept {
  return runs_here != nullptr && runs_here->serves_things_;
}

// Never destroyed: late threads find them.
facts_line& facts_line::global() {
  static auto* const made = new facts_line("manta-facts");
  return *made;
}

facts_line& facts_line::of_ends() {
  static auto* const made = new facts_line("manta-ends");
  return *made;
}

facts_line& facts_line::of_things() {
  static auto* const made = new facts_line("manta-things", true);
  return *made;
}

facts_line& facts_line::of_copies() {
  static auto* const made = new facts_line("manta-copies");
  return *made;
}

facts_line& facts_line::of_answers() {
  static auto* const made = new facts_line("manta-answers");
  return *made;
}

void facts_line::add(std::function<void()> what) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_ending_ && !runner_.joinable()) runner_ = std::thread([this] { run(); });
    line_.push_back(std::move(what));
  }
  changed_.notify_one();
}

void facts_line::run() noexcept {
  runs_here = this;
  pthread_setname_np(pthread_self(), thread_);
  for (;;) {
    std::function<void()> next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_ending_ || !line_.empty(); });
      if (is_ending_) return;
      next = std::move(line_.front());
      line_.pop_front();
    }
    next();
  }
}

void facts_line::drain() noexcept {
  try {
    auto done = std::make_shared<std::promise<void>>();
    const std::future<void> is_done = done->get_future();
    add([done = std::move(done)] { done->set_value(); });
    is_done.wait();  // dropped, too: by a promise that is broken
  } catch (...) {
    return;  // no memory, no thread
  }
}

// What waits is dropped before the thread has ended, since that may wait for it; and what comes
// meanwhile after that, by who closes: the loop's thread, which may have added it, must not.
void facts_line::close() noexcept {
  std::deque<std::function<void()>> left;
  std::thread runner;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    left.swap(line_);
    runner.swap(runner_);
  }
  changed_.notify_one();
  left.clear();
  if (runner.joinable()) runner.join();
  const std::lock_guard lock(mutex_);
  left.swap(line_);
  is_ending_ = false;
}

}  // namespace manta::inline v0::node
