// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/manta.hpp>

#include <cstddef>
#include <utility>
#include <vector>

#include "ranks.hpp"

// The ways to make every rank's pieces the sum over all ranks. Each is a class with
//   prepare()   the ranks hold their own numbers again
//   run()       the allreduce; returns when all ranks have the sum
//   wrong()     elements that are not the exact sum, over all ranks
namespace allreduce {

// One thread and no actor: what the machine can do when nothing is handed over.
class plain_loop {
 public:
  static constexpr const char* name = "one thread";

  plain_loop(std::size_t ranks, std::size_t elements) : elements_(elements), all_(ranks) {}

  void prepare() {
    for (std::size_t r = 0; r < all_.size(); ++r) all_[r] = fresh_pieces(r, all_.size(), elements_);
  }
  void run() {
    for (std::size_t p = 0; p < all_.size(); ++p) {
      for (std::size_t r = 1; r < all_.size(); ++r) add_to(all_[0][p], all_[r][p]);
      for (std::size_t r = 1; r < all_.size(); ++r) all_[r][p] = all_[0][p];
    }
  }
  std::size_t wrong() const {
    std::size_t wrong = 0;
    for (const auto& pieces : all_) wrong += count_wrong(pieces, all_.size(), elements_);
    return wrong;
  }

 private:
  std::size_t elements_;
  std::vector<std::vector<piece>> all_;
};

// What the four ways with actors share.
template <class Rank>
class with_actors {
 public:
  with_actors(std::size_t ranks, std::size_t elements) {
    for (std::size_t r = 0; r < ranks; ++r) {
      ranks_.push_back(manta::spawn<Rank>(r, ranks, elements));
    }
  }

  void prepare() {
    std::vector<manta::future<void>> done;
    for (const auto& r : ranks_) done.push_back(manta::remote<&Rank::refill>(r));
    manta::get(done);
  }
  std::size_t wrong() const {
    std::vector<manta::future<std::size_t>> wrong;
    for (const auto& r : ranks_) wrong.push_back(manta::remote<&Rank::wrong>(r));
    return total(0, manta::get(wrong));
  }

 protected:
  std::size_t size() const { return ranks_.size(); }
  const manta::actor<Rank>& at(std::size_t r) const { return ranks_[r % ranks_.size()]; }

  std::vector<manta::actor<Rank>> ranks_;
};

// The driver names every step and hands futures from one rank to the next. It makes all calls
// before the first has run: order follows from who needs what.
class driver_ring : public with_actors<rank> {
 public:
  static constexpr const char* name = "ring, by the driver";
  using with_actors::with_actors;

  void run() {
    std::vector<manta::future<piece>> sums;
    for (std::size_t p = 0; p < size(); ++p) sums.push_back(manta::remote<&rank::give>(at(p), p));
    for (std::size_t step = 1; step < size(); ++step) {
      for (std::size_t p = 0; p < size(); ++p) {
        sums[p] = manta::remote<&rank::add>(at(p + step), p, std::move(sums[p]));
      }
    }
    for (std::size_t step = 0; step < size(); ++step) {
      for (std::size_t p = 0; p < size(); ++p) {
        sums[p] = manta::remote<&rank::keep>(at(p + size() - 1 + step), p, std::move(sums[p]));
      }
    }
    for (const auto& s : sums) s.get();
  }
};

// Piece p goes up the tree 0 <- 1, 2 <- 3 to 6 <- ..., and down as one future that all ranks read.
class driver_tree : public with_actors<rank> {
 public:
  static constexpr const char* name = "tree, by the driver";
  using with_actors::with_actors;

  void run() {
    std::vector<manta::future<void>> kept;
    for (std::size_t p = 0; p < size(); ++p) {
      const manta::future<piece> sum = up(p, 0);
      for (const auto& r : ranks_) {
        kept.push_back(manta::remote<&rank::keep_shared>(r, p, sum));
      }
    }
    manta::get(kept);
  }

 private:
  manta::future<piece> up(std::size_t p, std::size_t r) const {
    const std::size_t left = 2 * r + 1;
    if (left >= size()) return manta::remote<&rank::give>(at(r), p);
    if (left + 1 == size()) return manta::remote<&rank::add>(at(r), p, up(p, left));
    return manta::remote<&rank::add_both>(at(r), p, up(p, left), up(p, left + 1));
  }
};

// The driver pushes each piece once; the ranks send it round twice on their own.
class peer_ring : public with_actors<ring_rank> {
 public:
  static constexpr const char* name = "ring, among peers";

  peer_ring(std::size_t ranks, std::size_t elements) : with_actors(ranks, elements) {
    std::vector<manta::future<void>> done;
    for (std::size_t r = 0; r < size(); ++r) {
      done.push_back(manta::remote<&ring_rank::connect>(at(r), at(r + 1)));
    }
    manta::get(done);
  }
  ~peer_ring() {
    for (const auto& r : ranks_) static_cast<void>(manta::remote<&ring_rank::disconnect>(r));
  }
  peer_ring(const peer_ring&) = delete;
  peer_ring& operator=(const peer_ring&) = delete;

  void run() {
    std::vector<manta::future<std::size_t>> done;
    for (std::size_t p = 0; p < size(); ++p) {
      done.push_back(manta::remote<&ring_rank::begin>(at(p), p));
    }
    for (const auto& d : done) d.get();
  }
};

// The driver speaks with the root only.
class peer_tree : public with_actors<tree_rank> {
 public:
  static constexpr const char* name = "tree, among peers";

  peer_tree(std::size_t ranks, std::size_t elements) : with_actors(ranks, elements) {
    std::vector<manta::future<void>> done;
    for (std::size_t r = 0; r < size(); ++r) {
      std::vector<manta::actor<tree_rank>> below;
      for (std::size_t c = 2 * r + 1; c <= 2 * r + 2 && c < size(); ++c) below.push_back(at(c));
      done.push_back(manta::remote<&tree_rank::connect>(at(r), std::move(below)));
    }
    manta::get(done);
  }

  void run() {
    std::vector<manta::future<std::size_t>> kept;
    for (std::size_t p = 0; p < size(); ++p) {
      manta::future<piece> sum = manta::remote<&tree_rank::collect>(at(0), p);
      kept.push_back(manta::remote<&tree_rank::spread>(at(0), p, std::move(sum)));
    }
    for (const auto& k : kept) k.get();
  }
};

}  // namespace allreduce
