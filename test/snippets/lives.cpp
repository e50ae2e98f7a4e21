// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

// Actors' lives: names, ends, monitors, weak handles, several calls at a time, full mailboxes.

namespace {

struct room {
  int guests = 0;
  int enter() { return ++guests; }
  int close() {
    manta::this_actor::exit();  // when this method has returned
    return guests;
  }
  manta::weak_actor<room> self() { return manta::this_actor::handle<room>(); }
};
struct store {
  std::atomic<int> reads{0};
  int read() { return ++reads; }
};

}  // namespace

TEST_CASE("names: an actor that others find") {
  manta::runtime rt;
  const manta::actor_options named = {.name = "lobby", .name_space = "hotel"};
  manta::actor<room> lobby = manta::spawn<room>.with(named)();
  std::optional<manta::actor<room>> found = manta::find_actor<room>("lobby", "hotel");
  CHECK((found.has_value() && *found == lobby));
  CHECK_THROWS_AS(manta::spawn<room>.with(named)(), manta::name_taken);
  manta::actor<room> same =
      manta::spawn<room>.with({.name = "lobby", .name_space = "hotel", .get_if_exists = true})();
  CHECK(same == lobby);
  // Nothing outlives the driver in one process.
  CHECK_THROWS_AS(manta::spawn<room>.with({.name = "x", .detached = true})(), manta::unsupported);
}

TEST_CASE("ends: kill at once, retire after the calls already made") {
  manta::runtime rt;
  manta::actor<room> lobby = manta::spawn<room>();
  manta::future<int> before = manta::remote<&room::enter>(lobby);
  manta::retire(lobby);
  CHECK(before.get() == 1);
  CHECK_THROWS_AS(manta::remote<&room::enter>(lobby).get(), manta::actor_lost);
  manta::actor<room> cellar = manta::spawn<room>();
  manta::kill(cellar);
  CHECK_THROWS_AS(manta::remote<&room::enter>(cellar).get(), manta::actor_lost);
}

TEST_CASE("ends: who wants to know is told") {
  manta::runtime rt;
  using manta::end_reason;
  manta::actor<room> lobby = manta::spawn<room>();
  manta::future<manta::actor_end> told = manta::monitor(lobby);  // does not keep it alive
  CHECK(manta::remote<&room::close>(lobby).get() == 0);          // it leaves by itself
  CHECK(told.get().reason == end_reason::exited);
  CHECK_FALSE(told.get().message.empty());
  for (const end_reason each : {end_reason::ended, end_reason::killed, end_reason::runtime_ended,
                                end_reason::constructor_failed, end_reason::process_lost}) {
    CHECK_FALSE(std::string(manta::to_string(each)).empty());
  }
}

TEST_CASE("weak handles: for the way back, so that no cycle keeps an actor") {
  manta::runtime rt;
  manta::actor<room> lobby = manta::spawn<room>();
  manta::weak_actor<room> weak = manta::remote<&room::self>(lobby).get();
  CHECK(weak.lock() == lobby);
  manta::kill(lobby);
  CHECK_FALSE(weak.lock().valid());
}

TEST_CASE("concurrency: several calls at a time, in groups with limits of their own") {
  manta::runtime rt;
  const std::vector<manta::concurrency_group> groups = {{.name = "io", .limit = 2}};
  manta::actor<store> files = manta::spawn<store>.with({.max_concurrency = 4, .groups = groups})();
  manta::future<int> plain = manta::remote<&store::read>(files);
  manta::future<int> io = manta::remote<&store::read>.with({.group = "io"})(files);
  CHECK(plain.get() + io.get() == 3);
}

TEST_CASE("mailboxes: at most so many calls wait, one more waits for a place, or is refused") {
  manta::runtime rt;
  using manta::full_policy;
  manta::actor<room> patient =
      manta::spawn<room>.with({.mailbox_cap = 1, .on_full = full_policy::wait})();
  for (int i = 0; i < 10; ++i) CHECK(manta::remote<&room::enter>(patient).get() == i + 1);
  manta::actor<room> strict =
      manta::spawn<room>.with({.mailbox_cap = 1, .on_full = full_policy::refuse})();
  std::vector<manta::future<int>> calls;
  try {
    for (int i = 0; i < 1000; ++i) calls.push_back(manta::remote<&room::enter>(strict));
  } catch (const manta::mailbox_full& e) {
    CHECK(e.code() == manta::errc::mailbox_full);
  }
  for (std::size_t i = 0; i < calls.size(); ++i) CHECK(calls[i].get() == static_cast<int>(i) + 1);
}
