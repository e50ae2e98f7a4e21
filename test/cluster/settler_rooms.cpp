// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp that have more arrays than their stores have room for.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
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

}  // namespace

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

namespace {

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

}  // namespace

// Who reads more than its store has room for, all at once: it has it whole, beyond its store; or
// where there is a disk it may be told that the store is full, and what it has is whole.
int crowded(const manta::runtime& rt, bool has_disk) {
  constexpr std::size_t count = 12;
  constexpr std::size_t mib = 8;
  const auto all = others(rt);
  loads results;
  for (std::uint64_t i = 0; i < count; ++i) {
    results.push_back(manta::remote<load_from>.with(at(all[0].name))(std::size_t{mib}, i));
  }
  const auto reader = manta::spawn<hoard>.with({.where = manta::on_node(all[1].name)})();
  numbered_loads held;
  for (std::uint64_t i = 0; i < count; ++i) {
    try {
      held.emplace_back(results[i].get(long_enough), i);
    } catch (const manta::store_full& e) {
      std::printf("a result: %s\n", e.what());
    }
  }
  results.clear();
  std::printf("%zu results held, %lu MiB in the store here\n", held.size(),
              static_cast<unsigned long>(mib_live()));
  expect(held.size() == count || (has_disk && held.size() >= 3), "how many");
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
  expect(given == held.size() || (has_disk && given >= 3), "how many it has as arguments");
  expect(manta::remote<&hoard::count>(reader).get(long_enough) == given, "as it was answered");
  expect(manta::remote<&hoard::has_all>(reader, std::size_t{mib}).get(long_enough), "what it has");
  expect(are_loads(held, mib), "what is held, later");
  held.clear();
  expect(goes_on(all[0].name, mib), "it goes on when they are let go of");
  return say("crowded");
}

}  // namespace settling
