// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp in which many nodes read one array: none maps another's memory.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "cluster/settling.hpp"
#include "node/array_home.hpp"

namespace settling {

namespace {

using cast_numbers = manta::array<std::uint64_t>;

constexpr std::uint64_t cast_bytes = std::uint64_t{32} << 20U;
constexpr std::uint64_t cast_count = cast_bytes / sizeof(std::uint64_t);

// No two pieces of it are the same.
std::uint64_t cast_number(std::uint64_t at, std::uint64_t seed) {
  return (at + seed) * 0x9e3779b97f4a7c15U;
}
cast_numbers cast_of(std::uint64_t seed) {
  auto room = manta::make_array<std::uint64_t>(manta::array_shape(cast_count));
  for (std::uint64_t i = 0; i < cast_count; ++i) room.data()[i] = cast_number(i, seed);
  return std::move(room).seal();
}
bool is_cast(const cast_numbers& all, std::uint64_t seed) {
  if (all.size() != cast_count) return false;
  for (std::uint64_t i = 0; i < cast_count; ++i) {
    if (all[i] != cast_number(i, seed)) return false;
  }
  return true;
}
std::uint64_t sent_from_here() { return manta::node::sent_array_bytes(); }

/// `all`: the array or its future.
template <class All>
std::vector<manta::future<bool>> read_cast_in(const std::vector<manta::node_info>& nodes,
                                              const All& all, std::uint64_t seed) {
  std::vector<manta::future<bool>> out;
  for (const manta::node_info& one : nodes) {
    out.push_back(manta::remote<is_cast>.with(at(one.name))(all, seed));
  }
  return out;
}

}  // namespace

// Of seven readers the maker serves two, and those the others. On a machine that stands still for
// seconds some may do without those: the best of some rounds counts.
int broadcast(const manta::runtime& rt) {
  const auto all = others(rt);
  expect(all.size() == 7, "eight nodes");
  std::uint64_t least = all.size() * cast_bytes;
  for (std::uint64_t round = 1; round <= 4 && least > 3 * cast_bytes; ++round) {
    const std::uint64_t before = sent_from_here();
    for (const auto& one : read_cast_in(all, cast_of(round), round)) {
      expect(one.get(long_enough), "what a reader reads");
    }
    least = std::min(least, sent_from_here() - before);
  }
  expect(least >= cast_bytes, "somebody has it from here");
  expect(least <= 3 * cast_bytes, "its maker sent " + std::to_string(least) + " bytes");
  return say("broadcast");
}

// The one that reads first, and is told to the others, is killed as they read from it.
int broadcast_torn(const manta::runtime& rt) {
  const auto all = others(rt);
  const std::vector<manta::node_info> first(all.begin(), all.begin() + 1);
  const std::vector<manta::node_info> rest(all.begin() + 1, all.end());
  const auto process = static_cast<pid_t>(first.front().pid);
  const cast_numbers some = cast_of(9);
  const auto lost = read_cast_in(first, some, 9);
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (sent_from_here() == 0 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);  // it is about to read
  }
  kill(process, SIGSTOP);
  const auto reads = read_cast_in(rest, some, 9);
  std::this_thread::sleep_for(300ms);  // the fault's schedule: they ask it meanwhile
  kill(process, SIGKILL);
  for (const auto& one : reads) expect(one.get(long_enough), "what another one reads");
  try {
    expect(lost.front().get(long_enough), "what the first one read");
  } catch (const manta::node_lost&) {
    expect(true, "it was lost with its node");
  }
  const auto once_more = read_cast_in(rest, cast_of(10), 10);
  for (const auto& one : once_more) expect(one.get(long_enough), "what they read after it");
  return say("broadcast-torn");
}

// Who has made what others give each other is killed as they do, sooner or later: each of them has
// all of it or hears of that, and they go on.
int broadcast_orphaned(const manta::runtime& rt) {
  const auto all = others(rt);
  const std::vector<manta::node_info> readers(all.begin() + 3, all.end());
  std::size_t lost = 0;
  for (std::size_t round = 0; round < 3; ++round) {
    const manta::node_info& maker = all[round];
    const std::uint64_t seed = 20 + round;
    const auto made = manta::remote<cast_of>.with(at(maker.name))(seed);
    static_cast<void>(manta::wait(std::vector{made}, {.count = 1, .timeout = long_enough}));
    const auto reads = read_cast_in(readers, made, seed);
    const auto limit = std::chrono::steady_clock::now() + long_enough;
    const auto sent = manta::remote<sent_from_here>.with(at(maker.name));
    while (sent().get(long_enough) <= round * cast_bytes / 2 &&
           std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(1ms);  // it is about to give
    }
    kill(static_cast<pid_t>(maker.pid), SIGKILL);
    for (const auto& one : reads) {
      try {
        expect(one.get(long_enough), "what a reader had in time");
      } catch (const manta::node_lost&) {
        ++lost;  // with its maker
      }
    }
  }
  for (const auto& one : read_cast_in(readers, cast_of(30), 30)) {
    expect(one.get(long_enough), "what they read after that");
  }
  std::printf("%zu reads of %zu were lost\n", lost, 3 * readers.size());
  return say("broadcast-orphaned");
}

}  // namespace settling
