// SPDX-License-Identifier: Apache-2.0
#include "node/pull_room.hpp"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <catch2/catch.hpp>

#include <manta/manta.hpp>

#include "node/array_home.hpp"
#include "node/beside_store.hpp"

namespace pull_room_test {

namespace {

using manta::node::array_block;
using manta::node::array_making;
using manta::node::beside_store;
using manta::node::pull_room;

// The owner of the memory; it says when that goes.
using memory = std::shared_ptr<std::array<std::byte, 64>>;

class owning_block final : public array_block {
 public:
  explicit owning_block(memory own) : array_block(std::span(*own)), own_(std::move(own)) {}

 private:
  void end() noexcept override { delete this; }
  memory own_;
};

class owning_making final : public array_making {
 public:
  explicit owning_making(memory own) : array_making(std::span(*own)), own_(std::move(own)) {}
  array_block* seal() override { return new owning_block(std::move(own_)); }

 private:
  memory own_;
};

struct party {
  memory own = std::make_shared<memory::element_type>();
  std::weak_ptr<memory::element_type> weak = own;
  std::shared_ptr<pull_room> room =
      std::make_shared<pull_room>(std::make_unique<owning_making>(std::exchange(own, nullptr)));
};

}  // namespace

TEST_CASE("who sends from an array that its reader has dropped has its memory", "[node][copies]") {
  party p;
  const std::shared_ptr<void> sends = p.room;
  p.room->seal()->drop();
  p.room.reset();
  CHECK_FALSE(p.weak.expired());
}

TEST_CASE("the memory of an array that came goes with its reader and who sends from it",
          "[node][copies]") {
  party p;
  std::shared_ptr<void> sends = p.room;
  array_block* const read = p.room->seal();
  CHECK(read->bytes().data() == p.room->bytes().data());
  p.room.reset();
  sends.reset();
  CHECK_FALSE(p.weak.expired());
  read->drop();
  CHECK(p.weak.expired());
}

TEST_CASE("the memory of an array that did not come goes with its room", "[node][copies]") {
  party p;
  p.room.reset();
  CHECK(p.weak.expired());
}

namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t mib = std::uint64_t{1} << 20U;

manta::config small_store() {
  manta::config c;
  c.workers = 1;
  c.store_bytes = 4 << 20;
  c.store_wait_ms = 0;
  c.spill_folder = "none";
  return c;
}

// As who reads one asks at first, and where what rests may go to a disk.
std::unique_ptr<array_making> read_room_of(std::uint64_t bytes, bool is_for_store = false) {
  return manta::node::make_read_array(
      bytes, {.line_end = manta::base::after(5ms), .is_for_store = is_for_store});
}

template <class Make>
bool has_room(Make&& make) {
  try {
    return make(2 * mib) != nullptr;
  } catch (const manta::store_full&) {
    return false;
  }
}
bool is_read(std::uint64_t bytes) {
  return has_room([bytes](std::uint64_t) { return read_room_of(bytes); });
}
bool has_room_for_two() {
  return has_room([](std::uint64_t n) { return read_room_of(n); });
}
bool takes_two() { return has_room(manta::node::make_taken_array); }

}  // namespace

TEST_CASE("what is fetched and has no room lies beside the store, as much as that may have",
          "[node][copies]") {
  const manta::runtime rt(small_store());
  CHECK(takes_two());
  const auto in_store = manta::node::make_array_room(3 * mib);
  CHECK_FALSE(takes_two());
  CHECK_FALSE(has_room([](std::uint64_t n) { return read_room_of(n, true); }));
  auto making = read_room_of(2 * mib);
  array_block* const beside = making->seal();
  making.reset();
  CHECK(beside->is_copied());
  CHECK(has_room_for_two());
  auto other = read_room_of(2 * mib);
  CHECK_FALSE(has_room_for_two());
  beside->drop();
  CHECK(has_room_for_two());
  // What came with a message counts, and is not refused.
  const auto came = manta::node::make_array_copy(2 * mib);
  CHECK_FALSE(has_room_for_two());
  CHECK(has_room(manta::node::make_array_copy));
}

TEST_CASE("an array that is larger than the store lies beside it alone", "[node][copies]") {
  const manta::runtime rt(small_store());
  {
    const auto large = read_room_of(9 * mib);
    CHECK(large->bytes().size() == 9 * mib);
    CHECK_THROWS_AS(read_room_of(9 * mib), manta::store_full);
  }
  CHECK(is_read(9 * mib));
  // What came with a message does not keep it out.
  const auto in_store = manta::node::make_array_room(3 * mib);
  const auto came = manta::node::make_array_copy(2 * mib);
  CHECK(is_read(9 * mib));
}

TEST_CASE("what lies beside the store alone is as much as the machine has memory for",
          "[node][copies]") {
  constexpr std::uint64_t most = 4 * mib;
  const auto poor = [] { return static_cast<std::int64_t>(74 * mib); };  // 10 beyond what is left
  CHECK(beside_store::take(10 * mib, most, poor).has_value());
  CHECK_FALSE(beside_store::take(10 * mib + 1, most, poor).has_value());
  // No machine is asked for what a store may have there.
  const auto unasked = []() -> std::int64_t { return 0; };
  auto some = beside_store::take(3 * mib, most, unasked);
  REQUIRE(some.has_value());
  CHECK_FALSE(beside_store::take(2 * mib, most, poor).has_value());
  CHECK(beside_store::take(mib, most, unasked).has_value());
  some.reset();
  CHECK(beside_store::take(4 * mib, most, unasked).has_value());
}

// The machine has less than that, however much it has.
TEST_CASE("an array that the machine has no memory for is store_full", "[node][copies]") {
  const manta::runtime rt(small_store());
  const auto whole = static_cast<std::uint64_t>(manta::base::usable_memory());
  CHECK_THROWS_WITH(read_room_of(2 * whole),
                    Catch::Matchers::Contains("as far as the machine has memory"));
  CHECK(is_read(9 * mib));
}

TEST_CASE("who reads where no store can be opened has its arrays beside it, of several, too",
          "[node][copies]") {
  manta::config c = small_store();
  c.spill_folder = "/nowhere/at/all";
  const manta::runtime rt(c);
  beside_store none;
  const auto got = manta::node::make_read_array(
      2 * mib, {.line_end = manta::base::after(5ms), .is_for_store = true, .kept = &none});
  CHECK(got->bytes().size() == 2 * mib);
}

}  // namespace pull_room_test
