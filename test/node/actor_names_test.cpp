// SPDX-License-Identifier: Apache-2.0
// Names of actors for other processes.
#include "node/actor_names.hpp"

#include <atomic>
#include <thread>

#include <catch2/catch.hpp>

#include <manta/manta.hpp>

namespace actor_names_test {

namespace {

namespace exec = manta::exec;
namespace node = manta::node;

struct nothing {};

}  // namespace

// Else a message that names it could go before the one that makes it.
TEST_CASE("an actor that nobody has been told of is known to one thread only", "[node]") {
  const manta::runtime rt(manta::config{.workers = 1});
  node::actor_names& names = node::actor_names::global();
  std::atomic<exec::actor_core*> untold{nullptr};
  std::atomic<long> looks{0};
  std::atomic<int> early{0};
  std::atomic<bool> ends{false};
  std::thread other([&] {
    while (!ends.load()) {
      exec::actor_core* const core = untold.load();
      if (core != nullptr && names.known(core).has_value()) ++early;
      ++looks;
    }
  });
  int known = 0;
  int rounds = 0;
  for (; rounds < 3000; ++rounds) {
    const auto a = manta::spawn<nothing>();
    exec::actor_core* const core = manta::detail::actor_access::core(a);
    untold = core;
    const auto id = rounds % 2 == 0 ? names.draw(core, 1) : names.reserve(core, 1);
    known += names.known(core) == id ? 1 : 0;
    untold = nullptr;
    const long seen = looks.load();
    while (looks.load() < seen + 2) std::this_thread::yield();  // no look is under way
    names.told(core);
    known += names.known(core) == id ? 1 : 0;
    names.forget(core);
  }
  ends = true;
  other.join();
  CHECK(early == 0);
  CHECK(known == rounds + rounds / 2);
}

}  // namespace actor_names_test
