// SPDX-License-Identifier: Apache-2.0
// Questions whose asker ends as they are written.
#include "node/worker_questions.hpp"

#include <atomic>
#include <cstdint>
#include <new>

#include <catch2/catch.hpp>

#include "node/workbench.hpp"

namespace manta_test::worker_questions_test {
namespace {

using manta::base::id;
using manta::node::workbench;
using manta::node::worker_questions;

struct asking {
  std::atomic<std::uint32_t> is_making{0};
  worker_questions asks{1, [](void* /*to*/, workbench& /*on*/) noexcept {}, nullptr, is_making,
                        worker_questions::scope::none};
  int told = 0;
  // Whether it throws.
  bool begins(const worker_questions::writer& write) {
    try {
      asks.begin(write, [this](const auto& /*came*/) { ++told; });
      return false;
    } catch (const std::bad_alloc&) {
      return true;
    }
  }
};

// Told twice, who asked would be touched when it is gone.
TEST_CASE("a question that can't be written is told of once, also as its asker ends", "[node]") {
  asking one;
  CHECK(one.begins([](workbench& /*on*/, const id& /*request*/) { throw std::bad_alloc(); }));
  CHECK(one.told == 0);
  const manta::error why(manta::errc::node_lost, "a test");
  CHECK_FALSE(one.begins([&](workbench& /*on*/, const id& /*request*/) {
    one.asks.end(why);
    throw std::bad_alloc();
  }));
  CHECK(one.told == 1);
  one.asks.end(why);
  CHECK(one.told == 1);
}

}  // namespace
}  // namespace manta_test::worker_questions_test
