// SPDX-License-Identifier: Apache-2.0
// Who asks a head of its own whose line is full: it is woken, and does not look again by itself.
#include "node/head_facts.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <variant>

#include <catch2/catch.hpp>

#include "wire/error_record.hpp"
#include "wire/link_support.hpp"

namespace manta_test::head_facts_test {
namespace {

using manta::node::head_facts;
using manta::node::name_question;

TEST_CASE("who asks a head whose line is full goes on when there is room, or with its end",
          "[node]") {
  head_facts& all = head_facts::global();
  std::atomic<int> tried{0};
  std::atomic<bool> is_full{true};
  all.ask_by([&](std::uint64_t /*number*/, head_facts::pieces /*message*/, std::size_t /*size*/) {
    ++tried;
    return !is_full.load();
  });
  std::atomic<int> ended{0};
  const auto ask = [&] {
    all.ask_name({.act = 1, .name_space = "a", .name = "b"}, [&](const wire::result_view& came) {
      if (std::holds_alternative<wire::error_view>(came.outcome)) ++ended;
    });
  };
  {
    std::thread asks(ask);
    CHECK(happens([&] { return tried.load() == 1; }));
    all.has_room();  // which others have taken
    CHECK(happens([&] { return tried.load() == 2; }));
    is_full.store(false);
    all.has_room();
    asks.join();
    CHECK(tried.load() == 3);
    CHECK(ended.load() == 0);
  }
  is_full.store(true);
  std::thread asks(ask);
  CHECK(happens([&] { return tried.load() == 4; }));
  all.close();
  asks.join();
  CHECK(tried.load() == 4);
  CHECK(ended.load() == 2);
  all.stop_answering();
}

}  // namespace
}  // namespace manta_test::head_facts_test
