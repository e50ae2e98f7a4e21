// SPDX-License-Identifier: Apache-2.0
//
// Counts primes while its workers are killed. Each task counts a part, in a worker that is a
// process; meanwhile a thread kills one worker after the other, as a crash, a leak or an operator
// would. A dead worker costs the run of the one task that it had: that runs again elsewhere, and a
// new worker takes the dead one's place. The count is known, so a part that was lost or counted
// twice shows.
//
//   tasks --> worker, worker, worker --> counts --> sum == known
//                       ^ SIGKILL
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include <sys/types.h>

#include <manta/manta.hpp>

#include "../common/command_line.hpp"
#include "../common/random.hpp"

namespace {

// Primes below 10^n (OEIS A006880).
constexpr std::int64_t known[] = {0,      4,       25,        168,        1'229,      9'592,
                                  78'498, 664'579, 5'761'455, 50'847'534, 455'052'511};

// The primes up to `most`, by Eratosthenes' sieve.
std::vector<std::int64_t> primes_up_to(std::int64_t most) {
  std::vector<char> is_composite(static_cast<std::size_t>(most) + 1);
  std::vector<std::int64_t> found;
  for (std::int64_t n = 2; n <= most; ++n) {
    if (is_composite[static_cast<std::size_t>(n)] != 0) continue;
    found.push_back(n);
    for (std::int64_t m = n * n; m <= most; m += n) is_composite[static_cast<std::size_t>(m)] = 1;
  }
  return found;
}

// How many primes there are in [first, last).
std::int64_t count_primes(std::int64_t first, std::int64_t last) {
  std::int64_t root = 1;
  while (root * root < last) ++root;
  std::vector<char> is_composite(static_cast<std::size_t>(last - first));
  for (const std::int64_t p : primes_up_to(root)) {
    std::int64_t m = std::max(p * p, (first + p - 1) / p * p);
    for (; m < last; m += p) is_composite[static_cast<std::size_t>(m - first)] = 1;
  }
  std::int64_t count = 0;
  for (std::int64_t n = std::max<std::int64_t>(first, 2); n < last; ++n) {
    count += is_composite[static_cast<std::size_t>(n - first)] == 0 ? 1 : 0;
  }
  return count;
}

// Kills a worker of the runtime now and then, until it goes.
class killer {
 public:
  killer(const manta::runtime& rt, std::chrono::milliseconds pause)
      : thread_([this, &rt, pause] { run(rt, pause); }) {}
  ~killer() { stop(); }
  killer(const killer&) = delete;
  killer& operator=(const killer&) = delete;

  // Kills no more; how many it killed.
  int stop() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
    return killed_;
  }

 private:
  void run(const manta::runtime& rt, std::chrono::milliseconds pause) {
    examples::random_stream choice(7);
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, pause, [this] { return is_over_; })) {
      std::vector<pid_t> workers;
      for (const manta::worker_stats& one : rt.stats().workers) {
        // One that has run nothing yet may be left: the engine gives up when all die at once.
        if (one.process != 0 && one.tasks_run > 0) workers.push_back(one.process);
      }
      if (workers.empty()) continue;
      if (kill(workers[choice.below(static_cast<std::uint32_t>(workers.size()))], SIGKILL) == 0)
        ++killed_;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  int killed_ = 0;  // the thread's, until it has ended
  std::thread thread_;
};

constexpr const char* help =
    "crash_proof [--power 9] [--tasks 1000] [--kill-ms 50]\n"
    "  counts the primes below 10^power in so many tasks, and kills a worker so often\n";

}  // namespace

int main(int argc, char** argv) {
  examples::command_line line("crash_proof", help, argc, argv);
  const std::int64_t power = line.whole("--power", 9, 4, 10);
  const std::int64_t tasks = line.whole("--tasks", 1000, 1, 1'000'000);
  const std::int64_t kill_ms = line.whole("--kill-ms", 50, 1, 3'600'000);
  line.finish();
  // Threads can't be killed alone; an argument or a variable of the user's still wins.
  setenv("MANTA_ISOLATION", "processes", 0);
  const manta::runtime rt(argc, argv);

  std::int64_t below = 1;
  for (std::int64_t i = 0; i < power; ++i) below *= 10;
  const std::int64_t each = (below + tasks - 1) / tasks;
  const auto begin = std::chrono::steady_clock::now();
  killer at_work(rt, std::chrono::milliseconds(kill_ms));
  std::vector<manta::future<std::int64_t>> parts;
  for (std::int64_t first = 0; first < below; first += each) {
    // As often as it takes: to be killed is not the task's fault here.
    parts.push_back(manta::remote<count_primes>.with({.max_retries = 1'000'000})(
        first, std::min(first + each, below)));
  }
  std::int64_t count = 0;
  std::size_t done = 0;
  for (const auto& part : parts) {
    count += part.get();
    if (++done % ((parts.size() + 9) / 10) == 0) {
      std::printf("%zu of %zu parts, %lld primes\n", done, parts.size(),
                  static_cast<long long>(count));
    }
  }
  const int killed = at_work.stop();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const manta::runtime_stats stats = rt.stats();
  if (stats.isolated_workers == 0) {
    std::fprintf(stderr,
                 "crash_proof: asked for workers that can be killed, found threads; run it "
                 "with --manta-isolation=processes\n");
    return 2;
  }
  const std::int64_t right = known[power];
  std::printf("%llu workers in turn for %d places; %llu runs of %zu tasks\n",
              static_cast<unsigned long long>(stats.isolated_workers), rt.workers(),
              static_cast<unsigned long long>(stats.tasks_run), parts.size());
  std::printf("crash_proof: %lld primes below 10^%lld in %.2f s, %d workers killed meanwhile, %s\n",
              static_cast<long long>(count), static_cast<long long>(power), seconds, killed,
              count == right ? "the count is right" : "the count is WRONG");
  return count == right ? 0 : 1;
}
