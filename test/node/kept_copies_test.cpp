// SPDX-License-Identifier: Apache-2.0
#include "node/kept_copies.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "own/copy_limits.hpp"

namespace kept_copies_test {

namespace {

using manta::base::id;
using manta::base::time_point;
using manta::node::array_block;
using manta::node::kept_copies;
using limits = manta::own::copy_limits;
using namespace std::chrono_literals;

// Ten bytes; says when nobody holds it any more.
class ten_bytes final : public array_block {
 public:
  explicit ten_bytes(bool& ended) noexcept : array_block(some_), ended_(ended) {}

 private:
  void end() noexcept override {
    ended_ = true;
    delete this;
  }
  static constexpr std::array<std::byte, 10> some_{};
  bool& ended_;
};

struct copy {
  bool has_ended = false;
  ten_bytes* block = new ten_bytes(has_ended);
  // Who had it here has dropped it.
  void let_go() { std::exchange(block, nullptr)->drop(); }
  ~copy() {
    if (block != nullptr) block->drop();
  }
};

constexpr time_point start = time_point(1h);
constexpr id first{1, 1};
constexpr id second{1, 2};

bool finds(kept_copies& in, const id& of, time_point now) {
  array_block* const found = in.find(of, now);
  if (found != nullptr) found->drop();
  return found != nullptr;
}

}  // namespace

TEST_CASE("a copy that others were told of stays until they have asked for none of it for long",
          "[node][copies]") {
  copy one;
  kept_copies all;
  REQUIRE(all.keep(first, *one.block, start, 100));
  one.let_go();
  CHECK_FALSE(finds(all, second, start));
  CHECK(finds(all, first, start + 5s));
  const time_point due = start + 5s + limits::kept_for_others;
  CHECK(all.sweep(due - 1ms) == due);
  CHECK_FALSE(one.has_ended);
  CHECK_FALSE(all.sweep(due).has_value());
  CHECK(one.has_ended);
  CHECK_FALSE(finds(all, first, due));
}

TEST_CASE("a copy for which there is no room is refused and none goes for it", "[node][copies]") {
  copy one;
  copy other;
  copy later;
  kept_copies all;
  REQUIRE(all.keep(first, *one.block, start, 19));
  CHECK_FALSE(all.keep(second, *other.block, start + 1s, 19));
  CHECK(all.keep(first, *one.block, start + 2s, 19));  // which is there: told once more
  one.let_go();
  other.let_go();
  CHECK(other.has_ended);
  CHECK_FALSE(one.has_ended);
  CHECK(all.sweep(start + 3s) == start + 2s + limits::kept_for_others);
  all.clear();
  CHECK(one.has_ended);
  CHECK(all.keep(second, *later.block, start, 10));
  CHECK_FALSE(all.keep(first, *later.block, start, 9));
}

TEST_CASE("so many copies are kept for others and no more", "[node][copies]") {
  copy one;
  kept_copies all;
  constexpr std::uint64_t most = 100 * limits::most_for_others;
  for (std::uint64_t i = 0; i < limits::most_for_others; ++i) {
    REQUIRE(all.keep({2, i}, *one.block, start, most));
  }
  CHECK_FALSE(all.keep(first, *one.block, start, most));
  CHECK_FALSE(all.sweep(start + limits::kept_for_others).has_value());
  CHECK(all.keep(first, *one.block, start, most));
  one.let_go();
  CHECK_FALSE(one.has_ended);
}

}  // namespace kept_copies_test
