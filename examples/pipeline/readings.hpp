// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../common/random.hpp"

// What flows through the pipeline, and what each stage does with one item. Nothing here knows of
// manta.
namespace sensors {

// A sensor's value, or a line that could not be read.
struct reading {
  std::int64_t number = 0;
  std::int64_t value = 0;
  bool is_damaged = false;
};

// What `window` consecutive readings come to.
constexpr std::int64_t window = 16;
struct summary {
  std::int64_t number = 0;  // of the window
  std::int64_t readings = 0;
  std::int64_t damaged = 0;
  std::int64_t sum = 0;
  std::int64_t greatest = INT64_MIN;

  bool operator==(const summary&) const = default;
};

// Line number `n` of the log: "17 -302", and now and then one that was cut off.
inline std::string line(std::uint64_t seed, std::int64_t n) {
  examples::random_stream random(examples::sub_seed(seed, static_cast<std::uint64_t>(n)));
  const std::int64_t value = static_cast<std::int64_t>(random.below(2001)) - 1000;
  std::string text = std::to_string(n) + ' ' + std::to_string(value);
  if (random.below(50) == 0) text.resize(text.find(' ') + 1);
  return text;
}

inline reading parsed(const std::string& text) {
  reading out;
  const char* const last = text.data() + text.size();
  const auto number = std::from_chars(text.data(), last, out.number);
  const char* const second = std::min(number.ptr + 1, last);
  const auto value = std::from_chars(second, last, out.value);
  out.is_damaged = value.ec != std::errc() || value.ptr != last;
  return out;
}

inline void add(summary& to, const reading& r) {
  to.number = r.number / window;
  ++to.readings;
  if (r.is_damaged) {
    ++to.damaged;
    return;
  }
  to.sum += r.value;
  to.greatest = std::max(to.greatest, r.value);
}

// Everything in one loop: what the pipelines must come to.
inline std::vector<summary> plain(std::uint64_t seed, std::int64_t lines) {
  std::vector<summary> all;
  for (std::int64_t n = 0; n < lines; ++n) {
    if (n % window == 0) all.emplace_back();
    add(all.back(), parsed(line(seed, n)));
  }
  return all;
}

// How far the source ever was ahead of the sink, in lines: what back-pressure limits.
class gauge {
 public:
  void made() {
    const std::int64_t ahead = made_.fetch_add(1) + 1 - used_.load();
    std::int64_t most = most_.load();
    while (ahead > most && !most_.compare_exchange_weak(most, ahead)) {
    }
  }
  void used(std::int64_t lines) { used_.fetch_add(lines); }
  std::int64_t most() const { return most_.load(); }
  std::int64_t lines_made() const { return made_.load(); }

 private:
  std::atomic<std::int64_t> made_{0};
  std::atomic<std::int64_t> used_{0};
  std::atomic<std::int64_t> most_{0};
};

}  // namespace sensors
