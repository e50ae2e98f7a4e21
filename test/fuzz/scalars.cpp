// SPDX-License-Identifier: Apache-2.0
// Numbers, enumerations, flags, classes of fields and classes of bytes.
#include <array>
#include <chrono>
#include <cstdint>
#include <tuple>
#include <utility>

#include "fuzz/harness.hpp"

namespace {

enum class wide : std::int64_t { low = -5, high = 5 };
enum class yes_or_no : bool { no, yes };

struct mixed {
  bool is_set = false;
  test::color paint = test::color::red;
  wide far = wide::low;
  long double exact = 0;
  yes_or_no answer = yes_or_no::no;
  test::padded inner;
  std::array<test::color, 3> paints{};
  test::nothing none;
  std::chrono::nanoseconds since{0};
  std::chrono::system_clock::time_point at;
};

}  // namespace

template <>
struct manta::enum_range<wide> {
  static constexpr wide first = wide::low;
  static constexpr wide last = wide::high;
};

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::run<bool, std::int8_t, std::uint64_t, float, double, long double, char32_t, test::color,
            wide, yes_or_no, test::nothing, test::pixel, test::padded, test::opaque, mixed,
            std::array<bool, 5>, std::array<mixed, 2>, std::array<int, 0>, std::tuple<>,
            std::tuple<bool, mixed, test::pixel>, std::pair<test::color, double>, fuzz::handle,
            std::pair<fuzz::handle, std::array<fuzz::handle, 2>>>({data, size});
  return 0;
}
