// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>

#include <manta/base/sanitizers.hpp>
#include <manta/manta.hpp>

#include <catch2/catch.hpp>

#include "api/everywhere.hpp"
#include "exec/support.hpp"

// What the tests of the public interface share. Tasks never assert (the framework is not
// thread-safe): they answer values, and the test's own thread looks at them.

namespace test {

/// Longer than anything here takes on a busy machine under a sanitizer.
inline constexpr std::chrono::seconds patience{60};

using manta::base::is_sanitized;

/// Two workers, whatever the machine has.
inline manta::config two_workers() {
  manta::config c;
  c.workers = 2;
  return c;
}
/// Whether tasks and actors of this run live in processes of their own (MANTA_ISOLATION).
inline bool in_processes() {
  const char* const isolation = std::getenv("MANTA_ISOLATION");
  return isolation != nullptr && std::string(isolation) == "processes";
}
/// Whether tasks of this run go to other nodes (MANTA_NODES).
inline bool in_nodes() { return std::getenv("MANTA_NODES") != nullptr; }
/// How often a test repeats what costs far less at home: each time is a trip to another node there.
inline int trips(int at_home) {
  return std::max(1, in_nodes() ? manta_test::scaled(at_home) / 20 : manta_test::scaled(at_home));
}
/// Whether this run sends all values through bytes (MANTA_CHECK): then there are more moves, and of
/// exceptions only std's arrive themselves.
inline bool copies_values() {
  const char* const mode = std::getenv("MANTA_CHECK");
  return mode != nullptr && std::string(mode) != "none" && std::string(mode) != "far";
}

inline manta::config workers(int n) {
  manta::config c;
  c.workers = n;
  return c;
}

/// Opens after a number of arrivals (one by default); waits have a deadline. Any thread of this
/// process. A task that may begin after the gate's scope has ended holds share(), not a reference.
class gate {
 public:
  explicit gate(int arrivals = 1) : state_(std::make_shared<common_gate>(arrivals)) {}
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;
  /// Lets those go who are at it: they hold its state, not the gate.
  ~gate() { state_->open(); }
  void open() { arrive(); }
  void arrive() { state_->arrive(); }
  /// False when it stayed shut.
  bool wait(std::chrono::nanoseconds limit = patience) {
    const std::shared_ptr<common_gate> held = state_;
    return held->wait(limit);
  }
  std::shared_ptr<common_gate> share() const { return state_; }

 private:
  std::shared_ptr<common_gate> state_;
};

/// A gate that opens at the latest when the scope ends, so that a failed assertion does not hang.
class scoped_gate : public gate {
 public:
  using gate::gate;
  ~scoped_gate() {
    for (int i = 0; i < 100000 && !wait(std::chrono::nanoseconds(0)); ++i) arrive();
  }
};

/// Counts its copies and moves, and who is alive.
struct tracked {
  static inline std::atomic<int> copies{0};
  static inline std::atomic<int> moves{0};
  static inline std::atomic<int> alive{0};
  static void reset() {
    copies = 0;
    moves = 0;
  }

  int value = 0;
  explicit tracked(int v) : value(v) { ++alive; }
  tracked(const tracked& other) : value(other.value) {
    ++copies;
    ++alive;
  }
  tracked(tracked&& other) noexcept : value(other.value) {
    other.value = -1;
    ++moves;
    ++alive;
  }
  tracked& operator=(const tracked&) = default;
  tracked& operator=(tracked&&) = default;
  ~tracked() { --alive; }
};

template <class Exception, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Exception& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("another exception: ") + e.what();
  } catch (...) {
    return "another exception";
  }
  return "no exception";
}

/// In these tests threads meet in shared objects, so a shared pointer to one stays what it is where
/// values go through bytes: the parcel holds the pointer.
template <class T>
using stays_shared =
    manta::detail::boxed_handle<std::shared_ptr<T>, manta::spec::reference_kind::stop_token>;

}  // namespace test

namespace manta::codec {
template <>
struct custom<std::shared_ptr<test::gate>> : test::stays_shared<test::gate> {};
template <>
struct custom<std::shared_ptr<std::atomic<bool>>> : test::stays_shared<std::atomic<bool>> {};
template <>
struct custom<std::shared_ptr<std::atomic<int>>> : test::stays_shared<std::atomic<int>> {};
template <>
struct custom<std::shared_ptr<int>> : test::stays_shared<int> {};
template <>
struct custom<std::shared_ptr<manta::future<int>>> : test::stays_shared<manta::future<int>> {};
template <>
struct custom<std::shared_ptr<std::thread::id>> : test::stays_shared<std::thread::id> {};
template <>
struct custom<test::tracked> {
  static void write(out_archive& out, const test::tracked& t) { out(t.value); }
  static test::tracked read(in_archive& in) { return test::tracked(codec::read<int>(in)); }
};
}  // namespace manta::codec
