// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/manta.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "regression.hpp"
#include "shard.hpp"

// Three ways to train the same model: a plain loop, the server with workers in step, and the server
// with workers that run free. Each stops when the slope is small enough or the steps are used up.
namespace ps {

struct request {
  std::size_t shards = 0;
  std::size_t workers = 0;
  std::size_t steps = 0;       // of each worker, at most
  double small_enough = 1e-5;  // slope at which to stop
  double rate = 0;
};

struct outcome {
  vector weights;
  std::size_t updates = 0;  // steps of single shards
};

constexpr std::size_t steps_between_looks = 50;

inline std::size_t first_of(std::size_t shard, const samples& all, const request& asked) {
  return all.features * shard / asked.shards;
}

template <class Make>
auto make_shards(const samples& all, const request& asked, std::size_t workers, double rate,
                 Make make) {
  std::vector<decltype(make(all.features, all.features, workers, all.count(), rate))> out;
  for (std::size_t s = 0; s < asked.shards; ++s) {
    const std::size_t first = first_of(s, all, asked);
    out.push_back(make(first, first_of(s + 1, all, asked) - first, workers, all.count(), rate));
  }
  return out;
}

// Gradient descent on this thread, with the same cuts and sums as the synchronous server.
inline outcome train_plain(const samples& all, const request& asked) {
  auto shards =
      make_shards(all, asked, asked.workers, asked.rate, [](auto... of) { return shard(of...); });
  std::vector<samples> parts;
  for (std::size_t w = 0; w < asked.workers; ++w) parts.push_back(slice(all, w, asked.workers));
  outcome out;
  for (std::size_t step = 0; step < asked.steps; ++step) {
    std::vector<vector> pieces;
    for (const shard& s : shards) pieces.push_back(s.weights());
    out.weights = joined(pieces);
    if (step % steps_between_looks == 0 && slope(all, out.weights) < asked.small_enough) break;
    std::vector<vector> gradients;
    for (const samples& mine : parts) gradients.push_back(part_gradient(mine, pieces));
    for (shard& s : shards) s.push_all(gradients);
    out.updates += shards.size();
  }
  return out;
}

// What both servers hold: the shards, and each worker's samples as an object that its tasks share.
class server {
 public:
  server(const samples& all, const request& asked, double rate)
      : all_(all), asked_(asked), shards_(make_shards(all, asked, asked.workers, rate, spawned)) {
    for (std::size_t w = 0; w < asked.workers; ++w) {
      parts_.push_back(manta::put(slice(all, w, asked.workers)));
    }
  }

  // One future for each shard's weights.
  std::vector<manta::future<vector>> pull() const {
    std::vector<manta::future<vector>> pieces;
    for (const auto& s : shards_) pieces.push_back(manta::remote<&shard::pull>(s));
    return pieces;
  }

 protected:
  static manta::actor<shard> spawned(std::size_t first, std::size_t size, std::size_t workers,
                                     std::size_t count, double rate) {
    return manta::spawn<shard>(first, size, workers, count, rate);
  }

  const samples& all_;
  const request& asked_;
  std::vector<manta::actor<shard>> shards_;
  std::vector<manta::future<samples>> parts_;
};

// All workers in step. The driver waits only when it looks at the slope: the tasks of the 50 steps
// in between are made ahead, and each starts when what it needs is there.
class synchronous : public server {
 public:
  synchronous(const samples& all, const request& asked) : server(all, asked, asked.rate) {}

  outcome train() {
    outcome out;
    for (std::size_t step = 0; step < asked_.steps; ++step) {
      const std::vector<manta::future<vector>> pieces = pull();
      if (step % steps_between_looks == 0) {
        if (slope(all_, joined(manta::get(pieces))) < asked_.small_enough) break;
      }
      std::vector<manta::future<vector>> gradients;
      for (const auto& mine : parts_) {
        gradients.push_back(manta::remote<part_gradient>(mine, pieces));
      }
      for (const auto& s : shards_)
        static_cast<void>(manta::remote<&shard::push_all>(s, gradients));
      out.updates += shards_.size();
    }
    out.weights = joined(manta::get(pull()));
    return out;
  }
};

// A worker's turn: pull what is there, send what follows from it, `steps` times. Nobody waits for
// the other workers, and nobody for the pushes.
inline std::size_t free_steps(std::size_t worker, std::size_t steps, const samples& mine,
                              const std::vector<manta::actor<shard>>& shards) {
  for (std::size_t step = 0; step < steps; ++step) {
    std::vector<manta::future<vector>> pulled;
    for (const auto& s : shards) pulled.push_back(manta::remote<&shard::pull>(s));
    const std::vector<vector> pieces = manta::get(std::move(pulled));
    const vector gradient = part_gradient(mine, pieces);
    auto from = gradient.begin();
    for (std::size_t s = 0; s < shards.size(); ++s) {
      const auto last = from + static_cast<std::ptrdiff_t>(pieces[s].size());
      static_cast<void>(manta::remote<&shard::push>(shards[s], worker, vector(from, last)));
      from = last;
    }
  }
  return worker;
}

// Workers that run free. Whoever has done its turn gets the next one at once; the driver looks at
// the slope meanwhile. Old gradients allow smaller steps only.
class asynchronous : public server {
 public:
  asynchronous(const samples& all, const request& asked)
      : server(all, asked, asked.rate / static_cast<double>(2 * asked.workers)) {}

  outcome train() {
    constexpr std::size_t steps = 10;
    std::size_t turns = 0;
    std::vector<manta::future<std::size_t>> running;
    for (std::size_t w = 0; w < asked_.workers; ++w) running.push_back(turn(w, steps));
    while (turns < asked_.workers * asked_.steps / steps) {
      auto [ready, rest] = manta::wait(std::move(running), {.count = 1});
      running = std::move(rest);
      running.push_back(turn(ready.front().get(), steps));
      ++turns;
      const bool is_time_to_look = turns % asked_.workers == 0;
      if (is_time_to_look && slope(all_, joined(manta::get(pull()))) < asked_.small_enough) break;
    }
    manta::get(running);
    turns += running.size();
    return {.weights = joined(manta::get(pull())), .updates = turns * steps * shards_.size()};
  }

 private:
  manta::future<std::size_t> turn(std::size_t worker, std::size_t steps) {
    return manta::remote<free_steps>(worker, steps, parts_[worker], shards_);
  }
};

}  // namespace ps
