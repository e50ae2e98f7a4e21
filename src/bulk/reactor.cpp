// SPDX-License-Identifier: Apache-2.0
#include "bulk/reactor.hpp"

#include <exception>
#include <system_error>
#include <utility>

// Its namespace has no version, so a program that uses another Asio beside a static libmanta would
// get one of the two for both.
#define asio manta_asio
#define ASIO_STANDALONE
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <unistd.h>

namespace manta::inline v0::bulk {

struct reactor::body {
  asio::io_context at{1};
  asio::executor_work_guard<asio::io_context::executor_type> stays{at.get_executor()};
};

reactor::reactor() : body_(std::make_unique<body>()) {}
reactor::~reactor() = default;

// Where there is no memory one event is lost: whoever waits for what it would have brought gives up
// after its limit.
void reactor::run() noexcept {
  for (;;) {
    try {
      body_->at.run();
      return;
    } catch (const std::exception&) {
      continue;
    }
  }
}
void reactor::stop() noexcept { body_->at.stop(); }
void reactor::post(std::function<void()> then) { asio::post(body_->at, std::move(then)); }

// The callbacks hold it weakly: an event may be under way already when the socket goes.
struct reactor::watched::body {
  explicit body(asio::io_context& at) : socket(at) {}
  asio::posix::stream_descriptor socket;

  static void wait(const std::shared_ptr<body>& of, asio::posix::stream_descriptor::wait_type what,
                   std::function<void()> then) {
    of->socket.async_wait(
        what, [weak = std::weak_ptr<body>(of), then = std::move(then)](const std::error_code& why) {
          if (why == asio::error::operation_aborted || weak.expired()) return;
          then();
        });
  }
};

reactor::watched::watched(reactor& at, int file) : file_(file) {
  try {
    body_ = std::make_shared<body>(at.body_->at);
    body_->socket.assign(file);
  } catch (...) {
    ::close(file);
    throw;
  }
}
reactor::watched::~watched() {
  std::error_code ignored;
  if (body_ != nullptr) body_->socket.close(ignored);
}
void reactor::watched::when_readable(std::function<void()> then) {
  body::wait(body_, asio::posix::stream_descriptor::wait_read, std::move(then));
}
void reactor::watched::when_writable(std::function<void()> then) {
  body::wait(body_, asio::posix::stream_descriptor::wait_write, std::move(then));
}

struct reactor::timer::body {
  explicit body(asio::io_context& at) : clock(at) {}
  asio::steady_timer clock;
  std::uint64_t turn = 0;
};

reactor::timer::timer(reactor& at) : body_(std::make_shared<body>(at.body_->at)) {}
reactor::timer::~timer() = default;
void reactor::timer::set(duration after, std::function<void()> then) {
  body_->clock.expires_after(after);
  const std::uint64_t turn = ++body_->turn;
  body_->clock.async_wait([weak = std::weak_ptr<body>(body_), turn,
                           then = std::move(then)](const std::error_code& why) {
    const std::shared_ptr<body> of = weak.lock();
    if (why || of == nullptr || of->turn != turn) return;
    then();
  });
}

}  // namespace manta::inline v0::bulk
