// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "regression.hpp"

namespace ps {

// One shard of the server: the weights from `first` on, and the newest gradient that each worker
// sent for them. A class like any other: the plain loop calls it, and as an actor it is the server.
//
// A step uses the newest gradient of every worker, however old it is. In the synchronous way all
// are of this step, and it is gradient descent; in the asynchronous one it is the incremental
// aggregated gradient method (Blatt, Hero, Gauchman 2007), which reaches the same optimum, not only
// its surroundings, as long as every worker goes on sending.
class shard {
 public:
  shard(std::size_t first, std::size_t size, std::size_t workers, std::size_t samples, double rate)
      : first_(first),
        weights_(size),
        sum_(size),
        newest_(workers, vector(size)),
        samples_(static_cast<double>(samples)),
        rate_(rate) {}

  const vector& weights() const { return weights_; }
  vector pull() const { return weights_; }

  // One worker's gradient for this shard's weights; a step at once.
  void push(std::size_t worker, const vector& gradient) {
    for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += gradient[i] - newest_[worker][i];
    newest_[worker] = gradient;
    step();
  }

  // The gradients of all workers, for all weights; one step. The sum is made anew in the order of
  // the workers.
  void push_all(const std::vector<vector>& gradients) {
    for (std::size_t i = 0; i < sum_.size(); ++i) {
      sum_[i] = 0;
      for (const vector& g : gradients) sum_[i] += g[first_ + i];
    }
    step();
  }

 private:
  void step() {
    for (std::size_t i = 0; i < sum_.size(); ++i) {
      weights_[i] -= rate_ * (sum_[i] / samples_ + penalty * weights_[i]);
    }
  }

  std::size_t first_;
  vector weights_;
  vector sum_;
  std::vector<vector> newest_;
  double samples_;
  double rate_;
};

inline vector joined(const std::vector<vector>& pieces) {
  vector out;
  for (const vector& p : pieces) out.insert(out.end(), p.begin(), p.end());
  return out;
}

// What a worker computes from its samples and the pulled pieces of the weights.
inline vector part_gradient(const samples& mine, const std::vector<vector>& pieces) {
  return gradient_sum(mine, joined(pieces));
}

}  // namespace ps
