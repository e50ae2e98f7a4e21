// SPDX-License-Identifier: Apache-2.0
//
// What a late scheduler costs: the ring allreduce of examples/allreduce, its ranks in 4 nodes, each
// of whose calls begins so much later than it could.
//
// The engine has no setting that makes it late, and needs none: each call sleeps before it does its
// part. A rank has one call in each step of the ring, and the next step needs it, so a sleep there
// delays the ring exactly as a scheduler would that says "go" so much later.
#include <manta/manta.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../examples/allreduce/ranks.hpp"
#include "harness/measure.hpp"
#include "ours/cluster_jobs.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

using allreduce::piece;

class late_rank : public allreduce::rank {
 public:
  late_rank(std::size_t number, std::size_t ranks, std::size_t elements, int late_ms)
      : rank(number, ranks, elements), late_(late_ms) {}

  piece give_late(std::size_t p) const {
    sleep();
    return give(p);
  }
  piece add_late(std::size_t p, piece sum) const {
    sleep();
    return add(p, std::move(sum));
  }
  piece keep_late(std::size_t p, piece sum) {
    sleep();
    return keep(p, std::move(sum));
  }

 private:
  void sleep() const {
    if (late_.count() > 0) std::this_thread::sleep_for(late_);
  }
  std::chrono::milliseconds late_;
};

class late_ring {
 public:
  late_ring(const manta::runtime& rt, std::size_t elements, int late_ms) {
    const auto nodes = rt.nodes();
    for (std::size_t r = 0; r < nodes.size(); ++r) {
      const manta::actor_options there{.where = manta::on_node(nodes[r].name)};
      ranks_.push_back(manta::spawn<late_rank>.with(there)(r, nodes.size(), elements, late_ms));
    }
  }

  void prepare() const {
    std::vector<manta::future<void>> done;
    for (const auto& r : ranks_) done.push_back(manta::remote<&late_rank::refill>(r));
    manta::get(done);
  }
  // As the example's ring by the driver: it makes all calls at once, and passes futures.
  void run() const {
    const std::size_t size = ranks_.size();
    const auto at = [&](std::size_t r) { return ranks_[r % size]; };
    std::vector<manta::future<piece>> sums;
    for (std::size_t p = 0; p < size; ++p) {
      sums.push_back(manta::remote<&late_rank::give_late>(at(p), p));
    }
    for (std::size_t step = 1; step < size; ++step) {
      for (std::size_t p = 0; p < size; ++p) {
        sums[p] = manta::remote<&late_rank::add_late>(at(p + step), p, std::move(sums[p]));
      }
    }
    for (std::size_t step = 0; step < size; ++step) {
      for (std::size_t p = 0; p < size; ++p) {
        const auto& to = at(p + size - 1 + step);
        sums[p] = manta::remote<&late_rank::keep_late>(to, p, std::move(sums[p]));
      }
    }
    for (const auto& s : sums) s.get();
  }
  bool is_right() const {
    std::size_t wrong = 0;
    for (const auto& r : ranks_) wrong += manta::remote<&late_rank::wrong>(r).get();
    return wrong == 0;
  }

 private:
  std::vector<manta::actor<late_rank>> ranks_;
};

contestant late_by(int late_ms) {
  contestant c{cluster_late, "manta, +" + std::to_string(late_ms) + " ms", side::ours};
  c.start = [=](const plan& p) -> body {
    const std::size_t elements = p.quick ? 25'000 : 2'500'000;
    const int rounds = p.quick ? 1 : 5;
    const auto rt = job_with_store(4, std::size_t{p.quick ? 256U : 2200U} << 20U, true);
    const auto ring = std::make_shared<late_ring>(*rt, elements, late_ms);
    return [=](const turn&) {
      static_cast<void>(rt);
      return median_ms(rounds, [&] {
        ring->prepare();
        const double before = now_s();
        ring->run();
        const double took = now_s() - before;
        check(ring->is_right(), "every element of the sum");
        return took;
      });
    };
  };
  return c;
}

}  // namespace

void add_our_late_calls(suite& s) {
  for (int late_ms : {0, 1, 5, 10}) s.add(late_by(late_ms));
}

}  // namespace bench
