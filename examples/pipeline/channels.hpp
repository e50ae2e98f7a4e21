// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/manta.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "readings.hpp"

// The pipeline as tasks between channels. A channel may have several tasks at either end, so the
// parsing is shared by a few, and the order is lost on the way.
//
// Who ends, for whatever reason, closes: downstream nothing more comes then, and upstream a send
// throws channel_closed, which ends that stage, too. So an error or a sink that has enough takes
// down the whole pipeline, and nobody waits for ever.
namespace sensors {

template <class T>
class closes_at_end {
 public:
  explicit closes_at_end(manta::channel<T> of) : of_(std::move(of)) {}
  ~closes_at_end() { of_.close(); }
  closes_at_end(const closes_at_end&) = delete;
  closes_at_end& operator=(const closes_at_end&) = delete;

 private:
  manta::channel<T> of_;
};

inline void write_lines(std::uint64_t seed, std::int64_t count, manta::channel<std::string> to,
                        std::shared_ptr<gauge> ahead) {
  const closes_at_end end(to);
  for (std::int64_t n = 0; n < count; ++n) {
    ahead->made();
    to.send(line(seed, n));  // waits while the channel is full
  }
}

// One of several that take from the same channel.
inline void parse_lines(manta::channel<std::string> from, manta::channel<reading> to) {
  const closes_at_end end(from);
  for (const std::string& text : from) to.send(parsed(text));
}

// A window leaves when it is complete; the last one may be shorter.
inline void sum_windows(manta::channel<reading> from, manta::channel<summary> to) {
  const closes_at_end end_of_input(from);
  const closes_at_end end_of_output(to);
  std::map<std::int64_t, summary> open;
  for (const reading& r : from) {
    const auto [at, is_new] = open.try_emplace(r.number / window);
    add(at->second, r);
    if (at->second.readings < window) continue;
    to.send(at->second);
    open.erase(at);
  }
  for (const auto& [number, last] : open) to.send(last);
}

// Starts the tasks; the sink takes from the channel that comes back, and closes it when it has
// enough.
inline manta::channel<summary> start_channels(std::uint64_t seed, std::int64_t lines,
                                              std::size_t capacity, int parsers,
                                              const std::shared_ptr<gauge>& ahead) {
  const manta::channel<std::string> texts(capacity);
  const manta::channel<reading> readings(capacity);
  const manta::channel<summary> summaries(capacity);
  // The gauge is this process's, and so is who reads it: async, for remote would refuse to send it.
  static_cast<void>(
      manta::async([seed, lines, texts, ahead] { write_lines(seed, lines, texts, ahead); }));
  std::vector<manta::future<void>> parsing;
  for (int i = 0; i < parsers; ++i) {
    parsing.push_back(manta::remote<parse_lines>(texts, readings));
  }
  // Of several senders only who waits for all of them knows which one was the last.
  static_cast<void>(manta::async([parsing, readings] {
    const closes_at_end end(readings);
    manta::get(parsing);
  }));
  static_cast<void>(manta::remote<sum_windows>(readings, summaries));
  return summaries;
}

}  // namespace sensors
