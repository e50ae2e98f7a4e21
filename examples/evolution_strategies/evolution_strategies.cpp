// SPDX-License-Identifier: Apache-2.0
//
// Learning by evolution strategies (Salimans and others, 2017), on all cores.
//
// The problem: find the weights of a small network that swings up a pendulum or balances a pole,
// knowing nothing but the score of an episode. The idea: move the weights in many random
// directions, both ways, play with each, and step towards the directions that did well. Each
// rollout is short and independent, and since noise is made from seeds, a rollout needs only the
// policy and two seeds, and answers with one number.
//
//            policy (a future)                        one generation
//      +--------+---------+---- ... ----+
//      v        v         v             v
//   rollout  rollout   rollout       rollout   2,100 tasks: 250 pairs of mirrored candidates x 4
//      |        |         |             |      episodes, and 100 fresh episodes of the policy
//      +--------+---------+---- ... ----+
//      v                                v
//    wait: 95 %, then as many more as come in time; ranks of the scores become weights
//      |             |                  |
//      v             v                  v
//    leaf          leaf      ...      leaf     8 actors: weighted sum of their share of the noise
//      +-------------+--------+---------+
//                             v
//                            root              1 actor: steps with momentum, gives the next policy
//
// When the 100 fresh episodes reach the passing score, the policy sits an exam of 100 others, and
// that score counts. ES can settle in a local optimum (the pendulum has one near -800);
// after 100 generations without passing, the next attempt starts from other weights.
//
// The curve is reproducible: --seed decides all noise, starts and weights, outcomes carry their
// index, and sums are made in the order of indices. It does not depend on the number of workers,
// and --serial draws the same curve bit by bit. It holds as long as no straggler was cut; each line
// says how many were. With the patience of 5 s that takes a machine that stands still.
#include <manta/manta.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>

#include "cart_pole.hpp"
#include "crew.hpp"
#include "options.hpp"
#include "pendulum.hpp"
#include "population.hpp"
#include "report.hpp"

namespace {

using wall_clock = std::chrono::steady_clock;

double seconds_since(wall_clock::time_point begin) {
  return std::chrono::duration<double>(wall_clock::now() - begin).count();
}

// What the environments share: the request, the time it began, the screen, the sums of it all.
struct training {
  const es::options& asked;
  es::reporter report;
  wall_clock::time_point begin = wall_clock::now();
  std::size_t rollouts = 0;
  std::size_t cut = 0;

  bool is_late() const { return seconds_since(begin) > asked.limit_seconds; }
};

// Plays the trials and judges them.
template <class Crew>
es::verdict judged(training& t, Crew& crew, const es::population& candidates, es::patience rest) {
  es::verdict v = candidates.judge(crew.play(candidates.trials(), rest));
  t.rollouts += candidates.trials().size();
  t.cut += v.cut;
  return v;
}

// One lineage from fresh weights, until it passes, its generations are used up, or time is over.
// Returns the exam's score if it passed.
template <class Env, template <class> class Crew>
std::optional<double> attempt(training& t, int number) {
  const es::recipe recipe;
  const auto seed = [&](std::uint64_t use, int generation) {
    return es::seed_of({t.asked.seed, static_cast<std::uint64_t>(number), use,
                        static_cast<std::uint64_t>(generation)});
  };
  const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(t.asked.patience_seconds));
  Crew<Env> crew(recipe, seed(1, 0));
  for (int generation = 1; generation <= recipe.generations && !t.is_late(); ++generation) {
    const wall_clock::time_point begin = wall_clock::now();
    const es::population candidates(recipe, seed(2, generation));
    const es::verdict seen = judged(t, crew, candidates, rest);
    t.report.show({.environment = Env::name,
                   .attempt = number,
                   .generation = generation,
                   .population_mean = seen.population_mean,
                   .fresh_mean = seen.probe_mean,
                   .rollouts = candidates.trials().size(),
                   .cut = seen.cut,
                   .seconds = seconds_since(begin)});
    if (seen.probe_mean >= Env::passing_score) {
      const es::population exam({.pairs = 0}, seed(3, generation));
      const double score = judged(t, crew, exam, std::nullopt).probe_mean;
      if (score >= Env::passing_score) return score;
    }
    crew.learn(seen.slices);
  }
  return std::nullopt;
}

// Attempts until one passes; true if one did.
template <class Env, template <class> class Crew>
bool train(training& t) {
  const wall_clock::time_point begin = wall_clock::now();
  std::optional<double> score;
  int number = 0;
  while (!score && !t.is_late()) score = attempt<Env, Crew>(t, ++number);
  t.report.settle();
  if (score) {
    std::printf("%s solved: mean of 100 fresh episodes %.1f, passing %.0f; %.2f s\n", Env::name,
                *score, Env::passing_score, seconds_since(begin));
  } else {
    std::printf("%s not solved within the limit of %.0f s, attempt %d; --limit raises it\n",
                Env::name, t.asked.limit_seconds, number);
  }
  return score.has_value();
}

template <template <class> class Crew>
bool train_all(training& t) {
  bool solved = true;
  if (t.asked.train_pendulum) solved = train<es::pendulum, Crew>(t) && solved;
  if (t.asked.train_cart_pole) solved = train<es::cart_pole, Crew>(t) && solved;
  const double seconds = seconds_since(t.begin);
  std::printf("seed %llu: %.2f s, %zu rollouts, %.0f a second, %zu cut\n",
              static_cast<unsigned long long>(t.asked.seed), seconds, t.rollouts,
              static_cast<double>(t.rollouts) / seconds, t.cut);
  return solved;
}

void show(const manta::runtime_stats& stats) {
  std::printf("%llu tasks, %llu actor calls, %.0f of both a second\n",
              static_cast<unsigned long long>(stats.tasks_run),
              static_cast<unsigned long long>(stats.actor_calls),
              static_cast<double>(stats.tasks_run + stats.actor_calls) / stats.uptime_seconds);
  for (std::size_t i = 0; i < stats.workers.size(); ++i) {
    const manta::worker_stats& worker = stats.workers[i];
    std::printf("worker %zu: %llu tasks, %.0f %% busy\n", i,
                static_cast<unsigned long long>(worker.tasks_run), 100.0 * worker.utilisation);
  }
}

bool run(const es::options& asked, int argc, char** argv) {
  if (asked.serial) {
    training t{.asked = asked, .report = es::reporter(asked.curve_file)};
    return train_all<es::serial_crew>(t);
  }
  manta::runtime rt(argc, argv);
  training t{.asked = asked, .report = es::reporter(asked.curve_file)};
  const bool solved = train_all<es::remote_crew>(t);
  show(rt.stats());
  return solved;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<es::options> asked = es::options_from(argc, argv);
  if (!asked) return 0;
  try {
    return run(*asked, argc, argv) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "evolution_strategies: %s\n", error.what());
    return 1;
  }
}
