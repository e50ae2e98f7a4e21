// SPDX-License-Identifier: Apache-2.0
#include <manta/manta.hpp>

#include <cstdio>
#include <vector>

int square(int x) { return x * x; }
int sum(std::vector<int> parts) {
  int total = 0;
  for (int part : parts) total += part;
  return total;
}
struct account {
  int balance = 0;
  int deposit(int amount) { return balance += amount; }
};

int main(int argc, char** argv) {
  manta::runtime rt(argc, argv);
  std::vector<manta::future<int>> squares;
  for (int i = 1; i <= 10; ++i) squares.push_back(manta::remote<square>(i));  // tasks
  manta::future<int> total = manta::remote<sum>(squares);                     // waits for all ten
  manta::actor<account> savings = manta::spawn<account>();                    // a class that lives
  manta::future<int> balance = manta::remote<&account::deposit>(savings, total);
  auto [ready, pending] = manta::wait(squares, {.count = 9});
  std::printf("9 of 10: %zu ready, %zu pending\n", ready.size(), pending.size());
  std::printf("sum of squares %d, balance %d\n", total.get(), balance.get());
}
