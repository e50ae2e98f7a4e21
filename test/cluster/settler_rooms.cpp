// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp that have more arrays than their stores have room for.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/settling.hpp"
#include "node/array_home.hpp"

namespace settling {

namespace {

using load = counted_words;
constexpr std::size_t load_mib = (std::size_t{1} << 20U) / sizeof(std::uint64_t);
constexpr std::size_t a_page = 512;  // words of one: of each the first is looked at

load load_from(std::size_t mib, std::uint64_t from) { return counted_from(mib * load_mib, from); }
bool is_load(const load& all, std::size_t mib, std::uint64_t from) {
  return are_counted(all, mib * load_mib, from, a_page);
}

std::uint64_t mib_spilled() {
  const auto in = manta::node::array_home::global().store_if_made();
  return in == nullptr ? 0 : in->measure().spilled >> 20U;
}
std::uint64_t mib_live() {
  const auto in = manta::node::array_home::global().store_if_made();
  return in == nullptr ? 0 : in->measure().live >> 20U;
}
std::uint64_t mib_spilled_by_all(const manta::runtime& rt) {
  std::uint64_t sum = mib_spilled();
  for (const manta::node_info& one : others(rt)) {
    sum += manta::remote<mib_spilled>.with(at(one.name))().get(long_enough);
  }
  return sum;
}

using loads = std::vector<manta::future<load>>;
using numbered_loads = std::vector<std::pair<load, std::uint64_t>>;
bool are_loads(const numbered_loads& all, std::size_t mib) {
  return std::ranges::all_of(all,
                             [&](const auto& of) { return is_load(of.first, mib, of.second); });
}

// Has put more than its node's store has room for.
struct hoard {
  void puts(int many, std::size_t mib) {
    for (int i = 0; i < many; ++i) {
      all.push_back(manta::put(load_from(mib, static_cast<std::uint64_t>(i))));
    }
  }
  loads gives() const { return all; }
  // Holds them in its node, read.
  void takes(load one, std::uint64_t from) { held.emplace_back(std::move(one), from); }
  bool has_all(std::size_t mib) const { return are_loads(held, mib); }
  std::uint64_t count() const { return held.size(); }

