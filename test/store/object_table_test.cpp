// SPDX-License-Identifier: Apache-2.0
// The table of objects: who leaves memory, who waits, and who is told.
#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include <catch2/catch.hpp>

#include "store/object_machine.hpp"

namespace {

using Catch::Matchers::Contains;
using manta::errc;
using namespace test_store;

}  // namespace

TEST_CASE("what does not fit is spilled, and comes back when it is read", "[store]") {
  store_node n(100 * mib);
  for (object_id one = 1; one <= 40; ++one) REQUIRE(n.make(one, 10 * mib));
  CHECK(n.spills > 25);
  CHECK(n.table.reserved_bytes() <= 100 * mib);
  for (object_id one = 1; one <= 40; ++one) {
    REQUIRE(n.pin(one));
    n.table.unpin(one, 0);
    n.take();
  }
  const std::uint64_t before = n.spills;
  for (object_id one = 1; one <= 40; ++one) {
    REQUIRE(n.pin(one));
    n.table.unpin(one, 0);
    n.take();
  }
  CHECK(n.spills <= before + 10);  // what is on the disk already is not written again
  CHECK(n.table.is_sound());
}

TEST_CASE("who was used longest ago leaves first, caches before what is needed", "[store]") {
  store_node n(100 * mib);
  for (object_id one = 1; one <= 8; ++one) REQUIRE(n.make(one, 10 * mib));
  n.table.keep_as_cache(7);
  n.table.keep_as_cache(5);
  REQUIRE(n.pin(7));
  n.table.unpin(7, 0);
  n.finish_all(n.roll);
  REQUIRE(n.evicted.empty());
  for (object_id one = 9; n.evicted.empty(); ++one) REQUIRE(n.make(one, 10 * mib));
  CHECK(n.evicted == std::set<object_id>{5});
  CHECK(n.spills == 0);
  CHECK_FALSE(n.table.is_known(5));
  CHECK_FALSE(n.table.need(5));
  n.table.erase(5);  // as if it had not been known that it left
  CHECK(n.table.need(7));
  for (object_id one = 20; n.spills == 0; ++one) REQUIRE(n.make(one, 10 * mib));
  CHECK(n.evicted.size() == 1);
  CHECK(n.table.is_sound());
}

TEST_CASE("what is on the disk leaves before what is not, but not for ever", "[store]") {
  store_node n(100 * mib);
  for (object_id one = 1; one <= 8; ++one) REQUIRE(n.make(one, 19 * mib));
  const std::uint64_t before = n.spills;
  CHECK(before >= 3);
  for (object_id one = 1; one <= 3; ++one) {
    REQUIRE(n.pin(one));
    n.table.unpin(one, 0);
    n.take();
    n.finish_all(n.roll);
  }
  CHECK(n.spills <= before + 1);  // those that nobody read stayed
  CHECK(n.table.is_sound());
  // Two that are read all the time have the place of those that nobody reads.
  for (object_id i = 0; i < 40; ++i) {
    REQUIRE(n.pin(1 + i % 2));
    n.table.unpin(1 + i % 2, 0);
    n.take();
    n.finish_all(n.roll);
  }
  CHECK(n.table.are_here({1, 2}));
  CHECK(n.table.is_sound());
}

TEST_CASE("large objects are written before their room is needed, and so many only", "[store]") {
  store_node n(160 * mib);
  for (object_id one = 1; one <= 14; ++one) REQUIRE(n.make(one, 10 * mib));
  CHECK(n.spills == 0);
  for (object_id one = 15; one <= 18; ++one) REQUIRE(n.make(one, 10 * mib));
  const std::uint64_t gone = 18 * 10 * mib - n.table.live_bytes();
  CHECK(n.spills * 10 * mib > gone);              // some are here as well
  CHECK(n.spills * 10 * mib <= gone + 30 * mib);  // an eighth, begun
  CHECK(n.table.are_here({18}));
  // Room is there at once.
  const request_id asked = n.ask(19, 10 * mib);
  CHECK(n.granted.contains(asked));
  CHECK(n.table.is_sound());
}

