// SPDX-License-Identifier: Apache-2.0
//
// Rings between two processes without anything above them: what isolated workers could reach.
#include <cstring>
#include <memory>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/measure.hpp"
#include "rivals/rows.hpp"
#include "wire/ring.hpp"

namespace bench {
namespace {

namespace wire = manta::wire;
constexpr std::size_t message_bytes = 128;

/// A process that sends back what it gets.
class echo_process {
 public:
  echo_process()
      : there_(*wire::ring_memory::make(std::size_t{1} << 20U)),
        back_(*wire::ring_memory::make(std::size_t{1} << 20U)),
        pid_(fork()) {
    if (pid_ == 0) serve();
  }
  ~echo_process() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  echo_process(const echo_process&) = delete;
  echo_process& operator=(const echo_process&) = delete;

  void send() {
    while (writer_.reserve(message_bytes).empty()) {
    }
    writer_.publish();
    writer_.bell();
  }
  void receive() {
    while (reader_.take(frame_) != wire::ring_reader::got::message) {
    }
    check(frame_.bytes().size() == message_bytes, "bytes that came back");
  }

 private:
  [[noreturn]] void serve() {
    wire::ring_reader from(there_);
    wire::ring_writer to(back_);
    wire::frame_buffer frame;
    for (;;) {
      if (from.take(frame) != wire::ring_reader::got::message) continue;
      const auto room = to.reserve(frame.bytes().size());
      std::memcpy(room.data(), frame.bytes().data(), frame.bytes().size());
      to.publish();
      to.bell();
    }
  }

  wire::ring_memory there_;
  wire::ring_memory back_;
  wire::ring_writer writer_{there_};
  wire::ring_reader reader_{back_};
  wire::frame_buffer frame_;
  pid_t pid_;
};

}  // namespace

void add_our_rings(suite& s) {
  contestant single{isolated_awake, "bare rings", side::reference};
  single.start = [](const plan& p) -> body {
    auto echo = std::make_shared<echo_process>();
    const std::size_t count = p.count(100'000);
    return [=](const turn&) {
      return latency(unit::microseconds, count, [&](std::size_t) {
        echo->send();
        echo->receive();
      });
    };
  };
  s.add(std::move(single));
  contestant many{isolated_many, "bare rings", side::reference};
  many.start = [](const plan& p) -> body {
    auto echo = std::make_shared<echo_process>();
    const std::size_t count = p.count(100'000) / 100;
    return [=](const turn& t) {
      return rate(t, 100, count, [&] {
        for (int i = 0; i < 100; ++i) echo->send();
        for (int i = 0; i < 100; ++i) echo->receive();
      });
    };
  };
  s.add(std::move(many));
}

}  // namespace bench
