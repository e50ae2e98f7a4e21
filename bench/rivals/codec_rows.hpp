// SPDX-License-Identifier: Apache-2.0
//
// The values of bench_codec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace bench {

struct coded_record {
  std::int64_t id = 7;
  double score = 2.5;
  std::string name = "sixteen letters.";
};

inline constexpr std::size_t coded_count = 1'000'000;

inline std::vector<std::string> texts_to_code() {
  std::vector<std::string> all;
  for (std::size_t i = 100'000; i < 200'000; ++i) {
    all.push_back("a string of thirty, no " + std::to_string(i) + ".");
  }
  return all;
}

}  // namespace bench