TEST_CASE("what is read stays where it is, and a full store says who reads", "[store]") {
  store_node n(100 * mib);
  std::vector<object_id> all;
  for (object_id one = 1; one <= 9; ++one) {
    REQUIRE(n.make(one, 10 * mib));
    REQUIRE(n.pin(one, one <= 6 ? 3 : 0));
  }
  const request_id asked = n.ask(99, 30 * mib);
  n.finish_all(n.roll);
  CHECK_FALSE(n.granted.contains(asked));
  const auto why = n.table.give_up(asked);
  REQUIRE(why);
  CHECK(why->code() == errc::store_full);
  CHECK_THAT(why->message(), Contains("asked 31457280 bytes; of 104857600 are"));
  CHECK_THAT(why->message(), Contains("94371840 read by 2 holders: 62914560 by worker 3, 31457280 "
                                      "by this process"));
  CHECK_FALSE(n.table.give_up(asked));
  const request_id again = n.ask(100, 30 * mib);
  n.table.holder_gone(3);
  n.take();
  n.finish_all(n.roll);
  CHECK(n.granted.contains(again));
  CHECK(n.refused.empty());
  n.table.create(500, 500, 101 * mib, 0);
  n.take();
  REQUIRE(n.refused.contains(500));
  CHECK_THAT(n.refused.at(500).message(), Contains("the whole store has 104857600"));
  CHECK(n.table.is_sound());
}

TEST_CASE("a disk or a machine without room is waited for", "[store]") {
  store_node n(100 * mib);
  for (object_id one = 1; one <= 9; ++one) REQUIRE(n.make(one, 10 * mib));
  n.is_disk_full = true;
  const request_id asked = n.ask(50, 40 * mib);
  n.finish_all(n.roll);
  REQUIRE_FALSE(n.granted.contains(asked));
  n.is_disk_full = false;
  n.table.retry();
  n.take();
  n.finish_all(n.roll);
  CHECK(n.granted.contains(asked));
  n.write(n.granted.at(asked)[0], 50);
  n.table.seal(50);

  store_node m(100 * mib);
  m.is_memory_short = true;
  const request_id first = m.ask(1, 10 * mib);
  m.finish_all(m.roll);
  CHECK_FALSE(m.granted.contains(first));
  const request_id second = m.ask(2, 10 * mib);
  const auto why = m.table.give_up(second);
  REQUIRE(why);
  CHECK_THAT(why->message(), Contains("this machine has no more memory for it"));
  m.is_memory_short = false;
  m.table.retry();
  m.take();
  m.finish_all(m.roll);
  CHECK(m.granted.contains(first));
}

// Who comes later must not be told why somebody had no room before.
TEST_CASE("what a machine had no memory for is no reason any more when it may have some again",
          "[store]") {
  store_node n(100 * mib);
  REQUIRE(n.make(1, 60 * mib));
  REQUIRE(n.pin(1));
  n.is_memory_short = true;
  const request_id early = n.ask(2, 10 * mib);
  n.finish_all(n.roll);
  CHECK_THAT(n.table.give_up(early)->message(), Contains("this machine has no more memory for it"));
  n.is_memory_short = false;
  n.table.retry();
  static_cast<void>(n.ask(3, 60 * mib));  // waits for the first one
  const request_id behind = n.ask(4, 10 * mib);
  n.finish_all(n.roll);
  const auto why = n.table.give_up(behind);
  REQUIRE(why.has_value());
  CHECK_THAT(why->message(), Contains("raise store_bytes or drop references"));
  CHECK(n.table.is_sound());
}

TEST_CASE("what a machine had no memory for is why until the next try is over", "[store]") {
  store_node n(100 * mib);
  n.is_memory_short = true;
  const request_id asked = n.ask(1, 10 * mib);
  n.finish_all(n.roll);
  n.table.retry();  // asks for it once more
  n.take();
  REQUIRE(n.table.is_reserving());
  const auto why = n.table.give_up(asked);
  REQUIRE(why.has_value());
  CHECK_THAT(why->message(), Contains("this machine has no more memory for it"));
  n.finish_all(n.roll);
  CHECK(n.table.is_sound());
}

