// SPDX-License-Identifier: Apache-2.0
// A user's program: it calls a function remotely, and catches what a task threw, so that templates,
// the library's compiled part, its thread-local state and its exception types all cross the border.
#include <cstdio>
#include <stdexcept>

#include <manta/manta.hpp>

int twice(int x) {
  if (x < 0) throw std::invalid_argument("negative");
  return 2 * x;
}

int main() {
  manta::runtime rt;
  const int value = manta::remote<twice>(21).get();
  bool caught = false;
  try {
    manta::remote<twice>(-1).get();
  } catch (const manta::task_error&) {
    caught = true;
  }
  std::printf("consumer: %d, %s\n", value, caught ? "caught" : "not caught");
  return value == 42 && caught ? 0 : 1;
}
