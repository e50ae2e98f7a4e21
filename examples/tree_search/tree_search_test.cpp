// SPDX-License-Identifier: Apache-2.0
// The board against one that is easy to read, and the search in positions where one move is right.
#include <array>
#include <cstdio>
#include <initializer_list>

#include "search.hpp"

namespace {

int failures = 0;

void check(const char* what, bool holds) {
  if (holds) return;
  std::printf("failed: %s\n", what);
  ++failures;
}

// A board as a table of whose disc lies where.
class table {
 public:
  bool can_drop(int column) const { return height_[index(column)] < four::rows; }
  void drop(int column, int player) { at_[index(column)][height_[index(column)]++] = player; }
  bool has_won(int player) const {
    for (int column = 0; column < four::columns; ++column) {
      for (int row = 0; row < four::rows; ++row) {
        if (has_line(player, column, row, 0, 1) || has_line(player, column, row, 1, 0) ||
            has_line(player, column, row, 1, 1) || has_line(player, column, row, 1, -1)) {
          return true;
        }
      }
    }
    return false;
  }

 private:
  static std::size_t index(int column) { return static_cast<std::size_t>(column); }
  bool has_line(int player, int column, int row, int right, int up) const {
    for (int i = 0; i < 4; ++i, column += right, row += up) {
      if (column >= four::columns || row < 0 || row >= four::rows) return false;
      if (at_[index(column)][index(row)] != player) return false;
    }
    return true;
  }

  std::array<std::array<int, four::rows>, four::columns> at_{};
  std::array<std::size_t, four::columns> height_{};
};

void board_agrees_with_the_table() {
  examples::random_stream random(1);
  int won = 0;
  for (int game = 0; game < 2000; ++game) {
    four::board fast;
    table plain;
    for (int player = 1; !fast.is_full(); player = 3 - player) {
      const int column = static_cast<int>(random.below(four::columns));
      if (fast.can_drop(column) != plain.can_drop(column)) check("can_drop agrees", false);
      if (!plain.can_drop(column)) {
        player = 3 - player;
        continue;
      }
      fast.drop(column);
      plain.drop(column, player);
      if (fast.has_won() != plain.has_won(player)) check("has_won agrees", false);
      if (fast.has_won()) break;
    }
    won += fast.has_won() ? 1 : 0;
  }
  check("nearly all random games are won", won > 1900 && won < 2000);
}

four::board after(std::initializer_list<int> moves) {
  four::board at;
  for (const int column : moves) at.drop(column);
  return at;
}

int chosen(const four::board& at) {
  return four::favourite(four::grown<true>(four::root(at), 2000, 7, {.grain = 50}));
}

void search_sees_what_is_urgent() {
  check("wins upwards", chosen(after({3, 0, 3, 0, 3, 6})) == 3);
  const int side = chosen(after({1, 1, 2, 2, 3, 6}));
  check("wins to the side", side == 0 || side == 4);
  check("stops three upwards", chosen(after({3, 0, 3, 0, 3})) == 3);
  check("stops three in a row", chosen(after({0, 0, 1, 1, 2})) == 3);
  check("wins before it stops", chosen(after({6, 0, 6, 0, 6, 0})) == 6);
}

void trees_keep_count() {
  const four::plan how{.grain = 30};
  const four::node tree = four::grown<true>(four::root({}), 5000, 3, how);
  int visits = 0;
  double lost = 0;
  for (const four::node& child : tree.children) {
    visits += child.visits;
    lost += child.points;
  }
  check("each playout is counted once", tree.visits == 5000 && visits == 5000);
  check("the child's points are the parent's loss", tree.points == 5000 - lost);
  check("the middle is best", four::favourite(tree) == 3);
  check("a seed gives one tree",
        four::is_same(tree, four::grown<false>(four::root({}), 5000, 3, how)));
  check("another seed gives another tree",
        !four::is_same(tree, four::grown<true>(four::root({}), 5000, 4, how)));
}

}  // namespace

int main(int argc, char** argv) {
  const manta::runtime rt(argc, argv);
  board_agrees_with_the_table();
  search_sees_what_is_urgent();
  trees_keep_count();
  std::printf("tree_search_test: %d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
