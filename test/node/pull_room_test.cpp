// SPDX-License-Identifier: Apache-2.0
#include "node/pull_room.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include <catch2/catch.hpp>

namespace pull_room_test {

namespace {

using manta::node::array_block;
using manta::node::array_making;
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

}  // namespace pull_room_test
