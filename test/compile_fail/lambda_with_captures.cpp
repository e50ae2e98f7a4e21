// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <manta/manta.hpp>

int good() { return 1; }

int main() {
#ifdef MANTA_BREACH
  const int n = 1;
  auto bad = [n] { return n; };
  static_cast<void>(manta::remote<bad>());
#endif
}
