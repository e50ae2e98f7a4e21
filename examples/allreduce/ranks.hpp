// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/manta.hpp>

#include <cstddef>
#include <utility>
#include <vector>

#include "vectors.hpp"

// The actors: what a rank can do when the driver tells it each step, and the two kinds that need
// only a first push, since they hold handles of each other.
namespace allreduce {

// Holds its pieces and answers for them.
class rank {
 public:
  rank(std::size_t number, std::size_t ranks, std::size_t elements)
      : number_(number), ranks_(ranks), elements_(elements) {
    refill();
  }

  void refill() { pieces_ = fresh_pieces(number_, ranks_, elements_); }
  std::size_t wrong() const { return count_wrong(pieces_, ranks_, elements_); }

  // A copy of piece p.
  piece give(std::size_t p) const { return pieces_[p]; }
  // The sum goes through: it comes in as a value and leaves as the result. When nobody else holds
  // the future that it came from, it is moved, and no element is copied.
  piece add(std::size_t p, piece sum) const {
    add_to(sum, pieces_[p]);
    return sum;
  }
  piece add_both(std::size_t p, piece sum, const piece& other) const {
    add_to(sum, other);
    return add(p, std::move(sum));
  }
  // The final sum: a copy stays here, the value goes on.
  piece keep(std::size_t p, piece sum) {
    pieces_[p] = sum;
    return sum;
  }
  // The same for a sum that many ranks read in place.
  void keep_shared(std::size_t p, const piece& sum) { pieces_[p] = sum; }

 protected:
  std::size_t number_;
  std::size_t ranks_;
  std::size_t elements_;
  std::vector<piece> pieces_;
};

// Sends to the next in the ring. Each method answers with the future that the next one's method
// gives, so that the driver's future is ready when the last of them has done its part (delegation;
// nobody waits on the way).
class ring_rank : public rank {
 public:
  using rank::rank;

  void connect(manta::actor<ring_rank> next) { next_ = std::move(next); }
  // A ring of handles keeps itself alive: cut it.
  void disconnect() { next_ = {}; }

  // Piece p begins its first round here, as the sum so far.
  manta::future<std::size_t> begin(std::size_t p) { return collect(p, ranks_, piece()); }

  // First round: `left` ranks have still to add theirs, this one included.
  manta::future<std::size_t> collect(std::size_t p, std::size_t left, piece sum) {
    if (left == ranks_) {
      sum = pieces_[p];
    } else {
      add_to(sum, pieces_[p]);
    }
    if (left == 1) return spread(p, ranks_, std::move(sum));
    return manta::remote<&ring_rank::collect>(next_, p, left - 1, std::move(sum));
  }
  // Second round: `left` ranks have still to keep it. The last one answers with the piece's number.
  manta::future<std::size_t> spread(std::size_t p, std::size_t left, piece sum) {
    pieces_[p] = sum;
    if (left == 1) return manta::put(p);
    return manta::remote<&ring_rank::spread>(next_, p, left - 1, std::move(sum));
  }

 private:
  manta::actor<ring_rank> next_;
};

inline piece sum_of(piece own, const piece& other) {
  add_to(own, other);
  return own;
}
inline std::size_t total(std::size_t own, const std::vector<std::size_t>& others) {
  for (const std::size_t one : others) own += one;
  return own;
}

// Has the ranks 2 i + 1 and 2 i + 2 below it, where they exist.
class tree_rank : public rank {
 public:
  using rank::rank;

  void connect(std::vector<manta::actor<tree_rank>> below) { below_ = std::move(below); }

  // The sum of everything at and below this rank. It asks those below and names the task that will
  // add what they answer; nobody waits.
  manta::future<piece> collect(std::size_t p) {
    manta::future<piece> sum = manta::put(pieces_[p]);
    for (const auto& child : below_) {
      sum = manta::remote<sum_of>(std::move(sum), manta::remote<&tree_rank::collect>(child, p));
    }
    return sum;
  }
  // The number of ranks at and below this one that have kept the sum.
  manta::future<std::size_t> spread(std::size_t p, const piece& sum) {
    std::vector<manta::future<std::size_t>> kept;
    for (const auto& child : below_) {
      kept.push_back(manta::remote<&tree_rank::spread>(child, p, sum));
    }
    pieces_[p] = sum;
    return manta::remote<total>(std::size_t{1}, std::move(kept));
  }

 private:
  std::vector<manta::actor<tree_rank>> below_;
};

}  // namespace allreduce
