// SPDX-License-Identifier: Apache-2.0
// A program that is killed while it writes: store_writer <store> <log>. Batch n has the key log/n,
// and the counter "last" is n. Every fourth batch asks to be durable; when one of them is answered
// its number goes to the log, which the store knows nothing of. Says "on" when it has begun.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "control/store.hpp"

namespace {

namespace control = manta::control;

constexpr std::size_t in_flight = 64;

std::mutex mutex;
std::condition_variable room;
std::size_t waiting = 0;

std::string number(std::size_t n) {
  std::string out = std::to_string(n);
  return std::string(8 - out.size(), '0') + out;
}

void answered(int log, std::size_t n, bool is_durable) {
  if (is_durable) {
    const std::string line = number(n) + "\n";
    if (write(log, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
  }
  const std::lock_guard lock(mutex);
  --waiting;
  room.notify_one();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  auto opened = control::open_rocks_store({.path = argv[1]});
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.error().message().c_str());
    return 1;
  }
  const auto store = *std::move(opened);
  const int log = open(argv[2], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) return 1;
  for (std::size_t n = store->measure().at + 1;; ++n) {
    {
      std::unique_lock lock(mutex);
      room.wait(lock, [] { return waiting < in_flight; });
      ++waiting;
    }
    const bool is_durable = n % 4 == 0;
    const std::string value = "value " + std::to_string(n * n);
    store->commit(
        {.changes = {{control::change::kind::put, "log/" + number(n), value},
                     {control::change::kind::put, "last", std::to_string(n)}},
         .how = is_durable ? control::durability::durable : control::durability::buffered},
        [log, n, is_durable](const manta::result<control::outcome>& got) {
          if (!got || got->at != n) std::abort();
          answered(log, n, is_durable);
        });
  }
}
