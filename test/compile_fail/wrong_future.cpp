// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <manta/manta.hpp>

int f(std::string s) { return static_cast<int>(s.size()); }
struct other {};

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<f>(manta::future<other>{}));
#endif
}
