// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <manta/manta.hpp>

int main() {
#ifdef MANTA_BREACH
  using element = std::string;
#else
  using element = double;
#endif
  if (false) static_cast<void>(manta::make_array<element>({2, 3}));
}
