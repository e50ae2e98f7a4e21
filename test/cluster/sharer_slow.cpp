// SPDX-License-Identifier: Apache-2.0
// An argument whose serialiser takes long: see sharer.cpp.
#include <atomic>
#include <chrono>
#include <map>
#include <thread>
#include <vector>

#include <unistd.h>

#include <manta/manta.hpp>

#include "cluster/sharing.hpp"

using namespace sharing;  // NOLINT: its words

namespace {

// In the process that writes: the answers that its main has got.
std::atomic<int> answers{0};
std::atomic<bool> is_writing{false};
std::atomic<bool> has_heard{false};

// The first one that is written is not before its process has got 20 more answers.
struct slow_number {
  long x = 0;

  template <class Archive>
  void save(Archive& to) const {
    if (!is_writing.exchange(true)) {
      constexpr int more = 20;
      const int before = answers.load();
      const auto limit = std::chrono::steady_clock::now() + 10s;
      while (answers.load() < before + more && std::chrono::steady_clock::now() < limit) {
        std::this_thread::sleep_for(1ms);  // its work
      }
      has_heard.store(answers.load() >= before + more);
    }
    to(x);
  }
  template <class Archive>
  void load(Archive& from) {
    from(x);
  }
};

done square_of(const slow_number& of) {
  std::this_thread::sleep_for(5ms);  // its work
  return {getpid(), of.x * of.x};
}

struct echo {
  int same(int x) const { return x; }
};

}  // namespace

int sharing::slow_writer(const manta::runtime& rt) {
  const auto there = manta::on_node(rt.nodes().back().name);
  const auto other = manta::spawn<echo>.with({.where = there})();
  bool is_right = manta::remote<&echo::same>(other, 1).get() == 1;
  std::vector<manta::future<done>> all;
  constexpr long count = 1000;
  for (long i = 0; i < count; ++i) all.push_back(manta::remote<square_of>(slow_number{i}));
  const auto start = std::chrono::steady_clock::now();
  while (!has_heard.load() && std::chrono::steady_clock::now() - start < 20s) {
    is_right = manta::remote<&echo::same>(other, 2).get() == 2 && is_right;
    ++answers;
  }
  std::map<int, int> by_process;
  for (long i = 0; i < count; ++i) {
    const done& one = all[static_cast<std::size_t>(i)].get();
    ++by_process[one.pid];
    is_right = is_right && one.value == i * i;
  }
  return say("slow-writer", is_right && has_heard.load(), by_process, 0);
}