  loads all;
  numbered_loads held;
};

// Each in one of three nodes, in turn.
void read_apart(const loads& all, std::size_t mib, const std::vector<std::string>& readers) {
  std::vector<manta::future<bool>> right;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string& node = readers[i % readers.size()];
    right.push_back(
        manta::remote<is_load>.with(at(node))(all[i], std::size_t{mib}, std::uint64_t{i}));
    if (i % 4 == 3) expect(right.back().get(long_enough), "from the disk, at " + node);
  }
  for (const auto& one : right) expect(one.get(long_enough), "from the disk, later");
}

// What one node has made and nobody reads is on its disk, and is read from everywhere.
int rested_apart(const manta::runtime& rt) {
  constexpr int many = 16;
  constexpr std::size_t mib = 4;
  const auto all = others(rt);
  const auto maker = manta::spawn<hoard>.with({.where = manta::on_node(all[0].name)})();
  manta::remote<&hoard::puts>(maker, many, std::size_t{mib}).get(long_enough);
  loads results;
  for (std::uint64_t i = 0; i < many; ++i) {
    results.push_back(manta::remote<load_from>.with(at(all[0].name))(std::size_t{mib}, i));
  }
  static_cast<void>(manta::wait(results, {.count = many, .timeout = long_enough}));
  const loads puts = manta::remote<&hoard::gives>(maker).get(long_enough);
  const std::uint64_t on_disk = mib_spilled_by_all(rt);
  std::printf("%lu MiB on the disk, %lu at the maker\n", static_cast<unsigned long>(on_disk),
              static_cast<unsigned long>(
                  manta::remote<mib_spilled>.with(at(all[0].name))().get(long_enough)));
  expect(on_disk > 0, "nothing is on the disk");
  const std::string own = manta::this_task::node();
  read_apart(puts, mib, {all[1].name, own, all[0].name});
  read_apart(results, mib, {own, all[1].name});
  for (std::size_t i = 0; i < puts.size(); i += 5) {
    expect(is_load(puts[i].get(long_enough), mib, i), "read in main");
  }
  return say("rested-apart");
}

// One that finds no room is made once more: what was let go of may be on its way.
bool goes_on(const std::string& node, std::size_t mib) {
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (std::chrono::steady_clock::now() < limit) {
    try {
      const auto again = manta::remote<load_from>.with(at(node))(std::size_t{mib}, 7UL);
      return is_load(again.get(long_enough), mib, 7);
    } catch (const manta::store_full& e) {
      std::printf("once more: %s\n", e.what());
    }
  }
  return false;
}

// One more than has room, which comes when another one is let go of.
bool waits_for_room(const std::string& node, std::size_t mib, numbered_loads& held) {
  const auto one = manta::remote<load_from>.with(at(node))(std::size_t{mib}, 77UL);
  static_cast<void>(manta::wait(std::vector{one}, {.count = 1, .timeout = long_enough}));
  bool has_come = false;
  std::thread reader([&] {
    try {
      has_come = is_load(one.get(long_enough), mib, 77);
    } catch (const manta::store_full& e) {
      std::printf("in time: %s\n", e.what());
    }
  });
  std::this_thread::sleep_for(500ms);  // so long there is no room
  held.pop_back();
  reader.join();
  return has_come;
}

// Ten have room, in the store and beside it.
bool holds_again(const std::string& node, std::size_t mib) {
  numbered_loads held;
  for (std::uint64_t i = 0; i < 10; ++i) {
    held.emplace_back(manta::remote<load_from>.with(at(node))(std::size_t{mib}, i).get(long_enough),
                      i);
  }
  return are_loads(held, mib);
}

// Who reads more than its store of 40 MiB has room for, one after the other, so that each stays
// with its maker until then: as much again lies beside the store, then it is told that it is full;
// where there is a disk that may be sooner. What it has is whole.
int crowded(const manta::runtime& rt, bool has_disk) {
  constexpr std::size_t count = 12;
  constexpr std::size_t mib = 8;
  const auto all = others(rt);
  const auto reader = manta::spawn<hoard>.with({.where = manta::on_node(all[1].name)})();
  numbered_loads held;
  for (std::uint64_t i = 0; i < count; ++i) {
    try {
      const auto one = manta::remote<load_from>.with(at(all[0].name))(std::size_t{mib}, i);
      held.emplace_back(one.get(long_enough), i);
    } catch (const manta::store_full& e) {
      std::printf("a result: %s\n", e.what());
    }
  }
  std::printf("%zu results held, %lu MiB in the store here\n", held.size(),
              static_cast<unsigned long>(mib_live()));
  expect(has_disk ? held.size() >= 3 : held.size() == 10, "how many");
  if (!has_disk) expect(waits_for_room(all[0].name, mib, held), "who waits has it in time");
  // As arguments of an actor elsewhere, which holds them.
  std::size_t given = 0;
  for (const auto& [one, from] : held) {
    try {
      manta::remote<&hoard::takes>(reader, one, from).get(long_enough);
      ++given;
    } catch (const manta::store_full& e) {
      std::printf("an argument: %s\n", e.what());
    }
  }
  expect(given >= (has_disk ? 3 : 5), "how many it has as arguments");
  expect(manta::remote<&hoard::count>(reader).get(long_enough) == given, "as it was answered");
  expect(manta::remote<&hoard::has_all>(reader, std::size_t{mib}).get(long_enough), "what it has");
  expect(are_loads(held, mib), "what is held, later");
  held.clear();
  expect(goes_on(all[0].name, mib), "it goes on when they are let go of");
  if (!has_disk) expect(holds_again(all[0].name, mib), "as much has room again");
  return say("crowded");
}

// Three of 8 MiB.
std::vector<load> some_from(std::uint64_t from) {
  std::vector<load> out;
  for (std::uint64_t i = 0; i < 3; ++i) out.push_back(load_from(8, from + i));
  return out;
}
using several = manta::future<std::vector<load>>;

bool is_read_whole(const several& one, std::uint64_t from) {
  const std::vector<load>& got = one.get(long_enough);
  bool is_whole = got.size() == 3;
  for (std::uint64_t i = 0; is_whole && i < 3; ++i) is_whole = is_load(got[i], 8, from + i);
  return is_whole;
}

bool is_refused(const several& one) {
  try {
    static_cast<void>(one.get(long_enough));
    return false;
  } catch (const manta::store_full& e) {
    std::printf("several: %s\n", e.what());
    return true;
  }
}

// Two values of several arrays each, and room for two arrays, or for one value: what is refused
// keeps no room beside the store that the other one needs, though both are still there.
int crowded_values(const manta::runtime& rt) {
  constexpr std::size_t mib = 8;
  const std::string maker = others(rt)[0].name;
  const std::string another = others(rt)[1].name;  // neither has room for both
  const auto make = [](const std::string& by, std::uint64_t from) {
    auto one = manta::remote<some_from>.with(at(by))(std::uint64_t{from});
    static_cast<void>(manta::wait(std::vector{one}, {.count = 1, .timeout = long_enough}));
    return one;
  };
  numbered_loads held;  // five in the store, and three beside it
  for (std::uint64_t i = 0; i < 8; ++i) {
    held.emplace_back(
        manta::remote<load_from>.with(at(maker))(std::size_t{mib}, i).get(long_enough), i);
  }
  several first = make(maker, 100);
  several second = make(another, 200);
  expect(is_refused(first), "the first one has no room");
  expect(is_refused(second), "the second one has no room");
  held.pop_back();
  expect(is_read_whole(second, 200), "the second one has room");
  second = make(another, 300);
  expect(is_read_whole(first, 100), "the first one has room");
  first = make(maker, 400);
  // Both at once: one has room, and then the other one.
  bool is_right_there = false;
  several* const each = &first;
  std::thread reader([each, &is_right_there] {
    is_right_there = is_read_whole(*each, 400);
    *each = {};
  });
  expect(is_read_whole(second, 300), "one of two");
  second = {};
  reader.join();
  expect(is_right_there, "the other one of two");
  expect(are_loads(held, mib), "what is held, later");
  held.clear();
  expect(goes_on(maker, mib), "it goes on when they are let go of");
  return say("crowded-values");
}

// What has a value, by the number that it begins with; each is right, and is let go of.
void read_ready(loads& all, std::size_t mib, std::vector<bool>& seen) {
  auto [ready, pending] = manta::wait(std::exchange(all, {}), {.count = 1, .timeout = long_enough});
  expect(!ready.empty(), "one more");
  for (manta::future<load>& one : ready) {
    const load got = std::move(one).get(long_enough);
    const std::uint64_t from = got[0];
    expect(from < seen.size() && !seen[from] && is_load(got, mib, from), "one that is read");
    if (from < seen.size()) seen[from] = true;
  }
  if (!ready.empty()) all = std::move(pending);
}

bool is_free_soon(const std::string& node) {
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (mib_live() != 0 || manta::remote<mib_live>.with(at(node))().get(long_enough) != 0) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(1ms);  // it is told soon
  }
  return true;
}

