// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <manta/manta.hpp>

manta::coroutine<std::pair<int, int*>> bad() { co_return std::pair<int, int*>(1, nullptr); }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<bad>());
#endif
}
