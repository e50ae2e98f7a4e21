// SPDX-License-Identifier: Apache-2.0
//
// What copying costs without a codec.
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "harness/measure.hpp"
#include "rivals/codec_rows.hpp"
#include "rivals/rows.hpp"

namespace bench {

void add_plain_codec(suite& s) {
  contestant c{coded_doubles, "memcpy"};
  c.start = [](const plan&) -> body {
    auto from = std::make_shared<std::vector<double>>(coded_count, 1.5);
    auto to = std::make_shared<std::vector<double>>(coded_count, 0.0);
    return [=](const turn&) {
      return time_per_operation(unit::milliseconds, 20, [&] {
        for (int i = 0; i < 20; ++i) {
          std::memcpy(to->data(), from->data(), coded_count * sizeof(double));
          keep(*to);
        }
        check(to->back() == 1.5, "the last double");
      });
    };
  };
  s.add(std::move(c));
  c = contestant{read_doubles, "copy of a vector"};
  c.start = [](const plan&) -> body {
    auto from = std::make_shared<std::vector<double>>(coded_count, 1.5);
    return [=](const turn&) {
      return time_per_operation(unit::milliseconds, 20, [&] {
        for (int i = 0; i < 20; ++i) {
          const std::vector<double> to(*from);
          keep(to);
          check(to.back() == 1.5, "the last double");
        }
      });
    };
  };
  s.add(std::move(c));
}

}  // namespace bench
