// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/manta.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "readings.hpp"

// The pipeline as generators: each stage yields items and takes those of the stage before. A stage
// that is `credits` items ahead of who takes them is suspended, and so, one after the other, are
// those before it. Nobody closes anything: the end, and an error, come through like items, and who
// drops the last stream ends them all.
namespace sensors {

inline manta::stream<std::string> lines(std::uint64_t seed, std::int64_t count,
                                        std::shared_ptr<gauge> ahead) {
  for (std::int64_t n = 0; n < count; ++n) {
    ahead->made();
    co_yield line(seed, n);
  }
}

inline manta::stream<reading> readings(manta::stream<std::string> from) {
  while (const std::optional<manta::future<std::string>> text = co_await from.async_next()) {
    co_yield parsed(co_await *text);
  }
}

inline manta::stream<summary> summaries(manta::stream<reading> from) {
  summary open;
  while (const std::optional<manta::future<reading>> next = co_await from.async_next()) {
    add(open, co_await *next);
    if (open.readings == window) co_yield std::exchange(open, {});
  }
  if (open.readings > 0) co_yield open;
}

inline manta::stream<summary> start_streams(std::uint64_t seed, std::int64_t count,
                                            std::size_t credits,
                                            const std::shared_ptr<gauge>& ahead) {
  // The gauge is this process's, and so is who reads it: async, for remote would refuse to send it.
  manta::stream<std::string> texts =
      manta::async([seed, count, ahead] { return lines(seed, count, ahead); });
  texts.credits(credits);
  manta::stream<reading> parsed = manta::remote<readings>(std::move(texts));
  parsed.credits(credits);
  manta::stream<summary> summed = manta::remote<summaries>(std::move(parsed));
  summed.credits(credits);
  return summed;
}

}  // namespace sensors
