// SPDX-License-Identifier: Apache-2.0
//
// Our stores as the rows use them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "control/store.hpp"
#include "rivals/control_rows.hpp"

namespace bench {

namespace control = manta::control;

inline std::unique_ptr<control::store> open_store(const std::string& path) {
  auto opened = control::open_rocks_store({.path = path});
  if (!opened) std::fprintf(stderr, "bench: %s\n", opened.error().message().c_str());
  check(opened.has_value(), "the store opens");
  return *std::move(opened);
}

inline control::change put(std::string key, std::string value) {
  return {control::change::kind::put, std::move(key), std::move(value)};
}

// What was begun and not answered yet: at most so much. One thread begins, any ends. It lives
// longer than who ends.
class in_flight {
 public:
  // Before the first begins.
  void allow(std::size_t most) { most_ = most; }
  // Waits for half of them when there are too many, so that the caller sleeps seldom.
  void begin() {
    ++begun_;
    if (begun_ - ended_.load(std::memory_order_acquire) > most_) wait_for(begun_ - most_ / 2 - 1);
  }
  // Either the one who waits sees the count, or this one sees that somebody waits: both are
  // sequentially consistent.
  void end() {
    const std::size_t n = ended_.fetch_add(1) + 1;
    if (n < awaited_.load()) return;
    const std::lock_guard lock(mutex_);
    enough_.notify_one();
  }
  void wait() { wait_for(begun_); }

 private:
  void wait_for(std::size_t n) {
    std::unique_lock lock(mutex_);
    awaited_.store(n);
    enough_.wait(lock, [&] { return ended_.load() >= n; });
    awaited_.store(nobody);
  }

  static constexpr std::size_t nobody = std::numeric_limits<std::size_t>::max();
  std::size_t most_ = changes_in_flight;
  std::size_t begun_ = 0;
  std::atomic<std::size_t> ended_{0};
  std::atomic<std::size_t> awaited_{nobody};
  std::mutex mutex_;
  std::condition_variable enough_;
};

// A store, its folder, and what it has to answer: it is closed first.
struct opened {
  temporary_folder where;
  in_flight all;
  std::unique_ptr<control::store> store;
};

inline std::shared_ptr<opened> on_disk() {
  auto made = std::make_shared<opened>();
  made->store = open_store(made->where.file("store"));
  return made;
}

inline void commit(control::store& to, in_flight& all, control::batch what) {
  all.begin();
  to.commit(std::move(what), [&all](const manta::result<control::outcome>& got) {
    check(got && got->at != 0, "a batch was applied");
    all.end();
  });
}

// So many keys once, `size` in a batch.
inline void fill(control::store& to, in_flight& all, std::size_t keys, std::size_t size) {
  for (std::size_t n = 0; n < keys;) {
    control::batch next;
    next.changes.reserve(size);
    for (; n < keys && next.changes.size() < size; ++n) {
      next.changes.push_back(put(key_of(n), value_of(n)));
    }
    commit(to, all, std::move(next));
  }
  all.wait();
}

}  // namespace bench
