// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include <manta/manta.hpp>

class stranger {
 public:
  std::size_t size() const { return name_.size(); }

 private:
  std::string name_;
};

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::put(std::vector<stranger>(2)));
#endif
}
