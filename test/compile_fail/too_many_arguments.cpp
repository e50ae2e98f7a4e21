// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <manta/manta.hpp>

int f(int a, int b) { return a + b; }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<f>(1, 2, 3));
#endif
}
