// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <manta/manta.hpp>

struct thing {
  explicit thing(int* x) : n(x) {}
  int* n;
};

int main() {
#ifdef MANTA_BREACH
  int x = 1;
  static_cast<void>(manta::spawn<thing>(&x));
#endif
}
