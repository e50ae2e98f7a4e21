// SPDX-License-Identifier: Apache-2.0
//
// cereal's binary archives, over a string stream that is used again.
#include <cereal/archives/binary.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>

#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "harness/measure.hpp"
#include "rivals/codec_rows.hpp"
#include "rivals/rows.hpp"

namespace bench {

template <class Archive>
void serialize(Archive& ar, coded_record& r) {
  ar(r.id, r.score, r.name);
}

namespace {

template <class T>
T through_cereal(std::stringstream& bytes, const T& value) {
  bytes.clear();
  bytes.seekp(0);
  bytes.seekg(0);
  {
    cereal::BinaryOutputArchive out(bytes);
    out(value);
  }
  T back;
  cereal::BinaryInputArchive in(bytes);
  in(back);
  return back;
}

}  // namespace

void add_cereal(suite& s) {
  contestant c{coded_struct, "cereal"};
  c.start = [](const plan& how) -> body {
    const std::size_t count = how.count(1'000'000);
    auto bytes = std::make_shared<std::stringstream>();
    return [=](const turn&) {
      const coded_record r;
      std::size_t sum = 0;
      reading got = time_per_operation(unit::nanoseconds, count, [&] {
        for (std::size_t i = 0; i < count; ++i) sum += through_cereal(*bytes, r).name.size();
      });
      check(sum == 16 * count, "letters");
      return got;
    };
  };
  s.add(std::move(c));
  c = contestant{coded_texts, "cereal"};
  c.start = [](const plan&) -> body {
    auto bytes = std::make_shared<std::stringstream>();
    auto all = std::make_shared<std::vector<std::string>>(texts_to_code());
    return [=](const turn&) {
      return time_per_operation(unit::milliseconds, 5, [&] {
        for (int i = 0; i < 5; ++i) {
          check(through_cereal(*bytes, *all).back() == all->back(), "the last string");
        }
      });
    };
  };
  s.add(std::move(c));
}

}  // namespace bench
