// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <manta/manta.hpp>

int bad(std::string_view s) { return static_cast<int>(s.size()); }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<bad>("text"));
#endif
}
