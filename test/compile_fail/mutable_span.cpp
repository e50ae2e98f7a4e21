// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <manta/manta.hpp>

int bad(std::span<int> s) { return s[0]; }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<bad>(std::vector<int>{1}));
#endif
}
