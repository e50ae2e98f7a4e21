// SPDX-License-Identifier: Apache-2.0
//
// A search for good settings of a training: many trials begin, the worse half is cancelled, again
// and again, until one is left (successive halving).
//
//   rung:      0            1                2                        3
//   trial 0    ###o-------->######o--------->####...X                  o  reports its loss
//   trial 1    ###o-------->###...X                                    X  cancelled
//   trial 2    ###o-------->######o--------->############o------------>########################
//   trial 3    ###o---X                                                -  waits for a ticket
//
//   a trial = a coroutine                     a rung = three tasks that it makes, one for each fold
//
// Nobody waits for the slowest: a trial begins the next rung while others still train for this one,
// and when all have reported, those that lost are cancelled wherever they are. A cancelled trial
// that waits is destroyed where it stands; the tasks that it made are cancelled with it: those in
// the queue never run, and those that run find out at their next epoch (this_task::check).
//
// Who wins does not depend on who was faster, since a rung is decided by all its reports: the
// winner and its loss have to be those of a plain search, to the bit.
#include <manta/manta.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <vector>

#include "../common/command_line.hpp"
#include "halving.hpp"
#include "search.hpp"

namespace {

constexpr const char* help = R"(hyperparameter_search: successive halving, losers are cancelled

usage: hyperparameter_search [options]
  --trials N       settings to begin with, 1 to 4096 (16)
  --points N       points to learn from, 3 to 1000000 (600)
  --epochs N       epochs of the first rung, each next one has twice as many; 1 to 10000 (10)
  --seed N         decides all settings and points (1)
  --manta-...      the runtime's, such as --manta-workers=2
  --help           this text

Exit code: 0 the winner is the plain search's and cancelled work has stopped, 1 not, 2 bad option.
)";

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The most epochs that a trial can have run that was out after so many rungs: one rung ahead.
std::int64_t most_epochs(const tuning::request& asked, std::size_t rungs) {
  std::int64_t most = 0;
  for (std::size_t r = 0; r <= rungs && r < tuning::rungs_of(asked); ++r) {
    most += static_cast<std::int64_t>(tuning::folds) * tuning::epochs_of(asked, r);
  }
  return most;
}

// A line for each trial; how many were cancelled, or -1 if one ran longer than it may.
int show(const tuning::request& asked, const tuning::outcome& found) {
  int cancelled = 0;
  bool is_within = true;
  for (std::size_t t = 0; t < asked.trials; ++t) {
    const tuning::settings with = tuning::drawn(asked.seed, t);
    const tuning::ending& end = found.endings[t];
    std::printf("trial %2zu  rate %.4f  momentum %.2f  pitch %5.2f  waves %2zu  %6lld epochs  ", t,
                with.rate, with.momentum, with.pitch, with.waves,
                static_cast<long long>(end.epochs));
    std::printf(end.is_cancelled ? "cancelled after rung %zu\n" : "reached rung %zu, the last\n",
                end.rungs - 1);
    cancelled += end.is_cancelled ? 1 : 0;
    is_within = is_within && end.epochs <= most_epochs(asked, end.rungs);
  }
  return is_within ? cancelled : -1;
}

struct search_result {
  tuning::outcome found;
  double seconds = 0;
  int workers = 0;
};

// The runtime is gone when this returns, and with it everything that might have gone on.
search_result searched(const tuning::request& asked, const std::vector<tuning::point>& points,
                       int argc, char** argv) {
  const manta::runtime rt(argc, argv);
  const auto begin = std::chrono::steady_clock::now();
  search_result out;
  out.found = tuning::search(asked, points).run();
  out.seconds = seconds_since(begin);
  out.workers = rt.workers();
  return out;
}

int run(const tuning::request& asked, int argc, char** argv) {
  const std::vector<tuning::point> points = tuning::drawn_points(asked.seed, asked.points);
  const search_result remote = searched(asked, points, argc, argv);
  const tuning::outcome& found = remote.found;
  const auto begin = std::chrono::steady_clock::now();
  const tuning::winner plain = tuning::plain_search(asked, points);
  const double plain_seconds = seconds_since(begin);

  const int cancelled = show(asked, found);
  // An epoch that had begun when its trial was cancelled may have ended later, one on each thread.
  const std::int64_t later = tuning::counted.all_epochs() - found.epochs_at_end;
  const bool has_stopped = later <= remote.workers && tuning::counted.alive == 0;
  std::printf(
      "plain: %lld epochs in %.3f s; on tasks: %lld in %.3f s, %lld of them after the end; "
      "all trials to the end would take %lld\n",
      static_cast<long long>(plain.epochs), plain_seconds,
      static_cast<long long>(found.best.epochs), remote.seconds, static_cast<long long>(later),
      static_cast<long long>(most_epochs(asked, tuning::rungs_of(asked))) *
          static_cast<long long>(asked.trials));
  const bool is_same = found.best.trial == plain.trial && found.best.loss == plain.loss;
  std::printf(
      "hyperparameter_search: trial %zu of %zu wins %s the plain search; %d were cancelled, "
      "and %s went on\n",
      found.best.trial, asked.trials, is_same ? "as in" : "UNLIKE", cancelled,
      has_stopped ? "none" : "SOME");
  return is_same && has_stopped && cancelled + 1 == static_cast<int>(asked.trials) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  examples::command_line line("hyperparameter_search", help, argc, argv);
  tuning::request asked;
  asked.trials = static_cast<std::size_t>(line.whole("--trials", 16, 1, tuning::most_trials));
  asked.points = static_cast<std::size_t>(line.whole("--points", 600, 3, 1'000'000));
  asked.epochs = static_cast<int>(line.whole("--epochs", 10, 1, 10'000));
  asked.seed = static_cast<std::uint64_t>(
      line.whole("--seed", 1, 0, std::numeric_limits<std::int64_t>::max()));
  line.finish();
  try {
    return run(asked, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hyperparameter_search: %s\n", error.what());
    return 1;
  }
}
