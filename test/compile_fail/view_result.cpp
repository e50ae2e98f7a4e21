// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <manta/manta.hpp>

std::string_view bad() { return "text"; }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<bad>());
#endif
}
