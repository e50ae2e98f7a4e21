// SPDX-License-Identifier: Apache-2.0
// The program of settler.cpp whose values are too long for one message.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/settling.hpp"

namespace settling {

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;

// Letters without a period that divides a part's size, so that parts which change places are seen;
// copied and compared by rows, since a program with a sanitizer looks at single letters too long.
const std::string& row() {
  static const std::string made = [] {
    std::string out(65'521, ' ');
    std::uint32_t state = 1;
    for (char& c : out) c = static_cast<char>('a' + (state = state * 1'664'525U + 1) / 65'536 % 23);
    return out;
  }();
  return made;
}
std::string text_of(std::size_t size) {
  std::string out;
  out.reserve(size);
  while (out.size() < size) out.append(row(), 0, size - out.size());
  return out;
}
bool is_text(const std::string& text, std::size_t size) {
  if (text.size() != size) return false;
  for (std::size_t at = 0; at < size; at += row().size()) {
    const std::size_t here = std::min(row().size(), size - at);
    if (text.compare(at, here, row(), 0, here) != 0) return false;
  }
  return true;
}
std::vector<double> numbers_to(std::size_t count) {
  std::vector<double> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<double>(i);
  return out;
}
double sum_to(std::size_t count) {
  return static_cast<double>(count) * static_cast<double>(count - 1) / 2;
}

struct load {
  std::string text;
  std::vector<double> numbers;
  std::vector<manta::future<long>> small;
};
struct consignment {
  manta::future<load> inner;
};

load makes_load(std::size_t bytes, std::size_t count) {
  return {text_of(bytes), numbers_to(count), {manta::remote<squared>(9L)}};
}
bool is_load(const load& of, std::size_t bytes, std::size_t count) {
  double sum = 0;
  for (const double one : of.numbers) sum += one;
  return is_text(of.text, bytes) && sum == sum_to(count) && of.small.size() == 1 &&
         of.small.front().get(long_enough) == 81;
}

// Counts what comes before and behind what takes long.
struct depot {
  long next() { return ++calls; }
  load takes(load all) {
    ++calls;
    return all;
  }
  consignment makes(std::size_t bytes, std::size_t count) {
    return {manta::remote<makes_load>(bytes, count)};
  }
  bool has(const consignment& of, std::size_t bytes, std::size_t count) {
    return is_load(of.inner.get(long_enough), bytes, count);
  }
  std::vector<std::string> rows(std::size_t count, std::size_t each) {
    return std::vector<std::string>(count, text_of(each));
  }
  std::size_t length(const std::string& text) {
    return is_text(text, text.size()) ? text.size() : 0;
  }
  long calls = 0;
};

using depots = manta::actor<depot>;

depots depot_at(const std::string& node) {
  return manta::spawn<depot>.with({.where = manta::on_node(node)})();
}

void check_order(const depots& to, std::size_t bytes, std::size_t count) {
  auto before = manta::remote<&depot::next>(to);
  auto there_and_back = manta::remote<&depot::takes>(to, makes_load(bytes, count));
  auto behind = manta::remote<&depot::next>(to);
  expect(before.get(long_enough) == 1 && behind.get(long_enough) == 3, "the order of calls");
  expect(is_load(there_and_back.get(long_enough), bytes, count), "there and back");
}

void check_sizes(const depots& to) {
  // Just below and above of what one message takes, and many rows.
  for (const std::size_t size : {32 * mib - 4096, 32 * mib, 32 * mib + 1, 40 * mib}) {
    expect(
        is_load(manta::remote<&depot::takes>(to, makes_load(size, 10)).get(long_enough), size, 10),
        std::to_string(size) + " bytes");
  }
  const auto rows = manta::remote<&depot::rows>(to, std::size_t{70}, mib).get(long_enough);
  expect(rows.size() == 70 && is_text(rows.back(), mib), "rows");
}

void check_limit(const depots& to) {
  const std::string why = thrown_by<manta::unsupported>(
      manta::remote<&depot::takes>(to, load{text_of(481 * mib), {}, {}}));
  expect(has(why, "depot::takes") && has(why, "503316480 is the most"), why);
  const auto most = manta::remote<&depot::rows>(to, std::size_t{1024}, std::size_t{4096});
  expect(most.get(long_enough).size() == 1024, "as many rows as there may be");
  const std::string many = thrown_by<manta::unsupported>(
      manta::remote<&depot::rows>(to, std::size_t{1025}, std::size_t{4096}));
  expect(has(many, "depot::rows") && has(many, "has 1025 ranges"), many);
  expect(manta::remote<&depot::next>(to).get(long_enough) > 0, "calls behind it");
}

// The limit is that of messages, in which what is read in place is not. Who has read it gives it
// back.
void check_no_limit(const manta::runtime& rt, const depots& to) {
  const std::string text = text_of(481 * mib);
  expect(manta::remote<&depot::length>(to, text).get(long_enough) == text.size(), "no limit");
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (rt.store().used_bytes > 0 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
  }
  expect(rt.store().used_bytes == 0, std::to_string(rt.store().used_bytes) + " bytes are kept");
}

}  // namespace

// Values that are too long for one message go in parts, and others get through meanwhile; or
// through the store, where that is "shared". "brief": where a mebibyte on its way takes a tenth of
// a second, as with ThreadSanitizer.
int freight(const manta::runtime& rt, const std::string& how) {
  const bool is_brief = how == "brief";
  const auto all = others(rt);
  const depots one = depot_at(all[0].name);
  const depots two = depot_at(all[1].name);
  const std::size_t bytes = is_brief ? 32 * mib + 1 : 50 * mib + 3;
  const std::size_t count = is_brief ? 1'001 : 5'000'001;
  check_order(one, bytes, count);
  if (!is_brief) check_sizes(one);
  // Made in one node, read in a second and here, by both at once.
  const auto made = manta::remote<&depot::makes>(one, bytes, count).get(long_enough);
  auto there = manta::remote<&depot::has>(two, made, bytes, count);
  expect(is_load(made.inner.get(long_enough), bytes, count), "made elsewhere");
  expect(there.get(long_enough), "of a third");
  // Made here, by tasks of whichever node.
  std::vector<manta::future<load>> many;
  for (std::size_t i = 0; i < (is_brief ? 2 : 6); ++i)
    many.push_back(manta::remote<makes_load>(33 * mib + i, i + 1));
  for (std::size_t i = 0; i < many.size(); ++i) {
    expect(is_load(std::move(many[i]).get(long_enough), 33 * mib + i, i + 1), "of a task");
  }
  if (how == "shared") {
    check_no_limit(rt, one);
  } else if (!is_brief) {
    check_limit(one);
  }
  return say("freight");
}

namespace {

// Nothing: it came as it should have. Else the type of its error.
std::string end_of_trip(const manta::future<load>& of, std::size_t bytes) {
  try {
    expect(is_load(of.get(long_enough), bytes, 3), "what came beside the lost one's");
    return {};
  } catch (const manta::node_lost&) {
    return "node_lost";
  } catch (const manta::actor_lost&) {
    return "actor_lost";
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace

// Parts are under way in both directions when a node dies.
int wrecks(const manta::runtime& rt) {
  const auto all = others(rt);
  const depots living = depot_at(all[0].name);
  const depots dying = depot_at(all[1].name);
  say_pids(rt);
  bool is_lost = false;
  for (int round = 0; round < 100 && !is_lost; ++round) {
    const std::size_t size = 33 * mib + static_cast<std::size_t>(round);
    const auto made = manta::remote<&depot::takes>(dying, makes_load(size, 3));
    const auto beside = manta::remote<&depot::takes>(living, makes_load(size, 3));
    const std::string end = end_of_trip(made, size);
    is_lost = end == "actor_lost" || end == "node_lost";
    expect(is_lost || end.empty(), end);
    expect(end_of_trip(beside, size).empty(), "the living one");
  }
  expect(is_lost, "its calls fail with its node");
  const auto last = manta::remote<&depot::takes>(living, makes_load(34 * mib, 3));
  expect(end_of_trip(last, 34 * mib).empty(), "and others go on");
  return say("wrecks");
}

}  // namespace settling
