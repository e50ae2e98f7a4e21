// SPDX-License-Identifier: Apache-2.0
//
// A pipeline: a log's lines are made, read, summed up by windows, and taken by a sink, all at the
// same time, and no stage runs far ahead of the next.
//
//   streams:   lines -----------> readings -----------> summaries -----------> sink
//              co_yield  credits  co_yield   credits    co_yield     credits   for (future& f : s)
//
//   channels:               +--> parse_lines --+
//      write_lines --[ ]----+--> parse_lines --+--[ ]--> sum_windows --[ ]--> sink
//                  capacity +--> parse_lines --+  capacity            capacity
//
// Streams keep the order, and their ends and errors look after themselves; a channel may have
// several tasks at both ends, and who ends has to close it. Both have back-pressure: the source
// waits when it is too far ahead, without a thread in a generator, lending its core in a task.
//
// A gauge tells how far ahead of the sink the source ever was, in lines. The summaries must be
// those of one loop. A second sink takes three summaries and goes; then the source must stop.
#include <manta/manta.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "../common/command_line.hpp"
#include "channels.hpp"
#include "readings.hpp"
#include "streams.hpp"

namespace {

using sensors::gauge;
using sensors::summary;

constexpr const char* help = R"(pipeline: source, stages and sink as streams, and as channels

usage: pipeline [options]
  --lines N        lines of the log, 1 to 1000000000 (200000)
  --ahead N        items that a stage may be ahead of the next, 1 to 100000 (64)
  --parsers N      tasks that share the reading between channels, 1 to 64 (3)
  --seed N         decides all lines (1)
  --manta-...      the runtime's, such as --manta-workers=2
  --help           this text

Exit code: 0 all sums right and nobody too far ahead, 1 not, 2 bad option.
)";

struct request {
  std::uint64_t seed = 0;
  std::int64_t lines = 0;
  std::size_t ahead = 0;
  int parsers = 0;

  // The most lines on the way: full buffers, of which the last one's items are windows, and what
  // each stage and each half-done window holds.
  std::int64_t most_ahead() const {
    const auto items = static_cast<std::int64_t>(ahead);
    return items * (2 + sensors::window) + (sensors::window + 1) * (parsers + 4);
  }
};

struct stream_way {
  static constexpr const char* name = "streams";
  manta::stream<summary> from;

  stream_way(const request& asked, const std::shared_ptr<gauge>& ahead)
      : from(sensors::start_streams(asked.seed, asked.lines, asked.ahead, ahead)) {}
  std::optional<summary> next() {
    std::optional<manta::future<summary>> item = from.next();
    if (!item) return std::nullopt;
    return std::move(*item).get();
  }
};

struct channel_way {
  static constexpr const char* name = "channels";
  manta::channel<summary> from;
  sensors::closes_at_end<summary> at_end{from};

  channel_way(const request& asked, const std::shared_ptr<gauge>& ahead)
      : from(sensors::start_channels(asked.seed, asked.lines, asked.ahead, asked.parsers, ahead)) {}
  std::optional<summary> next() { return from.next(); }
};

// All items; whether they are right.
template <class Way>
bool run_all(const request& asked, const std::vector<summary>& wanted) {
  const auto ahead = std::make_shared<gauge>();
  const auto begin = std::chrono::steady_clock::now();
  Way way(asked, ahead);
  std::vector<summary> found;
  while (const std::optional<summary> one = way.next()) {
    ahead->used(one->readings);
    found.push_back(*one);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  // Several parsers lose the order of the windows.
  std::sort(found.begin(), found.end(),
            [](const summary& a, const summary& b) { return a.number < b.number; });
  const bool is_right = found == wanted;
  std::printf("%-8s  %zu windows %s, %.0f lines/s, at most %lld lines ahead, allowed %lld\n",
              Way::name, found.size(), is_right ? "right" : "WRONG",
              static_cast<double>(asked.lines) / took.count(),
              static_cast<long long>(ahead->most()), static_cast<long long>(asked.most_ahead()));
  return is_right && ahead->most() <= asked.most_ahead();
}

// A sink that goes after three summaries; the gauge says how much was made for it in the end.
template <class Way>
std::shared_ptr<gauge> run_some(const request& asked) {
  auto ahead = std::make_shared<gauge>();
  Way way(asked, ahead);
  for (int i = 0; i < 3; ++i) {
    if (const std::optional<summary> one = way.next()) ahead->used(one->readings);
  }
  return ahead;
}

bool has_stopped(const request& asked, const char* name, const gauge& ahead) {
  std::printf("%-8s  the sink went after 3 windows: %lld lines made\n", name,
              static_cast<long long>(ahead.lines_made()));
  return ahead.lines_made() <= 3 * sensors::window + asked.most_ahead();
}

int run(const request& asked, int argc, char** argv) {
  const std::vector<summary> wanted = sensors::plain(asked.seed, asked.lines);
  bool is_good = true;
  std::shared_ptr<gauge> of_streams;
  std::shared_ptr<gauge> of_channels;
  {
    const manta::runtime rt(argc, argv);
    is_good = run_all<stream_way>(asked, wanted);
    is_good = run_all<channel_way>(asked, wanted) && is_good;
    of_streams = run_some<stream_way>(asked);
    of_channels = run_some<channel_way>(asked);
  }
  // The runtime is gone: what was made now is all there is.
  is_good = has_stopped(asked, stream_way::name, *of_streams) && is_good;
  is_good = has_stopped(asked, channel_way::name, *of_channels) && is_good;
  std::printf("pipeline: %lld lines, %zu windows by streams and by channels %s\n",
              static_cast<long long>(asked.lines), wanted.size(),
              is_good ? "as in one loop, back-pressure held" : "are WRONG, or too far ahead");
  return is_good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  examples::command_line line("pipeline", help, argc, argv);
  request asked;
  asked.lines = line.whole("--lines", 200'000, 1, 1'000'000'000);
  asked.ahead = static_cast<std::size_t>(line.whole("--ahead", 64, 1, 100'000));
  asked.parsers = static_cast<int>(line.whole("--parsers", 3, 1, 64));
  asked.seed = static_cast<std::uint64_t>(
      line.whole("--seed", 1, 0, std::numeric_limits<std::int64_t>::max()));
  line.finish();
  try {
    return run(asked, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pipeline: %s\n", error.what());
    return 1;
  }
}
