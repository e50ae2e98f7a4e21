// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <manta/manta.hpp>

int main() {
  const manta::future<int> f;
#ifdef MANTA_BREACH
  static_cast<void>(
      manta::on_ready(f, [](const manta::future<int>&) -> manta::stream<int> { co_yield 1; }));
#endif
}
