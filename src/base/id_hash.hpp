// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <manta/base/id.hpp>

namespace manta::inline v0::base {

/// For tables by id, either half of which may be all that differs.
struct id_hash {
  std::size_t operator()(const id& of) const noexcept { return of.low ^ (of.high * 31); }
};

}  // namespace manta::inline v0::base
