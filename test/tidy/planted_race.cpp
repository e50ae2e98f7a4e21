// SPDX-License-Identifier: Apache-2.0
// A data race on purpose: a thread sanitizer run counts only if this is reported.
#include <thread>

int main() {
  int shared = 0;
  std::thread other([&shared] {
    for (int i = 0; i < 100'000; ++i) shared = shared + 1;
  });
  for (int i = 0; i < 100'000; ++i) shared = shared + 1;
  other.join();
  return shared == 0 ? 1 : 0;
}
