// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <manta/manta.hpp>

class stranger {
 public:
  std::size_t size() const { return name_.size(); }

 private:
  std::string name_;
};

std::size_t size(const stranger& of) { return of.size(); }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<size>(stranger{}));
#endif
}
