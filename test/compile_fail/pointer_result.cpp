// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <manta/manta.hpp>

int* bad() { return nullptr; }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<bad>());
#endif
}
