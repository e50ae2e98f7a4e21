// SPDX-License-Identifier: Apache-2.0
#include <mutex>
#include <tuple>
#include <utility>

#include <manta/manta.hpp>

struct holder {
  using locks = std::tuple<int, std::unique_lock<std::mutex>>;
  explicit holder(locks&& /*held*/) {}
};

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::spawn<holder>(holder::locks()));
#endif
}
