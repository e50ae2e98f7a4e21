// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <manta/manta.hpp>

struct deleter {
  void operator()(int* p) const { delete p; }
};
using owned = std::unique_ptr<int, deleter>;

int number(owned from) { return *from; }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<number>(owned(new int(1))));
#endif
}
