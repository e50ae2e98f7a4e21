// SPDX-License-Identifier: Apache-2.0
#include <manta/manta.hpp>

#ifdef MANTA_BREACH
manta::coroutine<manta::future<int>> bad(int x) { co_return manta::put(x); }
#endif

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<bad>(1));
#endif
}
