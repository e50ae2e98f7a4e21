// SPDX-License-Identifier: Apache-2.0
#include <manta/manta.hpp>

template <class F>
int call(F f) {
  return f();
}

int main() {
#ifdef MANTA_BREACH
  const int n = 1;
  const auto bad = [n] { return n; };
  static_cast<void>(manta::remote<call<decltype(bad)>>(bad));
#endif
}
