// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>

// Numbers that many tests name.

namespace manta_test {

inline constexpr std::size_t kib = std::size_t{1} << 10U;
inline constexpr std::size_t mib = std::size_t{1} << 20U;
inline constexpr double inf = std::numeric_limits<double>::infinity();
inline constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace manta_test
