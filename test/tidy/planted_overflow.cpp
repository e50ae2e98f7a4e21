// SPDX-License-Identifier: Apache-2.0
// A read past a heap block on purpose: an address sanitizer run counts only if this is reported.
#include <cstddef>
#include <memory>

int main(int argc, char**) {
  const std::size_t size = 7 + static_cast<std::size_t>(argc);  // unknown to the optimiser
  const auto block = std::make_unique<int[]>(size);
  return block[size] == 0 ? 0 : 1;
}
