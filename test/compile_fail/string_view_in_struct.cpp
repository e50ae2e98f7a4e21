// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include <manta/manta.hpp>

struct entry {
  int number = 0;
  std::string_view name;
};

std::size_t length(const entry& of) { return of.name.size(); }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<length>(entry{}));
#endif
}
