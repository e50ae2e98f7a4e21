// SPDX-License-Identifier: Apache-2.0
// Arrays for other libraries: what another side of Arrow's C data interface sees and may do.
#include <manta/arrow.hpp>

#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

#include "api/support.hpp"

namespace arrow_test {
namespace {

using Catch::Matchers::Contains;
using manta::array;

// Another library's numbers, which count how often they were released.
template <class T>
struct foreign {
  std::vector<T> values;
  const void* buffers[2] = {nullptr, nullptr};
  int released = 0;
  ArrowSchema schema{};
  ArrowArray array{};

  foreign(const char* format, std::vector<T> of) : values(std::move(of)) {
    buffers[1] = values.data();
    schema.format = format;
    schema.name = "numbers";
    schema.flags = ARROW_FLAG_NULLABLE;
    schema.private_data = this;
    schema.release = [](ArrowSchema* s) {
      ++static_cast<foreign*>(s->private_data)->released;
      s->release = nullptr;
    };
    array.length = static_cast<std::int64_t>(values.size());
    array.n_buffers = 2;
    array.buffers = buffers;
    array.private_data = this;
    array.release = [](ArrowArray* a) {
      ++static_cast<foreign*>(a->private_data)->released;
      a->release = nullptr;
    };
  }
  foreign(const foreign&) = delete;
  foreign& operator=(const foreign&) = delete;
};

template <class T>
std::string refusal(foreign<T>& of) {
  try {
    static_cast<void>(manta::import_from_arrow<double>(&of.schema, &of.array));
  } catch (const manta::invalid_argument& e) {
    return e.what();
  }
  return "";
}

template <class T>
std::string format_of() {
  ArrowSchema schema;
  ArrowArray values;
  manta::export_to_arrow(manta::make_array(std::vector<T>{1, 2, 3}), &schema, &values);
  std::string format = schema.format;
  if (static_cast<const T*>(values.buffers[1])[2] != T{3}) format += " wrong";
  schema.release(&schema);
  values.release(&values);
  return format;
}

double total(const array<double>& a) { return std::accumulate(a.begin(), a.end(), 0.0); }

}  // namespace

TEST_CASE("an array is read by another library where it lies, until that releases it",
          "[arrow][stays:local]") {
  const manta::runtime rt(test::two_workers());
  ArrowSchema schema;
  ArrowArray values;
  const void* at = nullptr;
  {
    std::vector<double> numbers(100'000);
    std::iota(numbers.begin(), numbers.end(), 0.0);
    const array<double> a = manta::make_array(numbers, {100, 1000});
    at = a.data();
    manta::export_to_arrow(a, &schema, &values);
  }
  const std::uint64_t held = rt.store().used_bytes;
  CHECK(held >= 800'000);
  CHECK(values.length == 100'000);
  CHECK(values.null_count == 0);
  CHECK(values.offset == 0);
  CHECK(values.n_buffers == 2);
  CHECK(values.n_children == 0);
  CHECK(values.buffers[0] == nullptr);
  CHECK(values.buffers[1] == at);
  CHECK(static_cast<const double*>(values.buffers[1])[99'999] == 99'999);
  CHECK(std::string(schema.format) == "g");
  CHECK(schema.n_children == 0);
  schema.release(&schema);
  CHECK(schema.release == nullptr);
  // Moved, as the other side may.
  ArrowArray moved = values;
  values.release = nullptr;
  CHECK(static_cast<const double*>(moved.buffers[1])[1] == 1);
  moved.release(&moved);
  CHECK(moved.release == nullptr);
  CHECK(rt.store().used_bytes < held);
}

TEST_CASE("each number type has Arrow's letter", "[arrow][stays:local]") {
  const manta::runtime rt(test::two_workers());
  CHECK(format_of<std::int8_t>() == "c");
  CHECK(format_of<std::uint8_t>() == "C");
  CHECK(format_of<std::int16_t>() == "s");
  CHECK(format_of<std::uint16_t>() == "S");
  CHECK(format_of<std::int32_t>() == "i");
  CHECK(format_of<std::uint32_t>() == "I");
  CHECK(format_of<std::int64_t>() == "l");
  CHECK(format_of<std::uint64_t>() == "L");
  CHECK(format_of<long long>() == "l");
  CHECK(format_of<float>() == "f");
  CHECK(format_of<double>() == "g");
  STATIC_REQUIRE(!manta::detail::arrow_number<bool>);  // Arrow's are bits
  STATIC_REQUIRE(!manta::detail::arrow_number<long double>);
  STATIC_REQUIRE(!manta::detail::arrow_number<test::tracked>);
}

TEST_CASE("another library's numbers become an array, and are released", "[arrow][anywhere]") {
  const manta::runtime rt(test::two_workers());
  foreign<double> whole("g", {1, 2, 3, 4, 5, 6});
  const auto a = manta::import_from_arrow<double>(&whole.schema, &whole.array, {2, 3});
  CHECK(whole.released == 2);
  CHECK(a.shape() == manta::array_shape{2, 3});
  CHECK(a.data() != whole.values.data());
  CHECK(manta::remote<total>(a).get() == 21);

  foreign<double> part("g", {1, 2, 3, 4, 5, 6});
  part.array.offset = 2;
  part.array.length = 3;
  part.array.null_count = -1;  // not counted, and none is marked
  const auto b = manta::import_from_arrow<double>(&part.schema, &part.array);
  CHECK(part.released == 2);
  CHECK(b.size() == 3);
  CHECK(total(b) == 12);

  // What manta exported, back.
  ArrowSchema schema;
  ArrowArray values;
  manta::export_to_arrow(b, &schema, &values);
  const auto c = manta::import_from_arrow<double>(&schema, &values);
  CHECK(values.release == nullptr);
  CHECK(c.data() != b.data());
  CHECK(total(c) == 12);
}

TEST_CASE("what is no such array is refused in one line, and released", "[arrow][stays:refused]") {
  const manta::runtime rt(test::two_workers());
  foreign<float> other("f", {1, 2});
  CHECK_THAT(refusal(other), Contains("asked for plain elements of the format 'g', found 'f'"));
  CHECK(other.released == 2);

  foreign<double> nulls("g", {1, 2});
  const std::uint8_t present = 1;
  nulls.buffers[0] = &present;
  nulls.array.null_count = 1;
  CHECK_THAT(refusal(nulls), Contains("missing elements"));
  CHECK(nulls.released == 2);

  foreign<double> coded("g", {1, 2});
  ArrowSchema dictionary{};
  coded.schema.dictionary = &dictionary;
  CHECK_THAT(refusal(coded), Contains("with a dictionary"));

  foreign<double> negative("g", {1, 2});
  negative.array.length = -1;
  CHECK_THAT(refusal(negative), Contains("length is -1"));

  foreign<double> empty("g", {});
  CHECK_FALSE(refusal(empty).empty());
  CHECK(empty.released == 2);

  foreign<double> shaped("g", {1, 2, 3});
  CHECK_THROWS_AS(manta::import_from_arrow<double>(&shaped.schema, &shaped.array, {2, 2}),
                  manta::invalid_argument);
  CHECK(shaped.released == 2);
  CHECK_THAT(refusal(shaped), Contains("has been released"));
  CHECK(shaped.released == 2);
  CHECK_THROWS_AS(manta::import_from_arrow<double>(nullptr, nullptr), manta::invalid_argument);

  ArrowSchema schema{};
  ArrowArray values{};
  CHECK_THROWS_AS(manta::export_to_arrow(array<double>(), &schema, &values),
                  manta::invalid_argument);
  CHECK(values.release == nullptr);
}

TEST_CASE("what was exported outlives its runtime", "[arrow][stays:local]") {
  ArrowSchema schema;
  ArrowArray values;
  {
    const manta::runtime rt(test::two_workers());
    manta::export_to_arrow(manta::make_array(std::vector<int>(10'000, 7)), &schema, &values);
  }
  CHECK(static_cast<const int*>(values.buffers[1])[9'999] == 7);
  schema.release(&schema);
  values.release(&values);
}

}  // namespace arrow_test
