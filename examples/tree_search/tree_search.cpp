// SPDX-License-Identifier: Apache-2.0
//
// Tree search: a computer player for Connect Four, as tasks that make tasks by what earlier ones
// found.
//
// The player knows only the rules. It plays a position to its end at random many times, and goes
// more often where that ended well (UCT). Nobody can say ahead how the tree will look, so there is
// no list of tasks to begin with:
//
//   the position    grown(tree, 2000 playouts)                          one task of a game
//                    |
//   round 1: 250     |-- child 0: 40   child 3: 90   child 6: 30 ...    nothing is known yet
//                    |      here          task          here
//   round 2: 250     |-- child 0: 10   child 3: 150  child 6: 10 ...    by what round 1 found
//                    |                    task
//                    |                     |-- its round 1, its round 2, ...
//                    v
//   its favourite    the child that was visited most is the move
//
// A subtree is a value: it moves into the task that grows it and comes back as its result. A task
// waits for those it made; waiting lends the core or runs what it waits for. Each task has a seed
// of its own, so the tree does not depend on who ran what: it is compared with a plain loop's.
//
// The player meets one who moves at random, half of the games as first, all games at the same time.
#include <manta/manta.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <vector>

#include "../common/command_line.hpp"
#include "game.hpp"
#include "search.hpp"

namespace {

constexpr const char* help = R"(tree_search: Connect Four by Monte Carlo tree search on tasks

usage: tree_search [options]
  --games N        games against a random player, an even number, 2 to 100000 (100)
  --playouts N     playouts for a move, 7 to 1000000 (2000)
  --win N          games that must be won, in percent, 0 to 100 (95)
  --probe N        playouts of the search that is timed and compared, 7 to 10000000 (200000)
  --grain N        a subtree with fewer playouts is no task of its own, 1 to 1000000 (200)
  --seed N         decides all games (1)
  --manta-...      the runtime's, such as --manta-workers=2
  --help           this text

Exit code: 0 enough games won and both trees the same, 1 not, 2 bad option.
)";

struct request {
  int games = 0;
  int playouts = 0;
  int win_percent = 0;
  int probe = 0;
  std::uint64_t seed = 0;
  four::plan how;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// One large search, on this thread and on tasks; whether both gave the same tree.
bool probe(const request& asked) {
  auto begin = std::chrono::steady_clock::now();
  const four::node plain = four::grown<false>(four::root({}), asked.probe, asked.seed, asked.how);
  const double plain_seconds = seconds_since(begin);
  begin = std::chrono::steady_clock::now();
  const four::node tasks =
      manta::remote<four::grown<true>>(four::root({}), asked.probe, asked.seed, asked.how).get();
  const double task_seconds = seconds_since(begin);
  std::printf(
      "%d playouts from the start: plain %.3f s, on tasks %.3f s, speed-up %.2f; both would "
      "drop into column %d\n",
      asked.probe, plain_seconds, task_seconds, plain_seconds / task_seconds,
      four::favourite(tasks));
  return four::is_same(plain, tasks);
}

// All games at once; the number that the search won.
int games_won(const request& asked) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<manta::future<four::game>> games;
  for (int i = 0; i < asked.games; ++i) {
    const std::uint64_t seed = examples::sub_seed(asked.seed, static_cast<std::uint64_t>(i));
    games.push_back(manta::remote<four::play<true>>(seed, i % 2 == 0, asked.playouts, asked.how));
  }
  int won[2] = {};
  int drawn = 0;
  int moves = 0;
  for (std::size_t i = 0; i < games.size(); ++i) {
    const four::game& g = games[i].get();
    won[i % 2] += g.end == four::ending::won ? 1 : 0;
    drawn += g.end == four::ending::drawn ? 1 : 0;
    moves += g.moves;
  }
  std::printf("won %d of %d as first and %d of %d as second, %d drawn; %d moves in %.2f s\n",
              won[0], asked.games / 2, won[1], asked.games / 2, drawn, moves, seconds_since(begin));
  return won[0] + won[1];
}

int run(const request& asked, const manta::runtime& rt) {
  const bool is_same = probe(asked);
  const int won = games_won(asked);
  const manta::runtime_stats stats = rt.stats();
  std::printf("%llu tasks, %llu of them run by who waited for them\n",
              static_cast<unsigned long long>(stats.tasks_run),
              static_cast<unsigned long long>(stats.run_in_place));
  const int wanted = (asked.games * asked.win_percent + 99) / 100;
  std::printf(
      "tree_search: won %d of %d, wanted %d; both colours; the tree on tasks is %sthe plain "
      "one\n",
      won, asked.games, wanted, is_same ? "" : "NOT ");
  return won >= wanted && is_same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  examples::command_line line("tree_search", help, argc, argv);
  request asked;
  asked.games = static_cast<int>(line.whole("--games", 100, 2, 100'000));
  if (asked.games % 2 != 0) line.refuse("--games", std::to_string(asked.games), "an even number");
  asked.playouts = static_cast<int>(line.whole("--playouts", 2000, 7, 1'000'000));
  asked.win_percent = static_cast<int>(line.whole("--win", 95, 0, 100));
  asked.probe = static_cast<int>(line.whole("--probe", 200'000, 7, 10'000'000));
  asked.how.grain = static_cast<int>(line.whole("--grain", 200, 1, 1'000'000));
  asked.seed = static_cast<std::uint64_t>(
      line.whole("--seed", 1, 0, std::numeric_limits<std::int64_t>::max()));
  line.finish();
  try {
    const manta::runtime rt(argc, argv);
    return run(asked, rt);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tree_search: %s\n", error.what());
    return 1;
  }
}
