// SPDX-License-Identifier: Apache-2.0
#include "node/pull_room.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <catch2/catch.hpp>

#include <manta/manta.hpp>

#include "node/array_home.hpp"

namespace pull_room_test {

namespace {

using manta::node::array_block;
using manta::node::array_making;
using manta::node::make_fetched_array;
using manta::node::pull_room;
using manta::node::room_in;

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

constexpr std::uint64_t mib = std::uint64_t{1} << 20U;

manta::config small_store() {
  manta::config c;
  c.workers = 1;
  c.store_bytes = 4 << 20;
  c.store_wait_ms = 0;
  c.spill_folder = "none";
  return c;
}

bool has_room_for_two(room_in where) {
  try {
    return make_fetched_array(2 * mib, where) != nullptr;
  } catch (const manta::store_full&) {
    return false;
  }
}

}  // namespace

TEST_CASE("what is fetched and has no room lies beside the store, as much as that may have",
          "[node][copies]") {
  const manta::runtime rt(small_store());
  CHECK(has_room_for_two(room_in::store_now));
  const auto in_store = manta::node::make_array_room(3 * mib);
  CHECK_FALSE(has_room_for_two(room_in::store_now));
  auto making = make_fetched_array(2 * mib, room_in::store);
  array_block* const beside = making->seal();
  making.reset();
  CHECK(beside->is_copied());
  CHECK(has_room_for_two(room_in::store_or_beside));
  auto other = make_fetched_array(2 * mib, room_in::store);
  CHECK_FALSE(has_room_for_two(room_in::store));
  CHECK_FALSE(has_room_for_two(room_in::store_or_beside));
  beside->drop();
  CHECK(has_room_for_two(room_in::store));
  // What came with a message counts, and is not refused.
  const auto came = manta::node::make_array_copy(2 * mib);
  CHECK_FALSE(has_room_for_two(room_in::store));
  CHECK(has_room_for_two(room_in::any));
}

TEST_CASE("an array that is larger than the store lies beside it alone", "[node][copies]") {
  const manta::runtime rt(small_store());
  {
    const auto large = make_fetched_array(9 * mib, room_in::store);
    CHECK(large->bytes().size() == 9 * mib);
    CHECK_THROWS_AS(make_fetched_array(9 * mib, room_in::store), manta::store_full);
  }
  CHECK(make_fetched_array(9 * mib, room_in::store) != nullptr);
  // What came with a message does not keep it out.
  const auto in_store = manta::node::make_array_room(3 * mib);
  const auto came = manta::node::make_array_copy(2 * mib);
  CHECK(make_fetched_array(9 * mib, room_in::store) != nullptr);
}

}  // namespace pull_room_test
