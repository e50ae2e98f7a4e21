// SPDX-License-Identifier: Apache-2.0
#include "sched/link_paces.hpp"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>

#include <catch2/catch.hpp>

#include <manta/base/clock.hpp>

#include "exec/support.hpp"

namespace link_paces_test {

using manta::sched::arrivals;
using manta::sched::byte_pace;
using manta::sched::is_telling;
using manta::sched::least_telling;
using manta::sched::link_paces;
using manta::sched::moved_bytes;
using manta::sched::time_to_move;
using manta::sched::transfer;
using manta_test::dice;
using manta_test::run_seed;
using namespace std::chrono_literals;

constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
constexpr manta::base::time_point start{1h};

TEST_CASE("a message of a MiB tells of its link, and one of 4 KiB asks nobody", "[sched]") {
  using manta::sched::is_short_message;
  using manta::sched::is_telling_message;
  CHECK_FALSE(is_telling_message(0));
  CHECK_FALSE(is_telling_message(mib - 1));
  CHECK(is_telling_message(mib));
  CHECK(is_short_message(0));
  CHECK(is_short_message(4096));
  CHECK_FALSE(is_short_message(4097));
}

TEST_CASE("what bytes take is their number times what one does", "[sched]") {
  CHECK(time_to_move(0) == 0ns);
  CHECK(time_to_move(1000) == 1us);
  CHECK(time_to_move(1000, {100}) == 100us);
  CHECK(time_to_move(1, {0.01}) == 1ns);  // what has to come takes some time
  const auto longest = time_to_move(UINT64_MAX);
  CHECK(longest + longest > longest);
  CHECK(time_to_move(UINT64_MAX, {100'000}) == longest);
  moved_bytes both;
  CHECK(both.pace() == byte_pace{});
  both.add(3 * mib, {1});
  both.add(mib, {9});
  CHECK(both.bytes() == 4 * mib);
  CHECK(both.pace().ns == Approx(3));
  both.add(UINT64_MAX, {1});
  CHECK(both.bytes() == UINT64_MAX);
}

TEST_CASE("what comes is measured while it is under way", "[sched]") {
  arrivals all;
  all.begins(2, start);
  CHECK_FALSE(all.came(2, 4 * mib, start + 4ms).has_value());
  const auto whole = all.ends(2, start + 8ms);
  REQUIRE(whole.has_value());
  CHECK((whole->bytes == 4 * mib && whole->took == 8ms));
  // Of several at once all together, until the last has ended; nobody's time between.
  all.begins(2, start + 1s);
  all.begins(2, start + 1s + 1ms);
  all.begins(3, start + 1s);
  CHECK_FALSE(all.came(2, mib, start + 1s + 2ms).has_value());
  CHECK_FALSE(all.ends(2, start + 1s + 3ms).has_value());
  CHECK_FALSE(all.came(2, mib, start + 1s + 4ms).has_value());
  const auto both = all.ends(2, start + 1s + 4ms);
  REQUIRE(both.has_value());
  CHECK((both->bytes == 2 * mib && both->took == 4ms));
  // What takes long is told meanwhile, each part once.
  CHECK_FALSE(all.came(3, least_telling - 1, start + 2s).has_value());
  const auto first = all.came(3, 1, start + 2s);
  REQUIRE(first.has_value());
  CHECK((first->bytes == least_telling && first->took == 1s));
  CHECK_FALSE(all.came(3, 8 * mib, start + 2s + 49ms).has_value());
  const auto next = all.came(3, 8 * mib, start + 2s + 50ms);
  REQUIRE(next.has_value());
  CHECK((next->bytes == 16 * mib && next->took == 50ms));
  CHECK_FALSE(all.ends(3, start + 3s).has_value());  // nothing came since
  // What came by a way that was given up does not count.
  all.begins(2, start);
  CHECK_FALSE(all.came(2, mib, start + 1ms).has_value());
  all.begins_again(2, start + 3s);
  CHECK_FALSE(all.came(2, 2 * mib, start + 3s + 1ms).has_value());
  const auto again = all.ends(2, start + 3s + 2ms);
  REQUIRE(again.has_value());
  CHECK((again->bytes == 2 * mib && again->took == 2ms));
  all.begins_again(4, start);  // of which nothing is fetched
  CHECK_FALSE(all.ends(4, start + 1s).has_value());
}

TEST_CASE("what was not begun, or brings nothing, is not measured", "[sched]") {
  arrivals all;
  CHECK_FALSE(all.came(2, mib, start).has_value());
  CHECK_FALSE(all.ends(2, start).has_value());
  all.begins(2, start);
  CHECK_FALSE(all.ends(2, start + 1s).has_value());
  all.begins(2, start);
  CHECK_FALSE(all.came(2, mib, start).has_value());
  CHECK_FALSE(all.ends(2, start).has_value());  // in no time
  all.begins(2, start);
  CHECK_FALSE(all.came(2, UINT64_MAX, start + 1s).has_value());
  CHECK_FALSE(all.came(2, UINT64_MAX, start + 2s).has_value());
  all.begins(3, start);
  all.came(3, mib, start + 1ms);
  all.begins(4, start);
  all.came(4, mib, start + 1ms);
  all.forget(4);
  CHECK_FALSE(all.ends(4, start + 2ms).has_value());
  all.clear();
  CHECK_FALSE(all.ends(3, start + 2ms).has_value());
}

TEST_CASE("of a link of which nothing is known the usual is taken", "[sched]") {
  link_paces all;
  CHECK(all.is_empty());
  CHECK(all.of({0, 2}, start) == byte_pace{});
  CHECK(all.of({2, 3}, start) == byte_pace{});
  all.saw({2, 0}, {mib, 100 * 1ms}, start);
  CHECK_FALSE(all.is_empty());
  CHECK(all.of({3, 0}, start) == byte_pace{});
  all.lost(2);
  CHECK(all.is_empty());
  all.saw({0, 2}, {mib, 100 * 1ms}, start);
  all.clear();
  CHECK(all.of({0, 2}, start) == byte_pace{});
}

TEST_CASE("some transfers make a slow link slow, and a fast one fast", "[sched]") {
  for (const double ns : {200.0, 0.2}) {
    CAPTURE(ns);
    link_paces all;
    for (int i = 0; i < 10; ++i) {
      all.saw({2, 0}, {8 * mib, manta::duration(static_cast<std::int64_t>(8 * mib * ns))}, start);
    }
    CHECK(all.of({2, 0}, start).ns == Approx(ns).epsilon(0.01));
    // The other way round nothing else is known.
    CHECK(all.of({0, 2}, start).ns == Approx(ns).epsilon(0.01));
  }
  // One is enough to be careful; and one that is small says less than one that is large.
  link_paces small;
  small.saw({2, 0}, {least_telling, manta::duration(200 * least_telling)}, start);
  link_paces large;
  large.saw({2, 0}, {64 * mib, manta::duration(200 * 64 * mib)}, start);
  CHECK(small.of({2, 0}, start).ns > 4);
  CHECK(large.of({2, 0}, start).ns > 2 * small.of({2, 0}, start).ns);
}

TEST_CASE("one pause makes no link slow for minutes, and three slow transfers do", "[sched]") {
  link_paces all;
  for (int i = 0; i < 10; ++i) all.saw({2, 0}, {8 * mib, manta::duration(8 * mib)}, start);
  all.saw({2, 0}, {4 * mib, 30s}, start);
  CHECK(all.of({2, 0}, start).ns < 15);
  for (int i = 0; i < 3; ++i) all.saw({2, 0}, {4 * mib, manta::duration(500 * 4 * mib)}, start);
  CHECK(all.of({2, 0}, start).ns > 200);
}

TEST_CASE("each way of a link is its own, and others' is the slower of ours", "[sched]") {
  link_paces all;
  const auto measure = [&](manta::sched::link on, int ns) {
    for (int i = 0; i < 20; ++i) {
      all.saw(on, {64 * mib, manta::duration(static_cast<std::int64_t>(64 * mib) * ns)}, start);
    }
  };
  measure({0, 2}, 10);
  measure({2, 0}, 40);
  measure({3, 0}, 20);
  const auto of = [&](std::uint64_t from, std::uint64_t to) {
    return all.of({from, to}, start).ns;
  };
  CHECK(of(0, 2) == Approx(10));
  CHECK(of(2, 0) == Approx(40));
  CHECK(of(0, 3) == Approx(20));
  CHECK(of(2, 3) == Approx(40));
  CHECK(of(3, 2) == Approx(20));
  CHECK(of(4, 2) == Approx(10));
  CHECK(of(4, 5) == byte_pace{}.ns);
  all.lost(2);
  CHECK(of(2, 3) == Approx(20));
  CHECK(of(0, 2) == byte_pace{}.ns);
}

TEST_CASE("what was long ago counts for little", "[sched]") {
  link_paces all;
  for (int i = 0; i < 20; ++i) all.saw({2, 0}, {64 * mib, manta::duration(64 * mib * 100)}, start);
  const auto after = [&](manta::duration time) { return all.of({2, 0}, start + time).ns; };
  CHECK(after(0s) == Approx(100));
  CHECK(after(1min) == Approx(10));
  CHECK(after(2min) == Approx(std::sqrt(10)));
  CHECK(after(1h) == Approx(1));
  CHECK(all.of({2, 0}, start - 1s).ns == Approx(100));
  // So is it what a new sample is added to.
  all.saw({2, 0}, {8 * mib, manta::duration(8 * mib * 2)}, start + 1min);
  CHECK(after(1min) == Approx(6));
}

TEST_CASE("samples that can't be change nothing", "[sched]") {
  constexpr std::uint64_t pib = std::uint64_t{1} << 50U;
  const transfer nonsense[] = {
      {0, 0ns},
      {0, 1ms},
      {mib, 0ns},
      {mib, -1ns},
      {UINT64_MAX, 1ms},
      {pib + 1, 1h},
      {mib, 1h + 1ns},
      {least_telling - 1, 1ms},
      {UINT64_MAX, manta::duration::max()},
      {mib, manta::duration::min()},
  };
  link_paces all;
  for (const transfer& one : nonsense) {
    CAPTURE(one.bytes, one.took.count());
    CHECK_FALSE(is_telling(one));
    all.saw({2, 0}, one, start);
  }
  CHECK(all.is_empty());
  // What could be is kept within what there is.
  for (int i = 0; i < 50; ++i) all.saw({2, 0}, {pib, 1ns}, start);
  CHECK(all.of({2, 0}, start).ns == Approx(0.01));
  for (int i = 0; i < 50; ++i) all.saw({2, 0}, {least_telling, 1h}, start);
  CHECK(all.of({2, 0}, start).ns <= 100'000);
  CHECK(all.of({2, 0}, start).ns > 50'000);
}

// Against the plain average of all that was ever seen there, for links whose pace is the same.
TEST_CASE("random transfers of steady links find what they are", "[sched]") {
  dice random(run_seed());
  CAPTURE(run_seed());
  link_paces all;
  std::map<std::uint64_t, double> is;
  for (std::uint64_t node = 2; node < 12; ++node) {
    is[node] = std::pow(10.0, static_cast<double>(random.below(5)) - 1);
  }
  arrivals comes;
  manta::base::time_point now = start;
  for (int i = 0; i < 4000; ++i) {
    const std::uint64_t node = 2 + random.below(10);
    const std::uint64_t bytes = least_telling + random.below(16 * mib);
    // The time of a link is its bytes' and up to a tenth more.
    const double noise = 1 + static_cast<double>(random.below(100)) / 1000;
    const auto takes =
        manta::duration(static_cast<std::int64_t>(static_cast<double>(bytes) * is[node] * noise));
    comes.begins(node, now);
    const auto part = comes.came(node, bytes, now + takes);
    const auto rest = comes.ends(node, now + takes);
    REQUIRE((part.has_value() != rest.has_value()));
    all.saw({node, 0}, part.has_value() ? *part : *rest, now);
    now += 1ms;
  }
  for (const auto& [node, ns] : is) {
    CAPTURE(node, ns);
    CHECK(all.of({node, 0}, now).ns > ns * 0.9);
    CHECK(all.of({node, 0}, now).ns < ns * 1.2);
  }
}

}  // namespace link_paces_test
