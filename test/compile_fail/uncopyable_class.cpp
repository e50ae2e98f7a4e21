// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <memory>

#include <manta/manta.hpp>

class gauge {  // counts as trivially copyable, though it can be neither copied nor moved
 public:
  int read() const { return level_.load(); }

 private:
  std::atomic<int> level_{0};
};

int level(const std::shared_ptr<gauge>& of) { return of->read(); }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<level>(std::make_shared<gauge>()));
#endif
}
