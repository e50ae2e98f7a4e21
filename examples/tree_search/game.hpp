// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "../common/random.hpp"
#include "board.hpp"
#include "search.hpp"

namespace four {

enum class ending { won, drawn, lost };  // for the search

struct game {
  ending end = ending::drawn;
  int moves = 0;
};

// A game of the search against a player who drops anywhere. As a task it makes the tasks of each
// of its searches.
template <bool OnTasks>
game play(std::uint64_t seed, bool search_begins, int playouts, plan how) {
  examples::random_stream random(examples::sub_seed(seed, 0));
  board at;
  for (bool is_search = search_begins;; is_search = !is_search) {
    int column = 0;
    if (is_search) {
      const auto own_seed = examples::sub_seed(seed, 1 + static_cast<std::uint64_t>(at.dropped()));
      column = favourite(grown<OnTasks>(root(at), playouts, own_seed, how));
    } else {
      column = static_cast<int>(random.below(columns));
      while (!at.can_drop(column)) column = static_cast<int>(random.below(columns));
    }
    at.drop(column);
    if (at.has_won()) return {is_search ? ending::won : ending::lost, at.dropped()};
    if (at.is_full()) return {ending::drawn, at.dropped()};
  }
}

}  // namespace four
