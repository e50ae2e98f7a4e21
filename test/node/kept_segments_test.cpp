// SPDX-License-Identifier: Apache-2.0
// Segments that a worker may use again, and what it may say of them: nothing that makes its node
// forget what others have.
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

#include "node/array_home.hpp"
#include "node/lent_arrays.hpp"
#include "node/order_line.hpp"

namespace kept_segments_test {

namespace {

using namespace manta;
using namespace manta::node;
using store::descriptor;

constexpr std::uint64_t bytes = 8192;

config small_store() {
  config c;
  c.workers = 1;
  c.store_bytes = 4 << 20;
  c.store_wait_ms = 0;
  c.spill_folder = "none";
  return c;
}

/// A worker of that number, as its node has it, and the memory that it made.
struct maker {
  explicit maker(std::uint64_t number) : worker(number), of(number, &shelf) {
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  }
  ~maker() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  maker(const maker&) = delete;
  maker& operator=(const maker&) = delete;

  std::uint64_t grant() {
    const array_home::stored in = array_home::global().store();
    const auto got = in.in->admit_segment(bytes, static_cast<store::holder>(worker));
    REQUIRE(got.has_value());
    lent_array room;
    room.in = in.in;
    room.granted = *got;
    room.granted_bytes = bytes;
    of.grant(std::move(room), in.key_of(*got));
    return in.key_of(*got);
  }
  void send_file(std::uint64_t key) {
    REQUIRE(of.file_came(key, descriptor(dup(made->file().number()))));
  }
  spec::reference named(std::uint64_t key) const {
    spec::reference out;
    out.what = {array_mark | worker, key};
    out.place = {key, 0, bytes};
    out.kind = spec::reference_kind::array;
    return out;
  }
  bool give_back(std::uint64_t key) {
    std::vector<lent_array> ended;
    return of.give_back(named(key).what, 1, ended);
  }
  /// Whether it is told that the segment is gone.
  bool hears_drop(std::uint64_t key) {
    of.segment_gone(key, ends[0]);
    came_order came;
    return receive_order(ends[1], order_way::at_once, came) == got_order::order &&
           came.order.what == worker_order::kind::drop && came.order.number == key;
  }

