// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <manta/manta.hpp>

struct thing {
  int f() { return 1; }
};
struct another {};

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<&thing::f>(manta::spawn<another>()));
#endif
}
