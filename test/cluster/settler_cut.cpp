// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp that go on while the network of rank-1 is cut for a moment, until the
// test says that it is healed.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/settling.hpp"
#include "node/array_home.hpp"

namespace settling {

namespace {

// What one of them has done, and how long the longest part of it took.
struct passage {
  long rounds = 0;
  bool is_whole = true;
  double longest_s = 0;
};

// Does one round after the other until the network is healed, and some more.
template <class Round, class Over>
passage through_cut(Round round, Over is_over) {
  passage out;
  for (int left = 5; left > 0;) {
    const auto start = std::chrono::steady_clock::now();
    if (is_over()) --left;  // which may ask over the cut, too
    out.is_whole = round(out.rounds++) && out.is_whole;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    out.longest_s = std::max(out.longest_s, took.count());
  }
  return out;
}

constexpr int calls_a_round = 20;

// Each round's calls are under way together; every other one tells whether it came in its order.
passage calls_through(const manta::actor<counter>& to, int caller) {
  int number = 0;
  return through_cut(
      [&](long /*round*/) {
        std::vector<manta::future<bool>> in_order;
        std::vector<manta::future<long>> added;
        for (int i = 0; i < calls_a_round; ++i) {
          in_order.push_back(manta::remote<&counter::next>(to, caller, ++number));
          added.push_back(manta::remote<&counter::add>(to, 1L));
        }
        bool is = true;
        for (const auto& one : in_order) is = one.get(long_enough) && is;
        for (const auto& one : added) is = one.get(long_enough) > 0 && is;
        return is;
      },
      [] { return manta::kv::get<int>("healed").get(long_enough).has_value(); });
}

void expect_whole(const passage& of, const std::string& whose) {
  expect(of.is_whole, whose + " were not whole, or in their order");
  std::printf("%s: %ld rounds, the longest %.3f s\n", whose.c_str(), of.rounds, of.longest_s);
}

// The fault is so long at least that who was at it has seen it.
constexpr double seen_s = 1;

constexpr std::size_t cut_count = std::size_t{2} << 20U;  // 16 MiB
counted_words cut_words_from(std::uint64_t from) { return counted_from(cut_count, from); }
bool are_cut_words(const counted_words& all, std::uint64_t from) {
  return are_counted(all, cut_count, from);
}
std::uint64_t bytes_fetched() { return manta::node::fetched_array_bytes(); }

void say_cut_off() {
  std::printf("may be cut\n");
  std::fflush(stdout);
}

}  // namespace

// Calls over the cut, from here, from a third node, and from behind it.
int cut_calls(const manta::runtime& /*rt*/) {
  listen_to_test();
  const auto far = one_at("rank-1");
  const auto near = one_at("rank-0");
  auto third = manta::remote<calls_through>.with(at("rank-2"))(far, 1);
  auto behind = manta::remote<calls_through>.with(at("rank-1"))(near, 2);
  // The cut is to find calls.
  while (manta::remote<&counter::add>(far, 0L).get(long_enough) == 0 ||
         manta::remote<&counter::add>(near, 0L).get(long_enough) == 0) {
  }
  say_cut_off();
  std::thread word([] {
    const auto limit = std::chrono::steady_clock::now() + long_enough;
    while (is_told == 0 && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(1ms);  // the test heals it
    }
    manta::kv::put("healed", 1).get(long_enough);
  });
  const passage own = calls_through(far, 0);
  word.join();
  const passage others_own = third.get(long_enough);
  const passage back = behind.get(long_enough);
  expect_whole(own, "calls");
  expect_whole(others_own, "a third node's calls");
  expect_whole(back, "calls from behind the cut");
  expect(std::min({own.longest_s, others_own.longest_s, back.longest_s}) > seen_s,
         "nobody was cut off");
  expect(manta::remote<&counter::add>(far, 0L).get(long_enough) ==
             calls_a_round * (own.rounds + others_own.rounds),
         "each ran once, at the far end");
  expect(manta::remote<&counter::add>(near, 0L).get(long_enough) == calls_a_round * back.rounds,
         "and here");
  return say("cut-calls");
}

// Large arrays come from behind the cut, and go there, whole.
int cut_pulls(const manta::runtime& /*rt*/) {
  listen_to_test();
  const auto is_over = [] { return is_told != 0; };
  const std::uint64_t before = bytes_fetched();
  say_cut_off();
  const auto gives = [](long round) {
    const auto from = static_cast<std::uint64_t>(round);
    const auto there = manta::remote<are_cut_words>.with(at("rank-1"));
    return there(cut_words_from(from), from).get(long_enough);
  };
  const auto takes = [](long round) {
    const auto from = static_cast<std::uint64_t>(round) + 1'000'000;
    const auto made = manta::remote<cut_words_from>.with(at("rank-1"))(from);
    return are_cut_words(made.get(long_enough), from);
  };
  passage there;
  std::thread giver([&] { there = through_cut(gives, is_over); });
  const passage here = through_cut(takes, is_over);
  giver.join();
  expect_whole(here, "arrays from there");
  expect_whole(there, "arrays to there");
  expect(std::max(here.longest_s, there.longest_s) > seen_s, "nobody was cut off");
  expect(bytes_fetched() - before >=
             static_cast<std::uint64_t>(here.rounds) * cut_count * sizeof(std::uint64_t),
         "they came over the network");
  return say("cut-pulls");
}

}  // namespace settling
