// SPDX-License-Identifier: Apache-2.0
#include <manta/exec/timer.hpp>

#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace manta::inline v0::exec {

struct timer::state {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<timer_entry*> heap;  // a binary heap, earliest first
  std::thread thread;
  bool is_running = false;
  bool is_stopping = false;

  void place(std::size_t at, timer_entry* e) noexcept {
    heap[at] = e;
    e->index_ = at;
  }
  void rise(std::size_t at) noexcept {
    timer_entry* const e = heap[at];
    while (at > 0 && e->at_ < heap[(at - 1) / 2]->at_) {
      place(at, heap[(at - 1) / 2]);
      at = (at - 1) / 2;
    }
    place(at, e);
  }
  void sink(std::size_t at) noexcept {
    timer_entry* const e = heap[at];
    for (;;) {
      std::size_t child = 2 * at + 1;
      if (child >= heap.size()) break;
      if (child + 1 < heap.size() && heap[child + 1]->at_ < heap[child]->at_) ++child;
      if (e->at_ <= heap[child]->at_) break;
      place(at, heap[child]);
      at = child;
    }
    place(at, e);
  }
  void remove(timer_entry& e) noexcept {
    const std::size_t at = std::exchange(e.index_, timer_entry::nowhere);
    timer_entry* const last = heap.back();
    heap.pop_back();
    if (last == &e) return;
    place(at, last);
    rise(at);
    sink(last->index_);
  }
};

timer::state& timer::global() {
  static auto* const made = new state;
  return *made;
}

void timer::arm(timer_entry& entry, base::time_point at) {
  state& s = global();
  const std::lock_guard lock(s.mutex);
  entry.at_ = at;
  if (entry.index_ == timer_entry::nowhere) {
    s.heap.push_back(&entry);
    entry.index_ = s.heap.size() - 1;
  }
  s.rise(entry.index_);
  s.sink(entry.index_);
  if (!s.is_running) {
    try {
      s.thread = std::thread([&s] { run(s); });
    } catch (...) {
      s.remove(entry);
      throw;
    }
    s.is_running = true;
  } else if (entry.index_ == 0) {
    s.changed.notify_one();
  }
}

bool timer::disarm(timer_entry& entry) noexcept {
  state& s = global();
  const std::lock_guard lock(s.mutex);
  if (entry.index_ == timer_entry::nowhere) return false;
  s.remove(entry);
  return true;
}

std::size_t timer::armed() noexcept {
  state& s = global();
  const std::lock_guard lock(s.mutex);
  return s.heap.size();
}

void timer::run(state& s) noexcept {
  pthread_setname_np(pthread_self(), "manta-timer");
  std::unique_lock lock(s.mutex);
  while (!s.is_stopping) {
    if (s.heap.empty()) {
      s.changed.wait(lock);
      continue;
    }
    timer_entry* const first = s.heap.front();
    // By value: the entry may be taken back, and be gone, while this sleeps.
    const base::time_point at = first->at_;
    if (at > base::now()) {
      s.changed.wait_until(lock, at);
      continue;
    }
    s.remove(*first);
    if (!first->pin(first)) continue;
    lock.unlock();
    first->fire(first);
    lock.lock();
  }
}

void timer::stop() noexcept {
  state& s = global();
  std::thread ending;
  {
    const std::lock_guard lock(s.mutex);
    if (!s.is_running) return;
    s.is_stopping = true;
    ending = std::move(s.thread);
    s.changed.notify_one();
  }
  ending.join();
  const std::lock_guard lock(s.mutex);
  s.is_stopping = s.is_running = false;
}

}  // namespace manta::inline v0::exec
