// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <manta/arrow.hpp>
#include <manta/manta.hpp>

#include <catch2/catch.hpp>

#include "folder.hpp"

// Arrays: large plain values that are written once and read where they lie.

namespace {

double mean(std::span<const double> field) {
  return std::accumulate(field.begin(), field.end(), 0.0) / static_cast<double>(field.size());
}

// A row of a field with two directions.
std::vector<double> row(const manta::array<double>& field, std::size_t number) {
  const std::size_t width = field.shape()[1];
  const double* const first = field.data() + number * width;
  return {first, first + width};
}

manta::array<double> ramp(std::size_t rows, std::size_t width) {
  manta::unsealed_array<double> made = manta::make_array<double>({rows, width});
  std::iota(made.span().begin(), made.span().end(), 0.0);
  return std::move(made).seal();
}

}  // namespace

// One field for many tasks: none of them gets a copy.
TEST_CASE("snippet: an array is shared by tasks", "[snippet]") {
  const manta_test::folder where;
  manta::config settings;
  settings.store_bytes = 64 << 20;  // or MANTA_STORE_BYTES=64MiB
  settings.store_wait_ms = 1000;    // for room, then store_full
  settings.spill_folder = "none";
  settings.spill_bytes = std::int64_t{64} << 30U;
  settings.quota_bytes = std::int64_t{1} << 30U;  // of all of this user's programs
  settings.quota_folder = where.path().string();
  const manta::runtime rt(settings);

  manta::unsealed_array<double> made = manta::make_array<double>({1000, 100});
  made.fill(1.0);
  made[0] = 2.0;
  made.data()[1] = 3.0;
  CHECK(made.size() == 100'000);
  CHECK(made.shape().rank() == 2);
  const manta::array<double> field = std::move(made).seal();

  std::vector<manta::future<std::vector<double>>> rows;
  for (std::size_t i = 0; i < field.shape()[0]; i += 100) {
    rows.push_back(manta::remote<row>(field, i));
  }
  CHECK(rows[0].get()[0] == 2.0);
  CHECK(manta::remote<mean>(field).get() > 1.0);

  // A result that is an array, and a task that reads it by a span.
  CHECK(manta::remote<mean>(manta::remote<ramp>(10, 10)).get() == 49.5);

  // A copy of what there is already; of one direction, or of a shape with as many elements.
  const manta::array<int> copy = manta::make_array(std::vector<int>{1, 2, 3, 4}, {2, 2});
  CHECK(copy.valid());
  CHECK(copy.span()[3] == 4);
  CHECK(copy.shape() == manta::array_shape{2, 2});
  static_assert(manta::array_shape::most_directions == 8);
  std::size_t elements = 1;
  const manta::array_shape& shape = copy.shape();
  for (auto extent = shape.begin(); extent != shape.end(); ++extent) elements *= *extent;
  CHECK(elements == copy.size());
  int sum = 0;
  for (auto element = copy.begin(); element != copy.end(); ++element) sum += *element;
  CHECK(sum == 10);

  const manta::store_report report = rt.store();
  CHECK(report.limit_bytes == 64 << 20);
  CHECK(report.used_bytes >= field.size() * sizeof(double));
  CHECK(report.reserved_bytes >= report.used_bytes);
  CHECK(report.spilled_bytes == 0);
}

// Numbers for a library that knows Arrow's C data interface, and from one.
TEST_CASE("snippet: an array goes to another library and back", "[snippet]") {
  const manta::runtime rt;
  ArrowSchema schema;
  ArrowArray values;
  manta::export_to_arrow(manta::make_array(std::vector<float>{1, 2, 3, 4}), &schema, &values);
  CHECK(values.length == 4);  // the other side reads them where they lie, and releases both

  const auto back = manta::import_from_arrow<float>(&schema, &values, {2, 2});  // it does
  CHECK(back[3] == 4);
}
