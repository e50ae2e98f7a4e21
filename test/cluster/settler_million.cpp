// SPDX-License-Identifier: Apache-2.0
// Many tasks over all nodes, of which nothing is to be left.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <manta/base/sanitizers.hpp>

#include "cluster/belongings.hpp"
#include "cluster/settling.hpp"

namespace settling {
namespace million_words {

using numbers = manta::array<float>;

// ---- the work: each gives a number that its caller knows

long adds_one(long x) { return x + 1; }
std::string says(long x) { return std::string(200, 'x') + std::to_string(x); }
long reads(const std::string& text) { return std::stol(text.substr(200)); }
long asks(long x, const std::string& other) {
  return manta::remote<adds_one>.with(at(other))(x).get(long_enough);
}
numbers makes(long x, std::size_t count) {
  auto room = manta::make_array<float>({count});
  std::fill(room.data(), room.data() + count, static_cast<float>(x % 1000));
  return std::move(room).seal();
}
long sums(const numbers& all, long x) {
  const bool is = std::all_of(all.begin(), all.end(),
                              [&](float one) { return one == static_cast<float>(x % 1000); });
  return is ? x + 1 : -1;
}
long passes(const manta::future<long>& of) { return of.get(long_enough); }

// One of many kinds: most are small, some give others work, some share what they made.
manta::future<long> one_task(long i, const std::vector<std::string>& nodes) {
  // Each kind has all nodes in turn.
  const long turn = i + i / 16 + i / 100 + i / 500 + i / 2000;
  const std::string& here = nodes[static_cast<std::size_t>(turn) % nodes.size()];
  const std::string& next = nodes[static_cast<std::size_t>(turn + 1) % nodes.size()];
  if (i % 2000 == 7) {  // stays where it was made, and is read in another
    const auto array = manta::remote<makes>.with(at(here))(i, std::size_t{500'000});
    return manta::remote<sums>.with(at(next))(array, i);
  }
  if (i % 500 == 11) {
    const auto one = manta::spawn<counter>.with({.where = manta::on_node(here)})(i);
    return manta::remote<&counter::add>(one, 1L);
  }
  if (i % 100 == 13) {
    return manta::remote<passes>.with(at(next))(manta::remote<adds_one>.with(at(here))(i));
  }
  if (i % 16 == 5) return manta::remote<asks>.with(at(here))(i, next);
  if (i % 16 == 9) {
    return manta::remote<reads>.with(at(next))(manta::remote<says>.with(at(here))(i + 1));
  }
  return manta::remote<adds_one>.with(at(here))(i);
}

void run_all(long from, long to, const std::vector<std::string>& nodes) {
  constexpr long at_a_time = 2000;
  for (long i = from; i < to; i += at_a_time) {
    std::vector<manta::future<long>> some;
    for (long k = i; k < std::min(i + at_a_time, to); ++k) some.push_back(one_task(k, nodes));
    for (long k = 0; k < static_cast<long>(some.size()); ++k) {
      expect(some[static_cast<std::size_t>(k)].get(long_enough) == i + k + 1,
             "task " + std::to_string(i + k));
    }
  }
}

// Memory of many threads' lists and of segments that go later comes and goes by some MiB.
constexpr std::int64_t growth_allowed = std::int64_t{16} << 20U;

}  // namespace million_words

int million(const manta::runtime& rt, int tasks) {
  using namespace million_words;  // NOLINT: the words of this program
  std::vector<std::string> nodes{manta::this_task::node()};
  for (const manta::node_info& one : others(rt)) nodes.push_back(one.name);
  run_all(0, tasks / 5, nodes);
  std::map<std::string, belongings> before;
  for (const std::string& each : nodes) before[each] = at_rest(each);
  run_all(tasks / 5, tasks, nodes);
  const auto since = std::chrono::steady_clock::now();
  for (const std::string& each : nodes) {
    const belongings was = before[each];
    const belongings is = at_rest(each);
    std::printf(
        "%s: resident %ld KiB, %ld before; descriptors %ld, %ld; stored %lu; actors %lu; "
        "lent %lu, borrowed %lu; records %lu\n",
        each.c_str(), is.resident >> 10, was.resident >> 10, is.descriptors, was.descriptors,
        is.stored, is.actors, is.lent, is.borrowed, is.records);
    expect_nothing(is);
    expect(is.descriptors <= was.descriptors + 4, each + " has more descriptors");
    expect(manta::base::is_sanitized || is.resident <= was.resident + growth_allowed,
           each + " has grown");
  }
  std::printf("nothing is left %.3f s after the last\n",
              std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count());
  return say("million");
}

}  // namespace settling
