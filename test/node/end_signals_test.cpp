// SPDX-License-Identifier: Apache-2.0
#include "node/end_signals.hpp"

#include <csignal>

#include <catch2/catch.hpp>

namespace end_signals_test {

namespace {

using manta::node::early_signals;
using manta::node::end_signals;

using handler = void (*)(int);

handler handler_of(int number) {
  struct sigaction now {};
  sigaction(number, nullptr, &now);
  return now.sa_handler;
}

void users_own(int /*number*/) {}

// The test's own program may have handlers.
class signals_kept {
 public:
  signals_kept() {
    sigaction(SIGTERM, nullptr, &term_);
    sigaction(SIGINT, nullptr, &interrupt_);
    std::signal(SIGTERM, SIG_DFL);
    std::signal(SIGINT, SIG_DFL);
  }
  signals_kept(const signals_kept&) = delete;
  signals_kept& operator=(const signals_kept&) = delete;
  ~signals_kept() {
    sigaction(SIGTERM, &term_, nullptr);
    sigaction(SIGINT, &interrupt_, nullptr);
  }

 private:
  struct sigaction term_ {};
  struct sigaction interrupt_ {};
};

}  // namespace

// Whatever ends a process by default while its runtime comes up leaves its job's folder.
TEST_CASE("who serves takes the signals of its end over from who came up", "[end-signals]") {
  const signals_kept kept;
  {
    const early_signals early;
    const handler first = handler_of(SIGTERM);
    CHECK(first != SIG_DFL);
    {
      end_signals late;
      CHECK(handler_of(SIGTERM) != first);
      raise(SIGTERM);
      CHECK(late.wait() == SIGTERM);
    }
    CHECK(handler_of(SIGTERM) == SIG_DFL);
    CHECK(handler_of(SIGINT) == SIG_DFL);
  }
  CHECK(handler_of(SIGTERM) == SIG_DFL);
}

TEST_CASE("a signal that the program has a handler for stays what it is", "[end-signals]") {
  const signals_kept kept;
  std::signal(SIGTERM, users_own);
  {
    const early_signals early;
    const end_signals late;
    CHECK(handler_of(SIGTERM) == users_own);
    CHECK(handler_of(SIGINT) != SIG_DFL);
  }
  CHECK(handler_of(SIGTERM) == users_own);
  CHECK(handler_of(SIGINT) == SIG_DFL);
}

}  // namespace end_signals_test
