// SPDX-License-Identifier: Apache-2.0
#include "node/worker_facts.hpp"

#include <future>
#include <memory>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "wire/error_record.hpp"

namespace manta_test::worker_facts_test {
namespace {

using manta::errc;
using manta::node::facts_line;
using manta::node::worker_facts;
namespace wire = manta::wire;

// Names that a head of its own is asked for are such questions, from any node.
TEST_CASE("questions that others answer count as those that it answers itself", "[node][facts]") {
  std::vector<errc> refused;
  const auto facts =
      std::make_shared<worker_facts>([&](std::uint64_t /*number*/, const wire::result_view& said) {
        if (const auto* const why = std::get_if<wire::error_view>(&said.outcome)) {
          refused.push_back(wire::to_error(*why).code());
        }
      });
  std::promise<void> go_on;
  std::size_t answered = 0;
  facts_line::global().add([is = go_on.get_future().share()] { is.wait(); });
  for (std::size_t i = 0; i <= worker_facts::most_open; ++i) {
    facts->ask_else(i + 1, {}, [&] { ++answered; });
  }
  CHECK(refused == std::vector{errc::store_full});
  go_on.set_value();
  facts_line::global().drain();
  CHECK(answered == worker_facts::most_open);
  facts->ask_else(1, {}, [&] { ++answered; });
  facts_line::global().drain();
  CHECK(answered == worker_facts::most_open + 1);
  CHECK(refused.size() == 1);
  facts_line::global().close();
}

}  // namespace
}  // namespace manta_test::worker_facts_test
