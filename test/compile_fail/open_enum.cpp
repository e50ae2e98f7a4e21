// SPDX-License-Identifier: Apache-2.0
#include <manta/manta.hpp>

enum fixed : int { one };
enum with_range { low, high };
template <>
struct manta::enum_range<with_range> {
  static constexpr with_range first = low;
  static constexpr with_range last = high;
};
struct fine {
  fixed a;
  with_range b;
};
int take_fine(fine f) { return f.a; }

enum open { shut, ajar };
struct door {
  open state;
};
int take_door(door d) { return d.state; }

int main() {
  const manta::runtime rt;
  static_cast<void>(manta::remote<take_fine>(fine{}));
#ifdef MANTA_BREACH
  static_cast<void>(manta::remote<take_door>(door{}));
#endif
}
