// SPDX-License-Identifier: Apache-2.0
//
// What copying costs without a codec.
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/measure.hpp"
#include "rivals/codec_rows.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

contestant copied_texts() {
  contestant c{coded_texts, "copy of the vector"};
  c.start = [](const plan&) -> body {
    auto all = std::make_shared<std::vector<std::string>>(texts_to_code());
    return [=](const turn&) {
      return time_per_operation(unit::milliseconds, 5, [&] {
        for (int i = 0; i < 5; ++i) {
          const std::vector<std::string> back = *all;
          check(back.back() == all->back(), "the last string");
        }
      });
    };
  };
  return c;
}

}  // namespace

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
  s.add(copied_texts());
}

}  // namespace bench
