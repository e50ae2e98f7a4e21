// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include <manta/base/clock.hpp>

// Says when sockets are ready and when time has passed: all of Asio that this room uses, on one
// thread, which is who calls run().
//
// Threads: post and stop any; all else run()'s, or before it begins.

namespace manta::inline v0::bulk {

class reactor {
 public:
  /// Throws std::system_error: the kernel gives no descriptor for it.
  reactor();
  reactor(const reactor&) = delete;
  reactor& operator=(const reactor&) = delete;
  ~reactor();

  /// Until stop(). What it calls must not throw.
  void run() noexcept;
  void stop() noexcept;
  /// Called soon, in the order in which it was posted. Throws std::bad_alloc.
  void post(std::function<void()> then);

  /// A socket, which it closes. Each wait calls back once, unless this is gone before.
  class watched {
   public:
    /// Takes `file` over, also when it throws std::system_error or std::bad_alloc.
    watched(reactor& at, int file);
    watched(const watched&) = delete;
    watched& operator=(const watched&) = delete;
    ~watched();
    int file() const noexcept { return file_; }
    void when_readable(std::function<void()> then);
    void when_writable(std::function<void()> then);

   private:
    struct body;
    std::shared_ptr<body> body_;
    int file_;
  };

  /// Calls back once after that time, unless it is set again or gone before.
  class timer {
   public:
    explicit timer(reactor& at);
    timer(const timer&) = delete;
    timer& operator=(const timer&) = delete;
    ~timer();
    void set(duration after, std::function<void()> then);

   private:
    struct body;
    std::shared_ptr<body> body_;
  };

 private:
  struct body;
  std::unique_ptr<body> body_;
};

}  // namespace manta::inline v0::bulk
