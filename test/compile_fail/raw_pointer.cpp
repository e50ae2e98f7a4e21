// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <manta/manta.hpp>

int bad(const int* x) { return *x; }

int main() {
#ifdef MANTA_BREACH
  int x = 1;
  static_cast<void>(manta::remote<bad>(&x));
#endif
}
