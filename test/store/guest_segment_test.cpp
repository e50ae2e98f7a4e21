// SPDX-License-Identifier: Apache-2.0
// Objects that lie in segments of workers: read there, spilled from there, back in the store's own
// memory; and what these segments count.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>

#include <catch2/catch.hpp>

#include "constants.hpp"
#include "folder.hpp"
#include "store/object_store.hpp"

namespace guest_segment_test {

namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using manta::errc;
using manta::store::descriptor;
using manta::store::object_id;
using manta::store::object_store;
using manta::store::reading;
using manta::store::segment;
using manta::store::segment_id;
using manta::store::segment_view;
using manta_test::mib;

constexpr manta::store::holder worker = 7;

std::unique_ptr<object_store> opened(object_store::settings with) {
  auto made = object_store::open(std::move(with));
  if (!made) FAIL(made.error().message());
  return *std::move(made);
}

/// A worker's segment of a MiB, all bytes `value`, and the node's view of it.
struct guest {
  segment own;
  std::shared_ptr<const segment_view> view;

  explicit guest(int value) : own(*segment::make(mib)) {
    std::ranges::fill(own.bytes(), static_cast<std::byte>(value));
    view = std::make_shared<const segment_view>(
        *segment_view::map(descriptor(fcntl(own.file().number(), F_DUPFD_CLOEXEC, 0))));
  }
};

segment_id admitted(object_store& to) {
  auto got = to.admit_segment(mib, worker);
  if (!got) FAIL(got.error().message());
  return *got;
}

/// An object that fills a new segment, which the worker has no more and nobody reads.
object_id adopted(object_store& by, int value) {
  const segment_id number = admitted(by);
  const guest made(value);
  object_id id = 0;
  {
    std::optional<reading> reads = by.adopt({number, 0, mib}, worker, made.view);
    REQUIRE(reads);
    CHECK(reads->bytes()[5] == static_cast<std::byte>(value));
    id = reads->id();
  }
  by.segment_gone(number);
  return id;
}

bool is_all(const reading& what, int value) {
  return std::ranges::all_of(what.bytes(),
                             [value](std::byte b) { return b == static_cast<std::byte>(value); });
}

}  // namespace

TEST_CASE("what workers made is spilled from their segments, and comes back", "[store]") {
  const manta_test::folder disk;
  std::vector<segment_id> gone;
  const auto s = opened({.bytes = 4 * mib,
                         .spill_folder = disk.path().string(),
                         .wait = 10s,
                         .warm_bytes = 0,
                         .on_segment_gone = [&gone](segment_id one) { gone.push_back(one); }});
  std::vector<object_id> all;
  for (int i = 0; i < 12; ++i) {
    // A worker asks again while room is made.
    const auto end = std::chrono::steady_clock::now() + 30s;
    while (!s->admit_segment(mib, worker + 1)) REQUIRE(std::chrono::steady_clock::now() < end);
    s->holder_gone(worker + 1);
    all.push_back(adopted(*s, i));
  }
  CHECK(s->measure().spilled >= 8 * mib);
  CHECK(s->measure().reserved <= 4 * mib);
  CHECK(gone.size() >= 8);
  for (int i = 0; i < 12; ++i) {
    auto got = s->read({all[static_cast<std::size_t>(i)]});
    REQUIRE(got);
    CHECK(is_all(got->front(), i));
    CHECK(s->try_read({all[static_cast<std::size_t>(i)]}));
    // It is in memory of the store or of a worker, and can be told apart.
    const auto at = s->locate(all[static_cast<std::size_t>(i)]);
    CHECK((at.in == nullptr) != (at.view == nullptr));
  }
  for (const object_id one : all) s->erase(one);
  CHECK(s->measure().live == 0);
}

TEST_CASE("what is on the disk can't be had at once", "[store]") {
  const manta_test::folder disk;
  const auto s = opened({.bytes = 2 * mib, .spill_folder = disk.path().string(), .wait = 10s});
  std::vector<object_id> all;
  for (int i = 0; i < 6; ++i) {
    auto made = s->make(mib);
    REQUIRE(made);
    made->bytes()[0] = static_cast<std::byte>(i);
    all.push_back((*std::move(made)).seal());
  }
  CHECK_FALSE(s->try_read({all[0]}));
  CHECK_FALSE(s->try_read({all[5], all[0]}));
  CHECK_FALSE(s->try_read({object_id{12345}}));
  auto got = s->read({all[0]});
  REQUIRE(got);
  CHECK(got->front().bytes()[0] == std::byte{0});
  CHECK(s->try_read({all[0], all[0]}));
}

TEST_CASE("a place that is not in a worker's segment, or not mapped, is refused", "[store]") {
  const auto s = opened({.bytes = 4 * mib});
  const segment_id number = admitted(*s);
  const guest made(1);
  CHECK_FALSE(s->adopt({number, 0, 2 * mib}, worker, made.view));
  CHECK_FALSE(s->adopt({number, mib, 64}, worker, made.view));
  CHECK_FALSE(s->adopt({number, 0, mib}, worker + 1, made.view));
  CHECK_FALSE(s->adopt({number + 1, 0, mib}, worker, made.view));
  const auto small = std::make_shared<const segment_view>(*segment_view::map(
      descriptor(fcntl(segment::make(4096)->file().number(), F_DUPFD_CLOEXEC, 0))));
  CHECK_FALSE(s->adopt({number, 0, mib}, worker, small));
  CHECK(s->adopt({number, 0, mib}, worker, made.view));
}

TEST_CASE("workers' segments are in the quota", "[store]") {
  const manta_test::folder where;
  const std::string folder = (where.path() / "quota").string();
  const object_store::settings with{.bytes = 8 * mib,
                                    .quota_folder = folder,
                                    .quota_bytes = 3 * mib,
                                    .wait = 0ms,
                                    .warm_bytes = 0};
  const auto a = opened(with);
  const auto b = opened(with);
  const segment_id first = admitted(*a);
  admitted(*a);
  admitted(*b);
  const auto refused = b->admit_segment(mib, worker);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == errc::store_full);
  CHECK_THAT(refused.error().message(), Contains("stores of this user on this machine"));
  CHECK(b->measure().reserved == mib);  // what was refused is not counted
  a->segment_gone(first);
  admitted(*b);
  CHECK_FALSE(a->admit_segment(mib, worker));
  b->holder_gone(worker);
  admitted(*a);
  admitted(*a);
}

}  // namespace guest_segment_test
