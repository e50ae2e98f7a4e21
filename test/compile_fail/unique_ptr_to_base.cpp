// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <manta/manta.hpp>

struct shape {
  int sides = 0;
  virtual ~shape() = default;
};

int sides(std::unique_ptr<shape> of) { return of->sides; }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<sides>(std::make_unique<shape>()));
#endif
}
