// SPDX-License-Identifier: Apache-2.0
#include <manta/base/check.hpp>

#include <cstdio>
#include <cstdlib>

namespace manta::inline v0::base {

void check_failed(const char* claim, const char* file, int line,
                  unsigned long long detail) noexcept {
  std::fprintf(stderr, "manta: a bug in manta: %s:%d: does not hold: %s (value %llu)\n", file, line,
               claim, detail);
  std::fflush(stderr);
  std::abort();
}

void caller_failed(const char* what) noexcept {
  std::fprintf(stderr, "manta: a bug in the program that calls manta: %s\n", what);
  std::fflush(stderr);
  std::abort();
}

}  // namespace manta::inline v0::base
