// SPDX-License-Identifier: Apache-2.0
// The environments against values worked out from the published equations, and the arithmetic of
// the search against cases small enough for a pencil.
#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>
#include <vector>

#include "cart_pole.hpp"
#include "evolution.hpp"
#include "pendulum.hpp"
#include "population.hpp"
#include "rollout.hpp"

namespace {

int failures = 0;

void near(const char* what, double found, double wanted, double tolerance = 1e-12) {
  if (std::abs(found - wanted) <= tolerance) return;
  std::printf("%s: found %.17g, wanted %.17g\n", what, found, wanted);
  ++failures;
}

void pendulum_follows_its_equations() {
  es::pendulum hanging(std::numbers::pi, 0.0);
  near("reward hanging still", hanging.step(0.0), -std::numbers::pi * std::numbers::pi);
  es::pendulum level(std::numbers::pi / 2, 0.0);
  // 3 g / 2 l = 15, and 3 times the torque of 2, for 0.05 s; asking for 5 times as much is clamped.
  near("reward level", level.step(5.0), -std::numbers::pi * std::numbers::pi / 4 - 0.004);
  near("speed level", level.speed(), 1.05);
  near("angle level", level.angle(), std::numbers::pi / 2 + 0.0525);
  es::pendulum fast(std::numbers::pi / 2, 7.9);
  near("reward fast", fast.step(0.0), -std::numbers::pi * std::numbers::pi / 4 - 6.241);
  near("speed is limited", fast.speed(), 8.0);
  near("a full turn is no tilt", es::pendulum::within_half_turn(2 * std::numbers::pi + 0.25), 0.25);
  near("left of upright", es::pendulum::within_half_turn(2 * std::numbers::pi - 0.25), -0.25);
}

void cart_pole_follows_its_equations() {
  es::cart_pole still({0.0, 0.0, 0.0, 0.0});
  near("reward", still.step(1.0), 1.0);
  // shove = 10 / 1.1; angular = -shove / (0.5 (4/3 - 0.1 / 1.1)),
  // linear = shove - 0.05 angular / 1.1
  const double angular = -(10 / 1.1) / (0.5 * (4.0 / 3 - 0.1 / 1.1));
  near("position moves by the old velocity", still.now().position, 0.0);
  near("velocity", still.now().velocity, 0.02 * (10 / 1.1 - 0.05 * angular / 1.1));
  near("angular velocity", still.now().angular_velocity, 0.02 * angular);
  es::cart_pole left({0.0, 0.0, 0.0, 0.0});
  left.step(-0.1);
  near("left mirrors right", left.now().velocity, -still.now().velocity);
  near("within", es::cart_pole({2.4, 0, 0.209, 0}).is_over(), 0.0);
  near("beyond the edge", es::cart_pole({-2.41, 0, 0, 0}).is_over(), 1.0);
  near("beyond 12 degrees", es::cart_pole({0, 0, 0.21, 0}).is_over(), 1.0);
}

template <class Env>
void starts_fill_their_range(double low, double high) {
  es::random_stream random(11);
  double least = 0.0;
  double most = 0.0;
  for (int i = 0; i < 2000; ++i) {
    const double last = Env::start(random).observation().back();
    least = std::fmin(least, last);
    most = std::fmax(most, last);
  }
  near("least start", least, low, 0.01 * (high - low));
  near("greatest start", most, high, 0.01 * (high - low));
}

void rollouts_end_in_time() {
  const es::parameters idle(es::policy_of<es::pendulum>::size, 0.0);
  near("pendulum's steps", es::rollout<es::pendulum>(idle, {}).steps, 200);
  const es::parameters push(es::policy_of<es::cart_pole>::size, 0.0);
  const es::outcome fallen = es::rollout<es::cart_pole>(push, {.index = 3, .episode_seed = 5});
  near("a pole pushed one way falls at once", fallen.steps < 15 && fallen.index == 3, 1.0);
  near("each step earns 1", fallen.score, fallen.steps);

  // A rod is balanced by pushing towards where it leans and moves: z = relu(z) - relu(-z).
  es::parameters balance(es::policy_of<es::cart_pole>::size, 0.0);
  const double row[] = {0.1, 0.3, 3.0, 1.0};
  for (std::size_t i = 0; i < 4; ++i) {
    balance[i] = row[i];
    balance[es::policy_of<es::cart_pole>::row + i] = -row[i];
  }
  balance[5] = 1.0;
  balance[es::policy_of<es::cart_pole>::row + 5] = -1.0;
  near("the longest episode", es::rollout<es::cart_pole>(balance, {.episode_seed = 5}).steps, 500);
}

void ranks_are_centred_and_draws_share() {
  const std::vector<double> ranks = es::centred_ranks({30.0, -1.0, 7.0, 7.0, 900.0});
  const std::vector<double> wanted = {0.25, -0.5, -0.125, -0.125, 0.5};
  for (std::size_t i = 0; i < wanted.size(); ++i) near("rank", ranks[i], wanted[i]);
}

void a_missing_outcome_drops_its_pair_alone() {
  const es::recipe small{.pairs = 3, .episodes = 2, .probes = 2, .sigma = 0.5, .leaves = 2};
  const es::population candidates(small, 1);
  std::vector<es::outcome> outcomes;
  for (const es::trial& t : candidates.trials()) {
    if (t.index != 6) outcomes.insert(outcomes.begin(), {t.index, double(t.index), 1});
  }
  const es::verdict v = candidates.judge(outcomes);
  near("cut", double(v.cut), 1);
  near("mean of fresh episodes", v.probe_mean, 12.5);
  near("population mean", v.population_mean, 60.0 / 11.0);
  near("one pair a leaf", double(v.slices[0].size() * v.slices[1].size()), 1);
  // Of four candidates the mirrored one is always the next better: 1/3 of a rank, times
  // 1 / (2 x 2 x 0.5).
  near("weight", v.slices[0][0].weight, -1.0 / 6);
  near("the pair after the dropped one",
       double(v.slices[1][0].noise_seed == candidates.trials().at(8).noise_seed), 1);
  near("nothing arrived", double(candidates.judge({}).slices[0].size()), 0);
}

}  // namespace

int main() {
  pendulum_follows_its_equations();
  cart_pole_follows_its_equations();
  starts_fill_their_range<es::pendulum>(-1.0, 1.0);
  starts_fill_their_range<es::cart_pole>(-0.05, 0.05);
  rollouts_end_in_time();
  ranks_are_centred_and_draws_share();
  a_missing_outcome_drops_its_pair_alone();
  std::printf("evolution_strategies_test: %d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
