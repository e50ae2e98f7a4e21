// SPDX-License-Identifier: Apache-2.0
#include <manta/manta.hpp>

class both {
 public:
  template <class Archive>
  void serialize(Archive& archive) {
    archive(number_);
  }
  template <class Archive>
  void save(Archive& archive) const {
    archive(number_);
  }
  template <class Archive>
  void load(Archive& archive) {
    archive(number_);
  }

 private:
  int number_ = 0;
};

void take(const both& /*value*/) {}

int main() {
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<take>(both{}));
#endif
}
