// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp in which many nodes read one array: none maps another's memory.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/settling.hpp"
#include "cluster/stopping.hpp"
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
    // Who comes last finds one that has all of it, or is told that there is none.
    try {
      expect(is_cast(made.get(long_enough), seed), "what is read after that");
    } catch (const manta::node_lost& e) {
      expect(has(e.what(), "no other node has a copy"), e.what());
    }
  }
  for (const auto& one : read_cast_in(readers, cast_of(30), 30)) {
    expect(one.get(long_enough), "what they read after that");
  }
  std::printf("%zu reads of %zu were lost\n", lost, 3 * readers.size());
  return say("broadcast-orphaned");
}

namespace {

/// Has what others have made, as long as it lives.
struct legatee {
  bool keeps(const cast_numbers& all, std::uint64_t seed) {
    kept.push_back(all);
    return is_cast(all, seed);
  }
  // A task of its node has read it, and nobody does now: the value is at rest.
  bool keeps_future(const std::vector<manta::future<cast_numbers>>& of, std::uint64_t seed) {
    futures.push_back(of.front());
    const auto reads = manta::remote<is_cast>.with(at(manta::this_task::node()));
    return reads(of.front(), seed).get(long_enough);
  }
  std::vector<cast_numbers> kept;
  std::vector<manta::future<cast_numbers>> futures;
};

manta::actor<legatee> legatee_at(const std::string& node) {
  return manta::spawn<legatee>.with({.where = manta::on_node(node)})();
}
manta::future<cast_numbers> cast_at(const std::string& node, std::uint64_t seed) {
  const auto out = manta::remote<cast_of>.with(at(node))(seed);
  static_cast<void>(manta::wait(std::vector{out}, {.count = 1, .timeout = long_enough}));
  return out;
}
// A member that stands still for two seconds, as some do on busy machines, counts as one that has
// nothing, for a second: then once more.
template <class Read>
bool reads_in_time(Read read) {
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  for (;;) {
    try {
      return read();
    } catch (const manta::exception& e) {
      const bool is_over = std::chrono::steady_clock::now() > limit;
      if (is_over || !has(e.what(), "no other node has a copy")) throw;
    }
  }
}
// What a read of it after its maker's end finds where nobody has it.
void expect_no_copy(const std::string& why) {
  expect(has(why, "stayed there") && has(why, "no other node has a copy"), why);
}

}  // namespace

// rank-2 is lost, and what it has made is read after that. Of one array rank-1 has all in an actor,
// of another one in a value at rest; nobody has the third.
int inherited(const manta::runtime& rt) {
  const auto kept = cast_at("rank-2", 41);
  const auto rested = cast_at("rank-2", 42);
  const auto unread = cast_at("rank-2", 43);
  const auto heir = legatee_at("rank-1");
  expect(manta::remote<&legatee::keeps>(heir, kept, std::uint64_t{41}).get(long_enough), "kept");
  expect(manta::remote<&legatee::keeps_future>(heir, std::vector{rested}, std::uint64_t{42})
             .get(long_enough),
         "at rest");
  const auto witness = one_at("rank-2");
  const auto end = manta::monitor(witness);
  say_pids(rt);
  static_cast<void>(end.get(long_enough));
  const std::uint64_t before = manta::node::fetched_array_bytes();
  const auto late = manta::remote<is_cast>.with(at("rank-3"));
  const auto beside = manta::remote<is_cast>.with(at("rank-1"));
  expect(reads_in_time([&] { return beside(rested, std::uint64_t{42}).get(long_enough); }),
         "in the node that has it at rest");
  expect(reads_in_time([&] { return late(kept, std::uint64_t{41}).get(long_enough); }),
         "by who is given its name");
  expect(reads_in_time([&] { return is_cast(kept.get(long_enough), 41); }), "here");
  expect(reads_in_time([&] { return is_cast(rested.get(long_enough), 42); }), "of a value at rest");
  expect(manta::node::fetched_array_bytes() == before + 2 * cast_bytes, "each comes once");
  expect_no_copy(thrown_by<manta::node_lost>(unread));
  expect_no_copy(thrown_by<manta::node_lost>(unread));
  expect_no_copy(thrown_by<manta::exception>(late(unread, std::uint64_t{43})));
  return say("inherited");
}

// Two have what rank-2 has made. Who gives it is killed as it does, sooner or later: the other one
// goes on. Then that is, too.
int inherited_twice(const manta::runtime& rt) {
  const auto first = cast_at("rank-2", 44);
  const auto second = cast_at("rank-2", 45);
  std::vector<manta::actor<legatee>> heirs;
  for (const char* const node : {"rank-1", "rank-3"}) {
    heirs.push_back(legatee_at(node));
    for (const auto& [of, seed] :
         {std::pair(first, std::uint64_t{44}), std::pair(second, std::uint64_t{45})}) {
      expect(manta::remote<&legatee::keeps>(heirs.back(), of, seed).get(long_enough), node);
    }
  }
  std::map<std::string, pid_t> pids;
  for (const manta::node_info& one : others(rt)) pids[one.name] = static_cast<pid_t>(one.pid);
  const auto sent = [](const std::string& node) {
    return manta::remote<sent_from_here>.with(at(node))().get(long_enough);
  };
  const std::map<std::string, std::uint64_t> before{{"rank-1", sent("rank-1")},
                                                    {"rank-3", sent("rank-3")}};
  const auto witness = one_at("rank-2");
  const auto end = manta::monitor(witness);
  say_pids(rt);
  static_cast<void>(end.get(long_enough));
  std::atomic<bool> is_whole{false};
  std::thread reader([&] {
    try {
      is_whole.store(is_cast(first.get(long_enough), 44));
    } catch (const manta::exception& e) {
      std::printf("%s\n", e.what());
    }
  });
  std::string gives;
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (gives.empty() && std::chrono::steady_clock::now() < limit) {
    for (const auto& [node, was] : before) {
      if (sent(node) > was) gives = node;
    }
  }
  expect(!gives.empty(), "one of them gives it");
  if (gives.empty()) gives = "rank-1";
  kill(pids.at(gives), SIGKILL);
  reader.join();
  expect(is_whole, "it goes on with the other one");
  // That one stands still first, so it is a member that does not answer.
  const pid_t other = pids.at(gives == "rank-1" ? "rank-3" : "rank-1");
  cluster_test::stop(other);
  kill(other, SIGKILL);
  expect_no_copy(thrown_by<manta::node_lost>(second));
  return say("inherited-twice");
}

}  // namespace settling
