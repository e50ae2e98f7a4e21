// SPDX-License-Identifier: Apache-2.0
#include <manta/map_reduce.hpp>

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

namespace manta::inline v0::detail {

std::size_t check_map_reduce(std::size_t inputs, const map_reduce_options& how) {
  exec::executor::require();
  constexpr std::size_t most = std::size_t{1} << 24U;  // each map task has a list for each
  if (how.partitions == 0 || how.partitions > most) {
    raise(
        errc::invalid_argument,
        fmt::format("map_reduce: asked for {} partitions, allowed 1 to {}", how.partitions, most));
  }
  if (how.grain != 0) return how.grain;
  constexpr std::size_t pieces_per_worker = 8;
  const int workers = std::max(exec::executor::global().target(), 1);
  const std::size_t pieces = pieces_per_worker * static_cast<std::size_t>(workers);
  return std::max<std::size_t>(1, (inputs + pieces - 1) / pieces);
}

}  // namespace manta::inline v0::detail
