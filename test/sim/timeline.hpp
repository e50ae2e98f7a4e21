// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "sim/world.hpp"

namespace sim {

/// When something was the case.
class timeline {
 public:
  struct span {
    time_point from;
    time_point to;  // max: it still is
  };

  void open(time_point at) {
    if (!is_open()) spans_.push_back({at, time_point::max()});
  }
  void close(time_point at) {
    if (is_open()) spans_.back().to = at;
  }
  bool is_open() const { return !spans_.empty() && spans_.back().to == time_point::max(); }
  bool touches(time_point from, time_point to) const {
    return std::ranges::any_of(spans_,
                               [&](const span& one) { return one.from <= to && one.to >= from; });
  }
  const std::vector<span>& spans() const { return spans_; }

 private:
  std::vector<span> spans_;  // in their order
};

/// The parts of a time in which any of them was the case, or none was.
struct parts {
  std::vector<timeline::span> covered;
  std::vector<timeline::span> free;
};

inline parts parts_of(const std::vector<const timeline*>& all, time_point from, time_point to) {
  std::vector<timeline::span> spans;
  for (const timeline* const one : all) {
    for (const timeline::span& s : one->spans()) {
      if (s.from < to && s.to > from) spans.push_back({std::max(s.from, from), std::min(s.to, to)});
    }
  }
  std::ranges::sort(spans, {}, &timeline::span::from);
  parts out;
  time_point at = from;
  for (const timeline::span& s : spans) {
    if (s.from > at || out.covered.empty()) {
      if (s.from > at) out.free.push_back({at, s.from});
      out.covered.push_back(s);
    } else {
      out.covered.back().to = std::max(out.covered.back().to, s.to);
    }
    at = std::max(at, s.to);
  }
  if (at < to) out.free.push_back({at, to});
  return out;
}

inline duration sum(const std::vector<timeline::span>& of) {
  duration out{0};
  for (const timeline::span& one : of) out += one.to - one.from;
  return out;
}

inline duration longest(const std::vector<timeline::span>& of) {
  duration out{0};
  for (const timeline::span& one : of) out = std::max(out, one.to - one.from);
  return out;
}

}  // namespace sim
