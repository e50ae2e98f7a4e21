// SPDX-License-Identifier: Apache-2.0
//
// manta's side of bench_codec.
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <manta/codec/codec.hpp>
#include <manta/manta.hpp>

#include "harness/measure.hpp"
#include "rivals/codec_rows.hpp"
#include "rivals/rows.hpp"

namespace bench {
namespace {

int empty(int i) { return i; }

/// Memory for segments that was touched before.
class touched final : public manta::codec::segment_sink {
 public:
  std::byte* take(std::size_t bytes) override {
    check(bytes <= memory_.size() - 64, "room for the segment");
    return memory_.data() + (64 - reinterpret_cast<std::uintptr_t>(memory_.data()) % 64) % 64;
  }

 private:
  std::vector<std::byte> memory_ = std::vector<std::byte>(coded_count * sizeof(double) + 64);
};

contestant our_struct() {
  contestant c{coded_struct, "manta", side::ours};
  c.start = [](const plan& how) -> body {
    const std::size_t count = how.count(1'000'000);
    auto out = std::make_shared<manta::codec::out_archive>();
    return [=](const turn&) {
      const coded_record r;
      std::size_t sum = 0;
      reading got = time_per_operation(unit::nanoseconds, count, [&] {
        for (std::size_t i = 0; i < count; ++i) {
          out->clear();
          sum += manta::codec::decode<coded_record>(manta::codec::encode(*out, r)).name.size();
        }
      });
      check(sum == 16 * count, "letters");
      return got;
    };
  };
  return c;
}

contestant our_doubles_out() {
  contestant c{coded_doubles, "manta", side::ours};
  c.start = [](const plan&) -> body {
    auto from = std::make_shared<std::vector<double>>(coded_count, 1.5);
    auto sink = std::make_shared<touched>();
    auto out = std::make_shared<manta::codec::out_archive>(sink.get());
    return [=](const turn&) {
      keep(sink);
      return time_per_operation(unit::milliseconds, 20, [&] {
        for (int i = 0; i < 20; ++i) {
          out->clear();
          check(manta::codec::encode(*out, *from).segments.size() == 1, "one segment");
        }
      });
    };
  };
  return c;
}

contestant our_doubles_in() {
  contestant c{read_doubles, "manta", side::ours};
  c.start = [](const plan&) -> body {
    auto from = std::make_shared<std::vector<double>>(coded_count, 1.5);
    auto out = std::make_shared<manta::codec::out_archive>();
    return [=](const turn&) {
      out->clear();
      const auto parcel = manta::codec::encode(*out, *from);
      return time_per_operation(unit::milliseconds, 20, [&] {
        for (int i = 0; i < 20; ++i) {
          const auto to = manta::codec::decode<std::vector<double>>(parcel);
          keep(to);
          check(to.back() == 1.5, "the last double");
        }
      });
    };
  };
  return c;
}

contestant our_texts() {
  contestant c{coded_texts, "manta", side::ours};
  c.start = [](const plan&) -> body {
    using texts = std::vector<std::string>;
    auto all = std::make_shared<texts>(texts_to_code());
    auto out = std::make_shared<manta::codec::out_archive>();
    return [=](const turn&) {
      return time_per_operation(unit::milliseconds, 5, [&] {
        for (int i = 0; i < 5; ++i) {
          out->clear();
          const texts back = manta::codec::decode<texts>(manta::codec::encode(*out, *all));
          check(back.back() == all->back(), "the last string");
        }
      });
    };
  };
  return c;
}

contestant our_tasks(const char* name, manta::check_mode mode) {
  contestant c{checked_tasks, name, side::ours};
  c.start = [mode](const plan& how) -> body {
    manta::config with;
    with.check = mode;
    auto rt = std::make_shared<manta::runtime>(with);
    const std::size_t count = how.count(300'000);
    return [=](const turn&) {
      keep(rt);
      std::vector<manta::future<int>> all;
      all.reserve(count);
      const double start = now_s();
      for (std::size_t i = 0; i < count; ++i) {
        all.push_back(manta::remote<empty>(static_cast<int>(i)));
      }
      std::size_t sum = 0;
      for (const auto& f : all) sum += static_cast<std::size_t>(f.get());
      const double took = now_s() - start;
      check(sum == count * (count - 1) / 2, "sum of the results");
      const auto n = static_cast<double>(count);
      return reading{.value = n / took, .operations = n};
    };
  };
  return c;
}

}  // namespace

void add_our_codec(suite& s) {
  s.add(our_struct());
  s.add(our_doubles_out());
  s.add(our_doubles_in());
  s.add(our_texts());
  s.add(our_tasks("manta", manta::check_mode::copy));
  s.add(our_tasks("manta, mode off", manta::check_mode::none));
}

}  // namespace bench
