// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include <manta/manta.hpp>

int bad(const std::function<int()>& f) { return f(); }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<bad>([] { return 1; }));
#endif
}
