// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>

// Connect Four: 7 columns of 6 places; whoever has four in a line wins.
namespace four {

constexpr int columns = 7;
constexpr int rows = 6;

// Two sets of places as bits, 7 to a column: the sixth row has an empty one above it, so that no
// line runs on from one column to the next.
//
//    5 12 19 26 33 40 47
//    .  .  .  .  .  .  .
//    0  7 14 21 28 35 42
class board {
 public:
  bool can_drop(int column) const { return ((mover_ | other_) & bit(column, rows - 1)) == 0; }
  bool is_full() const { return dropped_ == columns * rows; }
  int dropped() const { return dropped_; }

  // The player to move drops a disc; then it is the other one's turn.
  void drop(int column) {
    const std::uint64_t taken = mover_ | other_;
    const std::uint64_t disc = (taken + bit(column, 0)) & ~taken & column_bits(column);
    const std::uint64_t with_disc = mover_ | disc;
    mover_ = other_;
    other_ = with_disc;
    ++dropped_;
  }
  // Whether the player who has just moved has four in a line.
  bool has_won() const {
    // Up, down to the right, right, up to the right.
    for (const int step : {1, rows, rows + 1, rows + 2}) {
      const std::uint64_t pairs = other_ & (other_ >> step);
      if ((pairs & (pairs >> (2 * step))) != 0) return true;
    }
    return false;
  }

 private:
  static constexpr std::uint64_t bit(int column, int row) {
    return std::uint64_t{1} << (column * (rows + 1) + row);
  }
  static constexpr std::uint64_t column_bits(int column) {
    return ((std::uint64_t{1} << rows) - 1) << (column * (rows + 1));
  }

  std::uint64_t mover_ = 0;  // discs of the player to move
  std::uint64_t other_ = 0;  // and of the one who has just moved
  int dropped_ = 0;
};

}  // namespace four
