// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <manta/manta.hpp>

struct thing {
  int n = 0;
  const int& bad() const { return n; }
};

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<&thing::bad>(manta::spawn<thing>()));
#endif
}
