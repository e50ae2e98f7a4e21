// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/manta.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "evolution.hpp"
#include "population.hpp"
#include "rollout.hpp"

// Who plays the rollouts and makes the update. The two crews below are the whole difference between
// the program and its plain twin; read them side by side.
namespace es {

// How long the last 5 % of the rollouts may take; unset means for ever.
using patience = std::optional<std::chrono::nanoseconds>;

// --serial: this thread does everything.
template <class Env>
class serial_crew {
 public:
  serial_crew(const recipe& r, std::uint64_t seed)
      : policy_(policy_of<Env>::fresh(seed)), root_(policy_, r.learning_rate) {
    for (int i = 0; i < r.leaves; ++i) leaves_.emplace_back(policy_of<Env>::size);
  }

  std::vector<outcome> play(const std::vector<trial>& trials, patience) {
    std::vector<outcome> outcomes;
    for (const trial& t : trials) outcomes.push_back(rollout<Env>(policy_, t));
    return outcomes;
  }

  void learn(const std::vector<std::vector<weighted_seed>>& slices) {
    std::vector<parameters> sums;
    for (std::size_t i = 0; i < slices.size(); ++i) sums.push_back(leaves_[i].sum(slices[i]));
    policy_ = root_.update(std::move(sums));
  }

 private:
  parameters policy_;
  trainer root_;
  std::vector<noise_leaf> leaves_;
};

// Waits for 95 % of the rollouts however long they take, since a slow machine is no straggler, and
// then for the rest within their time. Who misses it is left out; that work is done in vain.
inline std::vector<outcome> first_in(const std::vector<manta::future<outcome>>& asked,
                                     patience for_rest) {
  auto [ready, rest] = manta::wait(asked, {.count = asked.size() - asked.size() / 20});
  const std::size_t left = rest.size();
  auto [tardy, late] = manta::wait(std::move(rest), {.count = left, .timeout = for_rest});
  std::vector<outcome> outcomes;
  for (const auto& o : ready) outcomes.push_back(o.get());
  for (const auto& o : tardy) outcomes.push_back(o.get());
  return outcomes;
}

// The same on all cores: the policy is a future that 2,100 tasks wait for and share, the root and
// the leaves are actors, and the sums go from leaves to root without passing through here.
template <class Env>
class remote_crew {
 public:
  remote_crew(const recipe& r, std::uint64_t seed)
      : policy_(manta::put(policy_of<Env>::fresh(seed))),
        root_(manta::spawn<trainer>(policy_, r.learning_rate)) {
    for (int i = 0; i < r.leaves; ++i) {
      leaves_.push_back(manta::spawn<noise_leaf>(policy_of<Env>::size));
    }
  }

  std::vector<outcome> play(const std::vector<trial>& trials, patience rest) {
    std::vector<manta::future<outcome>> outcomes;
    for (const trial& t : trials) outcomes.push_back(manta::remote<rollout<Env>>(policy_, t));
    return first_in(outcomes, rest);
  }

  void learn(const std::vector<std::vector<weighted_seed>>& slices) {
    std::vector<manta::future<parameters>> sums;
    for (std::size_t i = 0; i < slices.size(); ++i) {
      sums.push_back(manta::remote<&noise_leaf::sum>(leaves_[i], slices[i]));
    }
    policy_ = manta::remote<&trainer::update>(root_, std::move(sums));
  }

 private:
  manta::future<parameters> policy_;
  manta::actor<trainer> root_;
  std::vector<manta::actor<noise_leaf>> leaves_;
};

}  // namespace es
