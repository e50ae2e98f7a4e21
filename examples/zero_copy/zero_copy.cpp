// SPDX-License-Identifier: Apache-2.0
//
// One large field, read by all workers where it lies. Each task smooths a band of rows, for which
// it looks at its neighbours' rows, too, and makes an array of its own; the main program looks at
// all of them. With --manta-isolation=processes the workers are processes, and still nobody copies
// the field: what each process has of its own says so.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include <manta/manta.hpp>

#include "../common/command_line.hpp"

namespace {

constexpr std::size_t width = 1024;

// Rows [from, to) of the field, each number the mean of itself and of those above and below.
manta::array<double> smooth(const manta::array<double>& field, std::size_t from, std::size_t to) {
  const std::size_t rows = field.shape()[0];
  manta::unsealed_array<double> band = manta::make_array<double>({to - from, width});
  for (std::size_t row = from; row < to; ++row) {
    const double* const here = field.data() + row * width;
    const double* const above = row == 0 ? here : here - width;
    const double* const below = row + 1 == rows ? here : here + width;
    double* const out = band.data() + (row - from) * width;
    for (std::size_t x = 0; x < width; ++x) out[x] = (above[x] + here[x] + below[x]) / 3;
  }
  return std::move(band).seal();
}

// KiB that a process has beside what it shares with others; asked in a worker.
std::int64_t own_kib(int /*which*/) {
  std::FILE* const file = std::fopen("/proc/self/status", "re");
  long long kib = -1;
  char line[256];
  while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "RssAnon: %lld kB", &kib) == 1) break;
  }
  if (file != nullptr) std::fclose(file);
  return kib;
}

double value_at(std::size_t row, std::size_t x) {
  return static_cast<double>(row % 97) + static_cast<double>(x % 89) / 100;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

constexpr const char* help =
    "zero_copy [--mib 1024] [--tasks 16]\n"
    "  a field of so many MiB, smoothed by so many tasks that read it where it lies\n";

}  // namespace

int main(int argc, char** argv) {
  examples::command_line line("zero_copy", help, argc, argv);
  const auto mib = static_cast<std::size_t>(line.whole("--mib", 1024, 1, 1 << 20));
  const auto tasks = static_cast<std::size_t>(line.whole("--tasks", 16, 1, 64));
  line.finish();
  const manta::runtime rt(argc, argv);

  const std::size_t rows = mib * (1U << 20U) / (width * sizeof(double));
  auto begin = std::chrono::steady_clock::now();
  manta::array<double> field;
  try {
    manta::unsealed_array<double> made = manta::make_array<double>({rows, width});
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t x = 0; x < width; ++x) made[row * width + x] = value_at(row, x);
    }
    field = std::move(made).seal();
  } catch (const manta::store_full& full) {
    std::fprintf(stderr, "zero_copy: %s\n", full.what());
    return 2;
  }
  std::printf("made in %.2f s\n", seconds_since(begin));

  begin = std::chrono::steady_clock::now();
  const std::size_t each = (rows + tasks - 1) / tasks;
  double sum = 0;
  std::size_t smoothed = 0;
  // A few at a time, so that their results have room beside the field.
  constexpr std::size_t at_a_time = 4;
  std::vector<manta::future<manta::array<double>>> bands;
  const auto take_first = [&] {
    const manta::array<double> band = bands.front().get();
    const std::size_t from = smoothed;
    for (std::size_t i = 0; i < band.size(); i += 4099) {
      const std::size_t row = from + i / width;
      const std::size_t x = i % width;
      const double above = value_at(row == 0 ? 0 : row - 1, x);
      const double below = value_at(std::min(row + 1, rows - 1), x);
      if (band[i] != (above + value_at(row, x) + below) / 3) std::abort();
      sum += band[i];
    }
    smoothed += band.shape()[0];
    bands.erase(bands.begin());
  };
  for (std::size_t from = 0; from < rows; from += each) {
    bands.push_back(manta::remote<smooth>(field, from, std::min(from + each, rows)));
    if (bands.size() == at_a_time) take_first();
  }
  while (!bands.empty()) take_first();
  const double taken = seconds_since(begin);

  std::int64_t most_kib = 0;
  for (int i = 0; i < 4; ++i) most_kib = std::max(most_kib, manta::remote<own_kib>(i).get());
  const bool is_copied =
      smoothed != rows || most_kib < 0 ||
      most_kib * 1024 > static_cast<std::int64_t>(16 << 20) +
                            static_cast<std::int64_t>(field.size() * sizeof(double) / 2);
  std::printf("a worker has %lld KiB of its own, the store %llu KiB; sum %.3f\n",
              static_cast<long long>(most_kib),
              static_cast<unsigned long long>(rt.store().used_bytes / 1024), sum);
  std::printf("zero_copy: %zu x %zu numbers, %zu MiB, smoothed by %zu tasks in %.2f s, %s\n", rows,
              width, mib, tasks, taken,
              is_copied ? "but a worker has a copy" : "none of them copied the field");
  return is_copied ? 1 : 0;
}
