// SPDX-License-Identifier: Apache-2.0
// Workers that wait, and lend their cores to others meanwhile.
#include <atomic>
#include <chrono>

#include <manta/exec/executor.hpp>
#include <manta/exec/parker.hpp>
#include <manta/manta.hpp>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

namespace manta_test::lending_test {

namespace {

using manta::future;
using manta::exec::executor;
using namespace std::chrono_literals;

// Is told that a job is ready, and then waits for what somebody submits only now.
struct waits_in_turn : manta::exec::waiter {
  std::atomic<bool> has_come{false};
  std::atomic<bool> may_wait{false};
  manta::exec::parker until;
  waits_in_turn() {
    fire = [](manta::exec::waiter* w) noexcept {
      auto* const self = static_cast<waits_in_turn*>(w);
      self->has_come = true;
      happens([self] { return self->may_wait.load(); });
      executor::sleep(self->until, manta::base::now() + 60s);
    };
  }
};

}  // namespace

TEST_CASE("a worker that waits for what its result has readied lends its core", "[executor]") {
  waits_in_turn told;
  const manta::runtime rt(manta_test::with(1));
  std::atomic<bool> may_end{false};
  const future<int> first = manta::async([&may_end] {
    happens([&may_end] { return may_end.load(); });
    return 1;
  });
  REQUIRE(manta::detail::access::job(first)->add_waiter(&told));
  may_end = true;
  REQUIRE(happens([&] { return told.has_come.load(); }));
  // The worker is about to look for work, so nobody is woken for this.
  const future<int> second = manta::async([&told] {
    told.until.signal();
    return 2;
  });
  told.may_wait = true;
  CHECK(happens([&] { return second.is_ready(); }, 20s));
  if (!second.is_ready()) told.until.signal();
}

}  // namespace manta_test::lending_test
