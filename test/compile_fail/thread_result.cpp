// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include <manta/manta.hpp>

std::thread bad() { return {}; }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<bad>());
#endif
}
