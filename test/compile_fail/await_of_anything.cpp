// SPDX-License-Identifier: Apache-2.0
#include <manta/manta.hpp>

#ifdef MANTA_BREACH
manta::coroutine<int> bad() { co_return co_await 3; }
#endif

int main() {}
