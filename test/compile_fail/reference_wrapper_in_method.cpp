// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <optional>

#include <manta/manta.hpp>

struct holder {
  int bad(std::optional<std::reference_wrapper<int>> x) { return x->get(); }
};

int main() {
#ifdef MANTA_BREACH
  int x = 1;
  static_cast<void>(manta::remote<&holder::bad>(manta::spawn<holder>(), std::ref(x)));
#endif
}
