// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <manta/manta.hpp>

using good = manta::future<int>;

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::future<const int>{});
#endif
}
