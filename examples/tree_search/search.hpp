// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/manta.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "../common/random.hpp"
#include "board.hpp"

// Monte Carlo tree search (UCT: Kocsis and Szepesvari 2006), alone and on tasks that make tasks.
namespace four {

// A position and what is known of it. A tree is a value: it moves into a task and comes back as the
// task's result, grown.
struct node {
  board at;
  int column = -1;    // the move that led here
  int visits = 0;     // playouts that went through here
  double points = 0;  // of the player who moved here: 1 for a win, 0.5 for a draw
  bool is_over = false;
  std::vector<node> children;
};

// The points of the player who has just moved, if both go on at random.
inline double playout(board at, examples::random_stream& random) {
  bool is_first = true;  // whether the one who has just moved is the one who is asked about
  for (;;) {
    if (at.has_won()) return is_first ? 1 : 0;
    if (at.is_full()) return 0.5;
    int column = static_cast<int>(random.below(columns));
    while (!at.can_drop(column)) column = (column + 1) % columns;
    at.drop(column);
    is_first = !is_first;
  }
}

inline void expand(node& tree) {
  for (int column = 0; column < columns; ++column) {
    if (!tree.at.can_drop(column)) continue;
    node child;
    child.at = tree.at;
    child.at.drop(column);
    child.column = column;
    child.is_over = child.at.has_won() || child.at.is_full();
    tree.children.push_back(std::move(child));
  }
}

// How much child number `i` deserves the next playout: what it earned, and how little it is known.
// `promised` playouts count as visits that earned as much as those before.
inline double upper_bound(const node& tree, std::size_t i, int promised, int promised_in_all) {
  const node& child = tree.children[i];
  if (child.visits == 0) return promised == 0 ? 1e9 : 1e6 / (1 + promised);
  const double mean = child.points / child.visits;
  return mean +
         std::sqrt(2 * std::log(tree.visits + promised_in_all + 1) / (child.visits + promised));
}

template <class Promised>
std::size_t best_child(const node& tree, const Promised& promised, int promised_in_all) {
  std::size_t best = 0;
  double most = -1;
  for (std::size_t i = 0; i < tree.children.size(); ++i) {
    const double bound = upper_bound(tree, i, promised[i], promised_in_all);
    if (bound <= most) continue;
    best = i;
    most = bound;
  }
  return best;
}

constexpr std::array<int, columns> no_promises{};

// One playout from the best leaf; the points of the player who moved to `tree`.
inline double visit(node& tree, examples::random_stream& random) {
  double points = 0;
  if (tree.is_over || tree.visits == 0) {
    points = playout(tree.at, random);
  } else {
    if (tree.children.empty()) expand(tree);
    points = 1 - visit(tree.children[best_child(tree, no_promises, 0)], random);
  }
  ++tree.visits;
  tree.points += points;
  return points;
}

// How a search is cut into tasks: a subtree that gets fewer playouts than `grain` at once is grown
// on the spot. The cut decides what the tree becomes, so it must not depend on the machine.
struct plan {
  int grain = 200;
  int rounds = 8;
};

// The next `budget` playouts of `tree`, divided among its children by what is known now.
inline std::array<int, columns> shares(const node& tree, int budget) {
  std::array<int, columns> promised{};
  for (int i = 0; i < budget; ++i) ++promised[best_child(tree, promised, i)];
  return promised;
}

// `tree` after `budget` more playouts. In rounds: what the last one found decides where the next
// one's playouts go, and a child that gets many is a task, which does the same with its own
// children. With OnTasks false the same calls are made on this thread, and since each has its seed,
// both give the same tree.
template <bool OnTasks>
node grown(node tree, int budget, std::uint64_t seed, plan how) {
  const int rounds = std::min(how.rounds, budget / (2 * how.grain));
  if (rounds < 2 || tree.is_over) {
    examples::random_stream random(seed);
    for (int i = 0; i < budget; ++i) visit(tree, random);
    return tree;
  }
  if (tree.children.empty()) expand(tree);
  const double lost_before = tree.visits - tree.points;
  double lost_children_before = 0;
  for (const node& child : tree.children) lost_children_before += child.points;
  for (int round = 0; round < rounds; ++round) {
    const int slice = budget * (round + 1) / rounds - budget * round / rounds;
    const std::array<int, columns> promised = shares(tree, slice);
    std::array<manta::future<node>, columns> tasks;
    for (std::size_t i = 0; i < tree.children.size(); ++i) {
      const std::uint64_t own_seed =
          examples::sub_seed(seed, static_cast<std::uint64_t>(round * columns) + i);
      node& child = tree.children[i];
      if (OnTasks && promised[i] >= how.grain) {
        tasks[i] = manta::remote<grown<true>>(std::move(child), promised[i], own_seed, how);
      } else if (promised[i] > 0) {
        child = grown<false>(std::move(child), promised[i], own_seed, how);
      }
    }
    double points = lost_before - lost_children_before;
    for (std::size_t i = 0; i < tree.children.size(); ++i) {
      // Runs here when no worker has begun it.
      if (tasks[i].valid()) tree.children[i] = std::move(tasks[i]).get();
      points += tree.children[i].points;
    }
    tree.visits += slice;
    tree.points = tree.visits - points;
  }
  return tree;
}

// The move that was looked at most.
inline int favourite(const node& tree) {
  const auto most =
      std::max_element(tree.children.begin(), tree.children.end(),
                       [](const node& a, const node& b) { return a.visits < b.visits; });
  return most->column;
}

inline node root(const board& at) {
  node tree;
  tree.at = at;
  return tree;
}

// Whether two trees are the same, node by node.
inline bool is_same(const node& a, const node& b) {
  return a.column == b.column && a.visits == b.visits && a.points == b.points &&
         std::equal(a.children.begin(), a.children.end(), b.children.begin(), b.children.end(),
                    is_same);
}

}  // namespace four
