// SPDX-License-Identifier: Apache-2.0
// A program of settler.cpp: a rank ends while who waits for its results stands still.
#include <atomic>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include <unistd.h>

#include "cluster/settling.hpp"
#include "cluster/stopping.hpp"

namespace settling {

namespace {

// Of rank 1, which runs both.
std::atomic<bool> is_asker_still{false};
std::atomic<bool> is_over{false};

// Who has asked stands still for so long: no thread of it goes on, and what comes stays unread.
int holds_asker(int asker) {
  cluster_test::stop(asker);  // before there is who wakes it, or it might be woken first
  const pid_t wakes = fork();
  if (wakes == 0) {
    usleep(600'000);  // the fault's length
    kill(asker, SIGCONT);
    _exit(0);
  }
  if (wakes < 0) kill(asker, SIGCONT);
  expect(wakes > 0, "a process that wakes it");
  is_asker_still = true;
  return 1;
}
// Its result has to wait for an answer to the first one.
int ends_after_it() {
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (!is_asker_still && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  std::this_thread::sleep_for(100ms);  // the task's work
  is_over = true;
  return 2;
}

}  // namespace

int unheard(const manta::runtime& rt) {
  if (rt.rank() == 0) return comes("heard") ? 0 : 1;
  if (rt.rank() == 1) {
    const auto limit = std::chrono::steady_clock::now() + long_enough;
    while (!is_over && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    return 0;
  }
  manta::options once = at("rank-1");
  once.max_retries = 0;
  const auto one = manta::remote<holds_asker>.with(once)(getpid());
  const auto other = manta::remote<ends_after_it>.with(once)();
  expect(one.get(long_enough) == 1, "what left before");
  expect(other.try_get(long_enough).has_value(),
         "what had to wait: " + thrown_by<manta::exception>(other));
  manta::kv::put(std::string("heard"), 1).get();
  return say("unheard");
}

}  // namespace settling
