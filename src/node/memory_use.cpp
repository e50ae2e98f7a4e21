// SPDX-License-Identifier: Apache-2.0
#include "node/memory_use.hpp"

#include <array>
#include <cstdio>

#include <unistd.h>

#include <manta/exec/call_extra.hpp>

#include "node/desk.hpp"

namespace manta::inline v0::node {

memory_use memory_use_of(std::int64_t pid) noexcept {
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), "/proc/%lld/statm", static_cast<long long>(pid));
  std::FILE* const file = pid > 0 ? std::fopen(name.data(), "re") : nullptr;
  if (file == nullptr) return {};
  long long total = 0;
  long long resident = 0;
  long long shared = 0;
  const int found = std::fscanf(file, "%lld %lld %lld", &total, &resident, &shared);
  std::fclose(file);
  if (found != 3) return {};
  const long page = sysconf(_SC_PAGESIZE);
  return {resident * page, (resident - shared) * page};
}

std::int64_t memory_limit_of(const exec::job& j) noexcept {
  const exec::call_extra* const with = j.extra();
  if (with == nullptr || !with->enforces_memory || with->claim == nullptr) return 0;
  return desk::asked_by(*with->claim).memory_bytes;
}

}  // namespace manta::inline v0::node
