// SPDX-License-Identifier: Apache-2.0
#include <any>
#include <map>
#include <string>

#include <manta/manta.hpp>

std::map<std::string, std::any> bad() { return {}; }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<bad>());
#endif
}
