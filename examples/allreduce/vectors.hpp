// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

// The numbers that are summed, and how they are cut into pieces. Nothing here knows of manta.
namespace allreduce {

using piece = std::vector<float>;

// What rank number `rank` brings as element i. Whole and small, so that the float sum over all
// ranks is exact in any order.
inline float element(std::size_t rank, std::size_t i) {
  return static_cast<float>((7 * i + 13 * rank) % 97);
}

// One rank's numbers, in `pieces` pieces whose sizes differ by at most one.
inline std::vector<piece> fresh_pieces(std::size_t rank, std::size_t pieces, std::size_t elements) {
  std::vector<piece> out(pieces);
  for (std::size_t p = 0; p < pieces; ++p) {
    for (std::size_t i = elements * p / pieces; i < elements * (p + 1) / pieces; ++i) {
      out[p].push_back(element(rank, i));
    }
  }
  return out;
}

inline void add_to(piece& sum, std::span<const float> other) {
  float* const to = sum.data();
  for (std::size_t i = 0; i < sum.size(); ++i) to[i] += other[i];
}

// How many elements are not the exact sum over all ranks, looking at every one.
inline std::size_t count_wrong(const std::vector<piece>& pieces, std::size_t ranks,
                               std::size_t elements) {
  std::size_t wrong = 0;
  std::size_t i = 0;
  for (const piece& p : pieces) {
    for (const float found : p) {
      float wanted = 0;
      for (std::size_t r = 0; r < ranks; ++r) wanted += element(r, i);
      wrong += found != wanted ? 1 : 0;
      ++i;
    }
  }
  return i == elements ? wrong : elements;
}

}  // namespace allreduce