// One node makes more than its store of 40 MiB has room for, and nobody reads it: who has it takes
// what its disk has room for, or half of its store, and more waits to be made until some is read.
// All of it is fetched, and once.
int hoarded(const manta::runtime& rt, bool has_disk) {
  constexpr std::size_t count = 12;
  constexpr std::size_t mib = 8;
  const std::string maker = others(rt)[0].name;
  const auto fetched_mib = [] { return manta::node::fetched_array_bytes() >> 20U; };
  loads results;
  for (std::uint64_t i = 0; i < count; ++i) {
    results.push_back(manta::remote<load_from>.with(at(maker))(std::size_t{mib}, i));
  }
  const auto count_ready = [&](std::size_t n, manta::duration limit) {
    return manta::wait(results, {.count = n, .timeout = limit}).ready.size();
  };
  const std::size_t unread = has_disk ? count : 7;
  const std::size_t ready = count_ready(unread, long_enough);
  std::printf("%zu are there unread, %lu MiB have come, %lu are on the disk here\n", ready,
              static_cast<unsigned long>(fetched_mib()), static_cast<unsigned long>(mib_spilled()));
  expect(ready == unread, "how many are there before one is read");
  if (has_disk) {
    expect(mib_spilled() > 0, "some are on the disk");
  } else {
    expect(fetched_mib() <= 20, "half of a store is taken");
    // Who makes more waits: there would be more by then.
    expect(count_ready(unread + 1, 500ms) == unread, "no more are there before one is read");
  }
  std::vector<bool> seen(count);
  while (!results.empty() && is_right) read_ready(results, mib, seen);
  expect(std::ranges::count(seen, true) == static_cast<std::ptrdiff_t>(count), "each is read");
  expect(fetched_mib() == count * mib, "each came as it was fetched, once");
  expect(is_free_soon(maker), "nothing is left");
  return say("hoarded");
}

