// SPDX-License-Identifier: Apache-2.0
//
// Allreduce over actors: each of n ranks holds a vector, and in the end each holds the sum of all.
//
// It is the step that data-parallel training makes after each batch. The vector is cut into n
// pieces, and the pieces travel, all at the same time:
//
//   ring: piece p collects on one round and is spread on the next     tree: up and down
//
//       rank 0 --- p ---> rank 1                                           rank 0
//         ^                 |                                            ^ |    ^ |
//         |                 v                                            | v    | v
//       rank 3 <--------- rank 2                                       rank 1  rank 2
//
// Each rank sends 2 (n - 1) / n of the vector in a ring, however many ranks there are, but a piece
// makes 2 (n - 1) hops; a tree has 2 log n hops, but its root handles every piece.
//
// Both come in two ways. By the driver: it names every step and passes futures from one actor to
// the next, values that nobody has computed yet. Among peers: the actors hold handles of each
// other, the driver pushes once, and delegated futures tell it when all is done. Nothing blocks on
// the way in either of them; the only waits are the driver's at the end.
//
// The algorithm bandwidth is bytes of one rank's vector over the time of one allreduce. All ranks
// live in one process here, so it measures handing over and memory, not a network.
#include <manta/manta.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "../common/command_line.hpp"
#include "ways.hpp"

namespace {

constexpr const char* help = R"(allreduce: the sum over all ranks, by ring and tree, on actors

usage: allreduce [options]
  --ranks N        actors that each hold a vector, 1 to 64 (4)
  --sizes A,B,...  floats in a vector, 1 to 100000000 each (1000,100000,4000000)
  --rounds N       allreduces of each way and size, the median counts; 1 to 1000 (5)
  --manta-...      the runtime's, such as --manta-workers=2
  --help           this text

Exit code: 0 all sums exact, 1 not, 2 bad option.
)";

struct request {
  std::size_t ranks = 0;
  std::size_t rounds = 0;
  std::vector<std::size_t> sizes;
};

std::vector<std::size_t> sizes_from(const examples::command_line& line, std::string_view text) {
  std::vector<std::size_t> sizes;
  const char* at = text.data();
  const char* const last = at + text.size();
  for (;;) {
    std::size_t size = 0;
    const auto [end, error] = std::from_chars(at, last, size);
    const bool is_good = error == std::errc() && size >= 1 && size <= 100'000'000;
    if (!is_good || (end != last && *end != ',')) {
      line.refuse("--sizes", text, "whole numbers from 1 to 100000000 divided by commas");
    }
    sizes.push_back(size);
    if (end == last) return sizes;
    at = end + 1;
  }
}

// Runs one way for one size; a line with its median, and the number of wrong elements.
template <class Way>
std::size_t measure(const request& asked, std::size_t elements) {
  Way way(asked.ranks, elements);
  std::vector<double> seconds;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < asked.rounds; ++i) {
    way.prepare();
    const auto begin = std::chrono::steady_clock::now();
    way.run();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    seconds.push_back(took.count());
    wrong += way.wrong();
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const double bytes = static_cast<double>(elements * sizeof(float));
  std::printf("%10zu floats  %-20s  %9.3f ms  %7.3f GB/s  %zu wrong\n", elements, Way::name,
              1e3 * median, bytes / median / 1e9, wrong);
  return wrong;
}

int run(const request& asked) {
  std::size_t wrong = 0;
  for (const std::size_t elements : asked.sizes) {
    wrong += measure<allreduce::plain_loop>(asked, elements);
    wrong += measure<allreduce::driver_ring>(asked, elements);
    wrong += measure<allreduce::driver_tree>(asked, elements);
    wrong += measure<allreduce::peer_ring>(asked, elements);
    wrong += measure<allreduce::peer_tree>(asked, elements);
  }
  if (wrong != 0) {
    std::printf("allreduce: %zu ranks, %zu elements are wrong\n", asked.ranks, wrong);
    return 1;
  }
  std::printf(
      "allreduce: %zu ranks, every element of 5 ways x %zu sizes x %zu rounds is the exact "
      "sum\n",
      asked.ranks, asked.sizes.size(), asked.rounds);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  examples::command_line line("allreduce", help, argc, argv);
  request asked;
  asked.ranks = static_cast<std::size_t>(line.whole("--ranks", 4, 1, 64));
  asked.rounds = static_cast<std::size_t>(line.whole("--rounds", 5, 1, 1000));
  asked.sizes = sizes_from(line, line.text("--sizes", "1000,100000,4000000"));
  line.finish();
  try {
    manta::runtime rt(argc, argv);
    return run(asked);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "allreduce: %s\n", error.what());
    return 1;
  }
}