TEST_CASE("an object that the disk lost is said to be, to all who ask", "[store]") {
  store_node n(50 * mib);
  for (object_id one = 1; one <= 10; ++one) REQUIRE(n.make(one, 10 * mib));
  n.break_disk();
  const request_id first = n.want({10, 1});
  const request_id second = n.want({1}, 4);
  n.finish_all(n.roll);
  REQUIRE(n.refused.contains(first));
  CHECK(n.refused.at(first).code() == errc::object_lost);
  CHECK(n.refused.contains(second));
  CHECK(n.lost == std::set<object_id>{1});
  CHECK_FALSE(n.table.is_known(1));
  const request_id third = n.want({1});
  CHECK(n.refused.contains(third));
  CHECK(n.pin(10));
  CHECK(n.table.is_sound());
}

TEST_CASE("what a worker made stays when it dies, in segments that go when they are empty",
          "[store]") {
  store_node n(100 * mib);
  const segment_id its = n.worker_segment(8 * mib, 5);
  REQUIRE(its != 0);
  for (object_id one = 1; one <= 4; ++one) {
    const place at{its, (one - 1) * mib, mib};
    n.write(at, one);
    REQUIRE(n.table.add(one, at, 5));
  }
  CHECK_FALSE(n.table.add(9, {its, 0, mib}, 6));             // another's
  CHECK_FALSE(n.table.add(9, {its, 8 * mib - 64, 128}, 5));  // beyond its end
  CHECK_FALSE(n.table.add(9, {its, ~std::uint64_t{0}, 2}, 5));
  CHECK_FALSE(n.table.add(9, {its + 1, 0, mib}, 5));
  const request_id unfinished = n.ask(20, mib, 5);
  n.finish_all(n.roll);
  REQUIRE(n.granted.contains(unfinished));
  REQUIRE(n.pin(2, 5));
  n.table.erase(2);
  n.table.holder_gone(5);
  n.take();
  CHECK_FALSE(n.table.is_known(2));   // its last pin went with it
  CHECK_FALSE(n.table.is_known(20));  // never whole
  CHECK_FALSE(n.table.add(9, {its, 0, mib}, 5));
  CHECK(n.pin(1));
  CHECK(n.segments.contains(its));
  for (const object_id one : {object_id{1}, object_id{3}, object_id{4}}) n.table.erase(one);
  n.table.unpin(1, 0);
  n.take();
  CHECK_FALSE(n.segments.contains(its));
  CHECK(n.table.is_sound());
}

TEST_CASE("a worker's empty segments are asked for when there is no room", "[store]") {
  store_node n(64 * mib);
  const segment_id its = n.worker_segment(48 * mib, 5);
  REQUIRE(its != 0);
  const request_id asked = n.ask(1, 30 * mib);
  n.finish_all(n.roll);
  CHECK_FALSE(n.granted.contains(asked));
  CHECK(n.asked_back == 1);
  n.table.segment_gone(its);
  n.take();
  n.finish_all(n.roll);
  CHECK(n.granted.contains(asked));
  // One that was given to a worker since then is asked for, too.
  n.write(n.granted.at(asked)[0], 1);
  n.table.seal(1);
  REQUIRE(n.pin(1));
  REQUIRE(n.worker_segment(30 * mib, 6) != 0);
  n.ask(2, 20 * mib);
  n.finish_all(n.roll);
  CHECK(n.asked_back == 2);
  n.table.segment_gone(its);  // twice, and one that never was
  n.table.segment_gone(77);
  CHECK(n.table.is_sound());
}

