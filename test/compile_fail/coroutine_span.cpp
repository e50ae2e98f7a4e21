// SPDX-License-Identifier: Apache-2.0
#include <span>
#include <vector>

#include <manta/manta.hpp>

manta::coroutine<int> bad(std::span<const int> s) { co_return static_cast<int>(s.size()); }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<bad>(std::vector<int>{1}));
#endif
}
