// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <manta/manta.hpp>

struct base {
  std::string name;
};
struct derived : base {
  std::string more;
};

std::size_t length(const derived& of) { return of.name.size() + of.more.size(); }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<length>(derived{}));
#endif
}