  const std::uint64_t worker;
  wire::segment_shelf shelf;
  lent_arrays of;
  result<store::segment> made = store::segment::make(bytes);
  int ends[2] = {-1, -1};
};

std::uint64_t reserved() { return array_home::global().store_if_made()->measure().reserved; }

// An array that was sent to the node, and is gone everywhere.
std::uint64_t kept_one(maker& by) {
  const std::uint64_t key = by.grant();
  by.send_file(key);
  placed_block* const block = by.of.receive(by.named(key));
  REQUIRE(block != nullptr);
  REQUIRE(by.give_back(key));
  CHECK_FALSE(by.shelf.has(key));  // somebody reads it
  block->drop();
  return key;
}

}  // namespace

TEST_CASE("a segment that nobody has any more is its maker's again", "[node][array]") {
  const runtime rt(small_store());
  maker its(7);
  const std::uint64_t key = kept_one(its);
  CHECK(its.shelf.has(key));
  CHECK(reserved() == bytes);
  REQUIRE(its.shelf.take(key));
  REQUIRE(its.made.has_value());
  its.made->bytes()[9] = std::byte{43};
  placed_block* const again = its.of.receive(its.named(key));  // without its descriptor
  REQUIRE(again != nullptr);
  CHECK(again->bytes()[9] == std::byte{43});
  again->drop();
  CHECK_FALSE(its.shelf.has(key));  // the maker has it
  CHECK(its.give_back(key));
  CHECK(its.shelf.has(key));
  CHECK(its.of.leave().size() == 1);
  CHECK(reserved() == 0);
}

TEST_CASE("what lies on the shelf is nobody's array", "[node][array]") {
  const runtime rt(small_store());
  maker its(7);
  maker other(8);
  const std::uint64_t key = kept_one(its);
  CHECK(its.of.receive(its.named(key)) == nullptr);  // it has not taken it
  CHECK_FALSE(its.give_back(key));
  CHECK(other.of.receive(its.named(key)) == nullptr);
  CHECK(other.of.receive(other.named(key)) == nullptr);
  CHECK_FALSE(other.give_back(key));
  its.of.let_go(key);
  other.of.let_go(key);
  CHECK(reserved() == bytes);
  REQUIRE(its.shelf.take(key));
  its.of.let_go(key);
  CHECK(reserved() == 0);
  CHECK(its.hears_drop(key));
  CHECK(its.of.receive(its.named(key)) == nullptr);
  CHECK_FALSE(its.give_back(key));
}

TEST_CASE("a worker that names what is not its own has no effect on others", "[node][array]") {
  const runtime rt(small_store());
  maker its(7);
  maker other(8);
  const std::uint64_t key = its.grant();
  its.send_file(key);
  placed_block* const block = its.of.receive(its.named(key));
  REQUIRE(block != nullptr);
  CHECK(other.shelf.put(key));
  CHECK(other.shelf.put(key ^ 1U));
  CHECK(other.shelf.put(~std::uint64_t{0}));
  {
    // There would be room if that segment were taken back.
    const auto large = array_home::global().store().in->make(4 << 20);
    CHECK_FALSE(large.has_value());
    CHECK_FALSE(other.shelf.has(key));
    CHECK(array_home::global().store().in->locate(block->object().id).view != nullptr);
  }
  CHECK(reserved() >= bytes);
  block->drop();
  CHECK(its.give_back(key));
  CHECK(its.shelf.has(key));
}

TEST_CASE("what was never sent is taken back from the shelf, and its maker is told",
          "[node][array]") {
  const runtime rt(small_store());
  maker its(7);
  const std::uint64_t key = its.grant();
  CHECK(its.shelf.put(key));
  const auto large = array_home::global().store().in->make(4 << 20);
  CHECK(large.has_value());
  CHECK_FALSE(its.shelf.has(key));
  CHECK(its.hears_drop(key));
  CHECK_FALSE(its.give_back(key));
  CHECK(its.of.leave().empty());
}

TEST_CASE("a worker that has no use for what was never sent says so", "[node][array]") {
  const runtime rt(small_store());
  maker its(7);
  const std::uint64_t key = its.grant();
  CHECK(its.shelf.put(key));
  its.of.let_go(key);
  CHECK(reserved() == bytes);  // it lies there still
  REQUIRE(its.shelf.take(key));
  its.of.let_go(key);
  CHECK(reserved() == 0);
  CHECK(its.of.leave().empty());
}

TEST_CASE("what a worker does not use for a while goes, what it uses stays", "[node][array]") {
  const runtime rt(small_store());
  maker its(7);
  const std::uint64_t key = kept_one(its);
  array_home& home = array_home::global();
  base::time_point now = base::now();
  its.shelf.note_use();
  home.tidy_shelves(now += std::chrono::seconds(5));
  CHECK(its.shelf.has(key));
  home.tidy_shelves(now);  // too soon to say
  CHECK(its.shelf.has(key));
  home.tidy_shelves(now + std::chrono::seconds(5));
  CHECK_FALSE(its.shelf.has(key));
  CHECK(reserved() == 0);
}

TEST_CASE("a full shelf takes no more, and a segment without a place goes", "[node][array]") {
  const runtime rt(small_store());
  maker its(7);
  for (std::size_t i = 1; i <= wire::segment_shelf::places; ++i) CHECK(its.shelf.put(i));
  CHECK_FALSE(its.shelf.put(99));
  kept_one(its);
  CHECK(reserved() == 0);
  CHECK(its.shelf.take(5));
  CHECK_FALSE(its.shelf.take(5));
  CHECK(its.shelf.put(99));
}

}  // namespace kept_segments_test
