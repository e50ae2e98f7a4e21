// SPDX-License-Identifier: Apache-2.0
// A clock that tests set: loaded before a program (LD_PRELOAD), it adds to the machine's clock what
// the file MANTA_TEST_CLOCK says, seconds in eight bytes. What runs on, CLOCK_MONOTONIC, it leaves.
#include <cstdint>
#include <cstdlib>
#include <ctime>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

const volatile std::int64_t* open_offset() {
  static const std::int64_t none = 0;
  const char* const path = std::getenv("MANTA_TEST_CLOCK");
  if (path == nullptr) return &none;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return &none;
  void* const at = mmap(nullptr, sizeof(std::int64_t), PROT_READ, MAP_SHARED, file, 0);
  close(file);
  return at == MAP_FAILED ? &none : static_cast<const volatile std::int64_t*>(at);
}

std::int64_t offset() {
  static const volatile std::int64_t* const at = open_offset();
  return *at;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t which, timespec* to) noexcept {
  const long is = syscall(SYS_clock_gettime, which, to);
  if (is == 0 && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) {
    to->tv_sec += offset();
  }
  return static_cast<int>(is);
}

int gettimeofday(timeval* to, void* /*zone*/) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  to->tv_sec = now.tv_sec;
  to->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* to) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (to != nullptr) *to = now.tv_sec;
  return now.tv_sec;
}

}  // extern "C"