TEST_CASE("a worker's empty segment is its again, unless somebody needs the room", "[store]") {
  store_node n(64 * mib);
  const segment_id its = n.worker_segment(10 * mib, 5);
  REQUIRE(its != 0);
  const place at{its, 0, 64};
  n.write(at, 1);
  REQUIRE(n.table.add_pinned(1, at, 5));
  n.table.segment_kept(its);
  n.take();
  CHECK(n.shelf.empty());  // something lives there
  n.table.erase(1);
  n.table.unpin(1, 0);
  n.take();
  CHECK(n.shelf == std::map<segment_id, holder>{{its, 5}});
  CHECK(n.table.reserved_bytes() == 10 * mib);
  CHECK(n.table.is_sound());
  // The worker takes it, and what it made there goes: it is still the worker's.
  n.shelf.clear();
  n.write(at, 2);
  REQUIRE(n.table.add_pinned(2, at, 5));
  n.table.erase(2);
  n.table.unpin(2, 0);
  n.take();
  CHECK(n.shelf.empty());
  n.table.segment_kept(its);
  n.take();
  CHECK(n.shelf.size() == 1);
  // Others are not evicted for it.
  REQUIRE(n.make(3, 20 * mib));
  REQUIRE(n.make(4, 30 * mib));
  CHECK(n.spills == 0);
  CHECK(n.shelf.size() == 1);
  REQUIRE(n.make(5, 8 * mib));
  CHECK(n.spills == 0);
  CHECK(n.shelf.empty());
  CHECK_FALSE(n.segments.contains(its));
  CHECK(n.table.is_sound());
}

TEST_CASE("workers keep a part of the store and no more, and nothing while somebody waits",
          "[store]") {
  store_node n(64 * mib);
  const segment_id small = n.worker_segment(10 * mib, 5);
  const segment_id large = n.worker_segment(20 * mib, 5);
  n.table.segment_kept(large);
  n.table.segment_kept(small);
  n.table.segment_kept(77);  // never was
  n.take();
  CHECK(n.shelf == std::map<segment_id, holder>{{small, 5}});
  CHECK(n.table.reserved_bytes() == 10 * mib);
  n.shelf.clear();
  REQUIRE(n.make(1, 30 * mib));
  REQUIRE(n.pin(1));
  const request_id asked = n.ask(2, 30 * mib);
  n.finish_all(n.roll);
  CHECK_FALSE(n.granted.contains(asked));
  n.table.segment_kept(small);  // it was taken again, and nothing was made there
  n.take();
  n.finish_all(n.roll);
  CHECK(n.shelf.empty());
  CHECK(n.granted.contains(asked));
  CHECK(n.table.is_sound());
}

TEST_CASE("who waits to restore does not keep others from what is there", "[store]") {
  store_node n(100 * mib);
  for (object_id one = 1; one <= 10; ++one) REQUIRE(n.make(one, 11 * mib));
  for (object_id one = 2; one <= 10; ++one) REQUIRE(n.pin(one));
  const request_id reader = n.want({1});
  n.finish_all(n.roll);
  REQUIRE_FALSE(n.granted.contains(reader));
  const request_id maker = n.ask(99, 1000);
  n.finish_all(n.roll);
  CHECK(n.granted.contains(maker));
  n.table.unpin(2, 0);
  n.take();
  n.finish_all(n.roll);
  CHECK(n.granted.contains(reader));
  CHECK(n.table.is_sound());
}

TEST_CASE("two who want more than there is room for do not hold each other up", "[store]") {
  store_node n(25 * mib);
  for (object_id one = 1; one <= 4; ++one) REQUIRE(n.make(one, 10 * mib));
  REQUIRE(n.pin(1));
  REQUIRE(n.pin(3));
  n.table.unpin(1, 0);
  n.table.unpin(3, 0);
  const request_id first = n.want({1, 2});  // 1 and 3 are here
  const request_id second = n.want({3, 4});
  n.finish_all(n.roll);
  REQUIRE(n.granted.contains(first));
  CHECK_FALSE(n.granted.contains(second));
  n.table.unpin(1, 0);
  n.table.unpin(2, 0);
  n.take();
  n.finish_all(n.roll);
  CHECK(n.granted.contains(second));
  CHECK(n.table.is_sound());
}
