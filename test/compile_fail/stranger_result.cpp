// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>

#include <manta/manta.hpp>

class stranger {
 public:
  std::size_t size() const { return name_.size(); }

 private:
  std::string name_;
};

std::optional<stranger> make() { return std::nullopt; }

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<make>());
#endif
}
