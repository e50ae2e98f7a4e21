// SPDX-License-Identifier: Apache-2.0
#include <manta/manta.hpp>

manta::coroutine<int> bad(const int* p) { co_return *p; }

int main() {
#ifdef MANTA_BREACH
  static const int x = 1;
  static_cast<void>(manta::remote<bad>(&x));
#endif
}
