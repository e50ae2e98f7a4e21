// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "control/store.hpp"
#include "exec/support.hpp"
#include "folder.hpp"

// What the tests of control/ share: the backends, and calls that wait for their answer.

namespace test_control {

using manta_test::folder;

namespace control = manta::control;

inline std::unique_ptr<control::store> open_on_disk(const std::string& path) {
  auto opened = control::open_rocks_store({.path = path, .memory_bytes = std::size_t{8} << 20U});
  if (!opened) FAIL(opened.error().message());
  return *std::move(opened);
}

/// A kind of store; each test gets a new, empty one.
struct backend {
  const char* name;
  std::unique_ptr<control::store> (*make)(const folder& where);
};

inline const std::vector<backend>& backends() {
  static const std::vector<backend> all = {
      {"memory", [](const folder&) { return control::make_memory_store(); }},
      {"disk", [](const folder& where) { return open_on_disk(where.store()); }}};
  return all;
}

/// Where one answer arrives, from any thread.
template <class T>
class mailbox {
 public:
  control::answer<T> answer() {
    return [this](manta::result<T> r) {
      const std::lock_guard lock(mutex_);
      ++given_;
      if (!got_) got_.emplace(std::move(r));
      arrived_.notify_all();
    };
  }
  /// Waits, and leaves the answer where it is.
  bool wait_only() {
    std::unique_lock lock(mutex_);
    return arrived_.wait_for(lock, std::chrono::seconds(60), [this] { return got_.has_value(); });
  }
  manta::result<T> wait() {
    std::unique_lock lock(mutex_);
    const bool came =
        arrived_.wait_for(lock, std::chrono::seconds(60), [this] { return got_.has_value(); });
    if (!came) return manta::error(manta::errc::timed_out, "no answer came");
    if (given_ != 1) return manta::error(manta::errc::task_error, "several answers came");
    return *std::move(got_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::optional<manta::result<T>> got_;
  int given_ = 0;
};

inline manta::result<control::outcome> commit(control::store& s, control::batch what) {
  mailbox<control::outcome> box;
  s.commit(std::move(what), box.answer());
  return box.wait();
}
inline manta::result<control::found> read(control::store& s, std::vector<std::string> keys) {
  mailbox<control::found> box;
  s.read(std::move(keys), box.answer());
  return box.wait();
}
inline manta::result<control::page> scan(control::store& s, control::range of) {
  mailbox<control::page> box;
  s.scan(std::move(of), box.answer());
  return box.wait();
}

inline control::change put(std::string key, std::string value) {
  return {control::change::kind::put, std::move(key), std::move(value)};
}
inline control::change del(std::string key) {
  return {control::change::kind::del, std::move(key), {}};
}

/// All records with the prefix, page by page.
inline std::vector<control::record> scan_all(control::store& s, const std::string& prefix,
                                             std::size_t most) {
  std::vector<control::record> all;
  control::range next{.prefix = prefix, .most = most};
  for (;;) {
    auto got = scan(s, next);
    if (!got) FAIL(got.error().message());
    control::page page = *std::move(got);
    if (page.records.size() > most) FAIL("a page is larger than asked");
    for (auto& one : page.records) all.push_back(std::move(one));
    if (!page.has_more) return all;
    next.after = all.back().key;
  }
}

}  // namespace test_control
