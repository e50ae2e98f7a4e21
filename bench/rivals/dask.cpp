// SPDX-License-Identifier: Apache-2.0
//
// Dask: a client, its scheduler and one worker, processes of this machine. Python runs there, so
// its figures are of Python callers.
#include <memory>
#include <string>
#include <vector>

#include "rivals/can_run.hpp"
#include "rivals/line_process.hpp"
#include "rivals/rows.hpp"

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

contestant does(const char* row, const char* work, std::size_t full, bool is_rate) {
  contestant c{row, "Dask, Python", side::rival};
  c.start = [=](const plan& p) -> body {
    const std::size_t count = p.quick ? 10 : full;
    const auto other =
        std::make_shared<line_process>(std::vector<std::string>{"python3", "-c", program, work});
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
