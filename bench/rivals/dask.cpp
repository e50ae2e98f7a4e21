// SPDX-License-Identifier: Apache-2.0
//
// Dask: a client, its scheduler and one worker, processes of this machine. Python runs there, so
// its figures are of Python callers.
#include <cstdio>
#include <memory>
#include <string>

#include <unistd.h>

#include "harness/measure.hpp"
#include "rivals/can_run.hpp"
#include "rivals/rows.hpp"
#include "rivals/tcp.hpp"

namespace bench {
namespace {

// Reads how many calls to make, and answers how many seconds they took.
constexpr const char* program = R"python(
import sys, time
from distributed import Client, LocalCluster

def add(x):
    return x + 1

class Counter:
    def add(self, x):
        return x + 1

def tasks(client, counter, count):
    assert client.gather(client.map(add, range(count), pure=False))[-1] == count

def task(client, counter, count):
    for i in range(count):
        assert client.submit(add, i, pure=False).result() == i + 1

def call(client, counter, count):
    for i in range(count):
        assert counter.add(i).result() == i + 1

if __name__ == "__main__":
    work = {"tasks": tasks, "task": task, "call": call}[sys.argv[1]]
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True,
                      dashboard_address=None) as cluster, Client(cluster) as client:
        counter = client.submit(Counter, actor=True).result()
        for line in sys.stdin:
            start = time.perf_counter()
            work(client, counter, int(line))
            print(time.perf_counter() - start, flush=True)
)python";

class python {
 public:
  explicit python(const char* work) {
    check(pipe(to_) == 0 && pipe(from_) == 0, "pipes");
    process_ = std::make_unique<forked>([&] {
      dup2(to_[0], STDIN_FILENO);
      dup2(from_[1], STDOUT_FILENO);
      for (const int end : {to_[0], to_[1], from_[0], from_[1]}) close(end);
      execlp("python3", "python3", "-c", program, work, static_cast<char*>(nullptr));
    });
    close(to_[0]);
    close(from_[1]);
    answers_ = fdopen(from_[0], "r");
    check(answers_ != nullptr, "a pipe");
  }
  // The end of its input is its own, and its worker's.
  ~python() {
    close(to_[1]);
    char rest = 0;
    while (std::fread(&rest, 1, 1, answers_) == 1) {
    }
    std::fclose(answers_);
  }
  python(const python&) = delete;
  python& operator=(const python&) = delete;

  double seconds(std::size_t count) const {
    const std::string asked = std::to_string(count) + "\n";
    check(write_all(to_[1], asked.data(), asked.size()), "a python that reads");
    double took = 0;
    check(std::fscanf(answers_, "%lf", &took) == 1 && took > 0, "a python that answers");
    return took;
  }

 private:
  int to_[2] = {-1, -1};
  int from_[2] = {-1, -1};
  std::unique_ptr<forked> process_;
  std::FILE* answers_ = nullptr;
};

contestant does(const char* row, const char* work, std::size_t full, bool is_rate) {
  contestant c{row, "Dask, Python", side::rival};
  c.start = [=](const plan& p) -> body {
    const std::size_t count = p.quick ? 10 : full;
    const auto other = std::make_shared<python>(work);
    return [=](const turn&) {
      const auto n = static_cast<double>(count);
      const double took = other->seconds(count);
      return reading{.value = is_rate ? n / took : took / n * 1e6, .operations = n};
    };
  };
  return c;
}

}  // namespace

void add_dask(suite& s) {
  if (!can_run("BENCH_HAS_DASK", "python3 -c 'import distributed' >/dev/null 2>&1")) {
    s.absent("Dask", "not found; install python3-distributed");
    return;
  }
  s.add(does(cluster_far, "tasks", 1000, true));
  s.add(does(cluster_far_one, "task", 100, false));
  s.add(does(cluster_call_one, "call", 500, false));
}

}  // namespace bench
