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

using load = manta::array<std::uint64_t>;
constexpr std::size_t load_mib = (std::size_t{1} << 20U) / sizeof(std::uint64_t);
constexpr std::size_t a_page = 512;  // words of one: of each the first is looked at

load load_from(std::size_t mib, std::uint64_t from) {
  auto room = manta::make_array<std::uint64_t>(manta::array_shape(mib * load_mib));
  for (std::size_t i = 0; i < room.size(); ++i) room.data()[i] = from + i;
  return std::move(room).seal();
}
bool is_load(const load& all, std::size_t mib, std::uint64_t from) {
  bool is = all.size() == mib * load_mib;
  for (std::size_t i = 0; is && i < all.size(); i += a_page) is = all[i] == from + i;
  return is;
}

std::uint64_t mib_spilled() {
  const auto in = manta::node::array_home::global().store_if_made();
  return in == nullptr ? 0 : in->measure().spilled >> 20U;
}
std::uint64_t mib_live() {
  const auto in = manta::node::array_home::global().store_if_made();
  return in == nullptr ? 0 : in->measure().live >> 20U;
}
std::uint64_t mib_in_all(const manta::runtime& rt, std::uint64_t (*of)()) {
  std::uint64_t sum = of();
  for (const manta::node_info& one : others(rt)) {
    sum += of == mib_live ? manta::remote<mib_live>.with(at(one.name))().get(long_enough)
                          : manta::remote<mib_spilled>.with(at(one.name))().get(long_enough);
  }
  return sum;
}

using loads = std::vector<manta::future<load>>;

// Has put more than its node's store has room for.
struct hoard {
  void puts(int many, std::size_t mib) {
    for (int i = 0; i < many; ++i) {
      all.push_back(manta::put(load_from(mib, static_cast<std::uint64_t>(i))));
    }
  }
  loads gives() const { return all; }
  // Holds them in its node, read.
  void takes(load one) { held.push_back(std::move(one)); }
  bool has_all(std::size_t mib) const {
    bool is = true;
    for (std::size_t i = 0; i < held.size(); ++i) is = is_load(held[i], mib, i) && is;
    return is;
  }
  std::uint64_t count() const { return held.size(); }

  loads all;
  std::vector<load> held;
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
  const std::uint64_t on_disk = mib_in_all(rt, mib_spilled);
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

// Who reads more than its store has room for, all at once, has it whole, or is told that it is
// full.
int crowded(const manta::runtime& rt) {
  constexpr std::size_t count = 24;
  constexpr std::size_t mib = 8;
  const auto all = others(rt);
  loads results;
  for (std::uint64_t i = 0; i < count; ++i) {
    results.push_back(manta::remote<load_from>.with(at(all[0].name))(std::size_t{mib}, i));
  }
  const auto reader = manta::spawn<hoard>.with({.where = manta::on_node(all[1].name)})();
  std::size_t full = 0;
  std::vector<load> held;
  for (std::size_t i = 0; i < count; ++i) {
    try {
      held.push_back(results[i].get(long_enough));
      expect(is_load(held.back(), mib, i), "a result");
    } catch (const manta::store_full& e) {
      ++full;
      std::printf("a result: %s\n", e.what());
    }
  }
  results.clear();
  std::printf("%zu results held, %zu times full, %lu MiB in the store here\n", held.size(), full,
              static_cast<unsigned long>(mib_live()));
  // As arguments of an actor elsewhere, which holds them.
  for (const load& one : held) {
    try {
      manta::remote<&hoard::takes>(reader, one).get(long_enough);
    } catch (const manta::store_full& e) {
      ++full;
      std::printf("an argument: %s\n", e.what());
    }
  }
  std::printf(
      "%lu arguments held, %lu MiB in the store there\n",
      static_cast<unsigned long>(manta::remote<&hoard::count>(reader).get(long_enough)),
      static_cast<unsigned long>(manta::remote<mib_live>.with(at(all[1].name))().get(long_enough)));
  expect(full > 0 || manta::remote<&hoard::has_all>(reader, std::size_t{mib}).get(long_enough),
         "what it has");
  bool are_whole = true;
  for (std::size_t i = 0; full == 0 && i < held.size(); ++i) {
    are_whole = is_load(held[i], mib, i) && are_whole;
  }
  expect(are_whole, "what is held, later");
  // Its end is the end of all that.
  held.clear();
  const load again = manta::remote<load_from>.with(at(all[0].name))(std::size_t{mib}, 7UL).get();
  expect(is_load(again, mib, 7), "it goes on");
  return say("crowded");
}

}  // namespace settling
