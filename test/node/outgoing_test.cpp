// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <optional>
#include <thread>

#include <catch2/catch.hpp>

#include "node/outgoing.hpp"

namespace manta_test::outgoing_test {

using manta::node::outgoing;

constexpr std::size_t large = 1'000'000;
constexpr std::uint64_t most = std::uint64_t{1} << 40U;  // no other test's node

TEST_CASE("who ends calls waits for those that read arguments for that node", "[node][outgoing]") {
  std::optional<outgoing::scope> first(std::in_place, most + 1, large);
  std::optional<outgoing::scope> second(std::in_place, most + 1, large);
  const outgoing::scope other(most + 2, large);
  const outgoing::scope small(most + 3, 4'095);
  outgoing::global().wait(most + 3);
  std::atomic<int> read{0};
  int seen = 0;
  std::thread ends([&] {
    outgoing::global().wait(most + 1);
    seen = read.load();
  });
  for (auto* const one : {&first, &second}) {
    ++read;
    one->reset();
  }
  ends.join();
  CHECK(seen == 2);
}

TEST_CASE("who ends all calls waits for all that read arguments", "[node][outgoing]") {
  std::optional<outgoing::scope> one(std::in_place, most + 1, large);
  std::atomic<bool> is_read{false};
  bool seen = false;
  std::thread ends([&] {
    outgoing::global().wait(0);
    seen = is_read.load();
  });
  is_read.store(true);
  one.reset();
  ends.join();
  CHECK(seen);
}

}  // namespace manta_test::outgoing_test
