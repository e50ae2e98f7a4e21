// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <manta/manta.hpp>

struct thing {
  int bad(std::span<const int> s) { return s[0]; }
};

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<&thing::bad>(manta::spawn<thing>(), std::vector<int>{1}));
#endif
}
