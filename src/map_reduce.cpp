// SPDX-License-Identifier: Apache-2.0
#include <manta/map_reduce.hpp>

#include <algorithm>

#include <fmt/format.h>

namespace manta::inline v0::detail {

std::size_t check_map_reduce(std::size_t inputs, const map_reduce_options& how) {
  exec::executor::require();
  if (how.partitions == 0 || static_cast<std::ptrdiff_t>(how.partitions) < 0) {
    raise(errc::invalid_argument,
          fmt::format("map_reduce: asked for {} partitions, allowed 1 or more",
                      static_cast<std::ptrdiff_t>(how.partitions)));
  }
  if (how.grain != 0) return how.grain;
  constexpr std::size_t pieces_per_worker = 8;
  const int workers = std::max(exec::executor::global().target(), 1);
  const std::size_t pieces = pieces_per_worker * static_cast<std::size_t>(workers);
  return std::max<std::size_t>(1, (inputs + pieces - 1) / pieces);
}

}  // namespace manta::inline v0::detail
