// SPDX-License-Identifier: Apache-2.0
#include <manta/parallel.hpp>

#include <algorithm>

#include <manta/exec/executor.hpp>

namespace manta::inline v0::detail {

std::size_t choose_grain(std::size_t items, const loop_options& how) {
  exec::executor::require();
  if (how.grain != 0) return how.grain;
  constexpr std::size_t pieces_per_worker = 128;
  const int workers = std::max(exec::executor::global().target(), 1);
  return std::max<std::size_t>(1, items / (pieces_per_worker * static_cast<std::size_t>(workers)));
}

void raise_negative_range() {
  raise(errc::invalid_argument,
        "parallel_for: the range ends before it begins; pass the smaller index first");
}

}  // namespace manta::inline v0::detail