// The same, and nobody reads for longer than who makes one waits for room.
int hoarded_full(const manta::runtime& rt) {
  constexpr std::size_t count = 12;
  constexpr std::size_t mib = 8;
  const std::string maker = others(rt)[0].name;
  loads results;
  for (std::uint64_t i = 0; i < count; ++i) {
    results.push_back(manta::remote<load_from>.with(at(maker))(std::size_t{mib}, i));
  }
  static_cast<void>(manta::wait(results, {.count = count, .timeout = long_enough}));
  std::size_t refused = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    try {
      expect(is_load(results[i].get(long_enough), mib, i), "one that had room");
    } catch (const manta::store_full& e) {
      if (++refused == 1) std::printf("%s\n", e.what());
    }
  }
  std::printf("%zu of %zu had no room\n", refused, count);
  // Those that are taken have left in time, or not.
  expect(refused >= count - 7 && refused <= count - 5, "how many had no room");
  results.clear();
  expect(goes_on(maker, mib), "it goes on when they are let go of");
  expect(is_free_soon(maker), "nothing is left");
  return say("hoarded-full");
}

// rank-2 is asked to leave while several here wait in line for room for what it has made: the store
// is full, and so is what lies beside it. Nothing is let go of, and they have it all the same.
int left_crowded(const manta::runtime& rt) {
  constexpr std::size_t mib = 8;
  constexpr std::uint64_t most = 8;
  numbered_loads held;  // five in the store, and five beside it
  for (std::uint64_t i = 0; i < 10; ++i) {
    held.emplace_back(
        manta::remote<load_from>.with(at("rank-1"))(std::size_t{mib}, i).get(long_enough), i);
  }
  loads left;
  for (std::uint64_t i = 0; i < most; ++i) {
    left.push_back(manta::remote<load_from>.with(at("rank-2"))(std::size_t{2}, 100 + i));
  }
  static_cast<void>(manta::wait(left, {.count = left.size(), .timeout = long_enough}));
  const auto witness = one_at("rank-2");
  const auto end = manta::monitor(witness);
  std::atomic<std::uint64_t> right{0};
  std::vector<std::thread> readers;
  for (std::uint64_t i = 0; i < most; ++i) {
    readers.emplace_back([&, i] {
      try {
        right += is_load(left[i].get(long_enough), 2, 100 + i) ? 1 : 0;
      } catch (const manta::exception& e) {
        std::printf("%s\n", e.what());
      }
    });
  }
  say_pids(rt);
  static_cast<void>(end.get(long_enough));
  for (std::thread& one : readers) one.join();
  expect(right == most, std::to_string(right) + " of those who waited for room have it");
  expect(are_loads(held, mib), "what is held, later");
  return say("left-crowded");
}

}  // namespace

program_list room_programs() {
  return {{"rested-apart", rested_apart},
          {"crowded",
           [](const manta::runtime& rt, const asked& of) { return crowded(rt, !of.how.empty()); }},
          {"hoarded",
           [](const manta::runtime& rt, const asked& of) { return hoarded(rt, !of.how.empty()); }},
          {"crowded-values", crowded_values},
          {"hoarded-full", hoarded_full},
          {"left-crowded", left_crowded}};
}

}  // namespace settling
