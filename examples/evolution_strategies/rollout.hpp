// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "policy.hpp"
#include "random_stream.hpp"

namespace es {

// What a rollout is asked to do: two seeds and a step length instead of a perturbed policy.
struct trial {
  int index = 0;                   // its place in the generation
  double reach = 0.0;              // +sigma, -sigma (the mirror image), or 0: as the policy is
  std::uint64_t noise_seed = 0;    // the direction in which the policy is moved
  std::uint64_t episode_seed = 0;  // the start of the episode
};

// What comes back.
struct outcome {
  int index = 0;
  double score = 0.0;
  int steps = 0;
};

template <class Env>
using policy_of = perceptron<Env::observation_size>;

// Plays one episode with `policy` moved by `reach` along the noise. A pure function of its
// arguments, so it may run anywhere, in any order, and again.
template <class Env>
outcome rollout(const parameters& policy, const trial& t) {
  std::array<double, policy_of<Env>::size> values;
  random_stream noise(t.noise_seed);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = t.reach == 0.0 ? policy[i] : policy[i] + t.reach * noise.normal();
  }
  const policy_of<Env> brain(values);
  random_stream random(t.episode_seed);
  Env env = Env::start(random);
  outcome result{.index = t.index, .score = 0.0, .steps = 0};
  while (result.steps < Env::step_limit && !env.is_over()) {
    result.score += env.step(brain.signal(env.observation()));
    ++result.steps;
  }
  return result;
}

}  // namespace es
