// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <manta/manta.hpp>

manta::coroutine<int> bad(const std::string& s) { co_return static_cast<int>(s.size()); }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<bad>("text"));
#endif
}
