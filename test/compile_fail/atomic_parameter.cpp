// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <vector>

#include <manta/manta.hpp>

int bad(const std::vector<std::atomic<int>>& all) { return all.front(); }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<bad>(std::vector<std::atomic<int>>(1)));
#endif
}
