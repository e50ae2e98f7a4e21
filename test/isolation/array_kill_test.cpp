// SPDX-License-Identifier: Apache-2.0
// Processes that are killed at each point of an array's way: create, write, seal, get, release.
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/support.hpp"
#include "folder.hpp"
#include "isolation/support.hpp"
#include "store/quota.hpp"

// Problem. What a process holds of arrays is spread over its memory, its rings and its node's
// books, and each of these is changed at another moment: a death between two of them must cost
// neither anybody else's array nor room.
//
// Idea. What the process asks of the system on that way is a point before and after, and so are
// places in the tasks here. Processes that a round does not spare count the points that they pass,
// in memory that all share; who passes the round's one is killed there, or by a timer of the kernel
// some microseconds later, which may be at any instruction. A round that kills nobody counts the
// points.

namespace array_kill_test {
namespace {

using namespace std::chrono_literals;
using manta::array;
using test::comes_true;
using test::isolated;
using test::shared;
using test::shared_numbers;

// Numbers in shared memory.
enum cell : std::size_t {
  victim,    // the one process that counts points; 0: none does, -1: all that are not spared
  passed,    // points so far
  target,    // the one at which a process dies; 0: none
  delay_us,  // after it; 0: right there
  spared,    // and two more: processes that go on
  kills = spared + 3,
  wrong,  // arrays whose bytes were not those that were written
  turns,  // of a driver
  cell_count,
};
constexpr int everybody = -1;

void die() {
  ++shared(kills);
  if (shared(delay_us) == 0) {
    ::kill(getpid(), SIGKILL);
    return;
  }
  sigevent how{};
  how.sigev_notify = SIGEV_SIGNAL;
  how.sigev_signo = SIGKILL;
  timer_t timer{};
  itimerspec when{};
  when.it_value.tv_nsec = shared(delay_us) * 1000L;
  if (timer_create(CLOCK_MONOTONIC, &how, &timer) != 0 ||
      timer_settime(timer, 0, &when, nullptr) != 0) {
    std::abort();
  }
}

// Whether this process is one of these cases'. What stands in front of the C library below does so
// in every case of this program, and other cases have their own numbers in the same cells: one that
// counts where the victim is here comes by the id of its process sooner or later.
bool has_points = false;

/// The numbers of a case whose processes count points. Before its runtime.
class counted_numbers {
 public:
  counted_numbers() { has_points = true; }
  ~counted_numbers() { has_points = false; }
  counted_numbers(const counted_numbers&) = delete;
  counted_numbers& operator=(const counted_numbers&) = delete;

  std::atomic<int>& operator[](std::size_t i) const { return numbers_[i]; }

 private:
  const shared_numbers numbers_;
};

void pass() noexcept {
  if (!has_points) return;
  const int who = shared(victim).load(std::memory_order_relaxed);
  if (who == 0) return;
  const int kept_errno = errno;
  const int self = getpid();
  bool counts = who == self;
  if (who == everybody) {
    counts = self != shared(spared) && self != shared(spared + 1) && self != shared(spared + 2);
  }
  if (counts && ++shared(passed) == shared(target)) die();
  errno = kept_errno;
}

}  // namespace
}  // namespace array_kill_test

// In front of the C library's own. A sanitizer has its own there, and only the tasks' points.
#if MANTA_HAS_ASAN == 0 && MANTA_HAS_TSAN == 0
namespace {
template <class Call>
auto between_points(Call call) {
  array_kill_test::pass();
  const auto got = call();
  array_kill_test::pass();
  return got;
}
}  // namespace

extern "C" {
int memfd_create(const char* name, unsigned flags) noexcept {
  return between_points([&] { return static_cast<int>(syscall(SYS_memfd_create, name, flags)); });
}
int fallocate(int file, int mode, off_t at, off_t bytes) {
  return between_points(
      [&] { return static_cast<int>(syscall(SYS_fallocate, file, mode, at, bytes)); });
}
int munmap(void* at, std::size_t bytes) noexcept {
  return between_points([&] { return static_cast<int>(syscall(SYS_munmap, at, bytes)); });
}
ssize_t sendmsg(int to, const msghdr* what, int flags) {
  return between_points([&] { return syscall(SYS_sendmsg, to, what, flags); });
}
ssize_t pwritev(int file, const iovec* what, int count, off_t at) {
  return between_points([&] { return syscall(SYS_pwritev, file, what, count, at, 0); });
}
// Threads wait in it: a point is what came.
ssize_t recvmsg(int from, msghdr* into, int flags) {
  const ssize_t got = syscall(SYS_recvmsg, from, into, flags);
  if (got > 0) array_kill_test::pass();
  return got;
}
}
#endif

namespace array_kill_test {
namespace {

using word = std::uint32_t;
constexpr std::size_t least_words = std::size_t{1} << 14U;  // below, a worker's go as bytes

std::size_t words_of(int seed) { return least_words + static_cast<std::size_t>(seed % 7) * 4096; }
word word_at(int seed, std::size_t i) {
  return static_cast<word>(seed) * 2'654'435'761U + static_cast<word>(i) * 40'503U;
}

array<word> written(int seed) {
  pass();
  auto made = manta::make_array<word>(words_of(seed));
  pass();
  const std::span<word> all = made.span();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % 4096 == 0) pass();
    all[i] = word_at(seed, i);
  }
  pass();
  array<word> sealed = std::move(made).seal();
  pass();
  return sealed;
}

bool is_right(const array<word>& a, int seed) {
  if (a.size() != words_of(seed)) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != word_at(seed, i)) return false;
  }
  return true;
}
void check(const array<word>& a, int seed) {
  pass();
  if (!is_right(a, seed)) ++shared(wrong);
  pass();
}

// Another worker gets it, and gives it back.
array<word> passed_on(array<word> a, int seed) {
  check(a, seed);
  return a;
}
array<word> lives(const array<word>& a, int seed, int makes) {
  check(a, seed);
  array<word> mine = written(makes);
  const array<word> back = manta::remote<passed_on>(mine, makes).get();
  check(back, makes);
  return mine;
}

// What a process that goes on has of those that died.
class keeper {
 public:
  void keep(array<word> a, int seed) {
    all_.emplace_back(std::move(a), seed);
    if (all_.size() > 4) all_.pop_front();
  }
  int check_all() const {
    for (const auto& [a, seed] : all_) check(a, seed);
    return static_cast<int>(all_.size());
  }
  std::vector<int> seeds() const {
    std::vector<int> out;
    for (const auto& one : all_) out.push_back(one.second);
    return out;
  }
  int pid() const { return getpid(); }

 private:
  std::deque<std::pair<array<word>, int>> all_;
};

std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

pid_t zygote_of_this() {
  const auto children = test::children_of(getpid());
  return children.size() == 1 ? children.front() : 0;
}

/// From one round to the next: a driver that holds arrays, and an actor that does.
class storm {
 public:
  explicit storm(std::uint64_t seed) : roll_(seed) {
    shared(spared) = getpid();
    shared(spared + 1) = zygote_of_this();
    shared(spared + 2) = manta::remote<&keeper::pid>(reader_).get();
    ++last_;
    held_.emplace_back(written(last_), last_);
  }

  /// What a round without a death passes.
  int count_points() {
    round(0, 0);
    return shared(passed);
  }
  void random_round(int points) {
    const int at = 1 + static_cast<int>(roll_.below(static_cast<std::size_t>(points)));
    round(at, roll_.one_in(3) ? 1 + static_cast<int>(roll_.below(300)) : 0);
  }
  int lost() const { return lost_; }

 private:
  void round(int at, int delay) {
    const int made = ++last_;
    const auto& [a, seed] = held_[roll_.below(held_.size())];
    shared(passed) = 0;
    shared(target) = at;
    shared(delay_us) = delay;
    shared(victim) = everybody;
    const auto f = manta::remote<lives>.with({.max_retries = 0})(a, seed, made);
    const auto got = f.try_get(test::patience);
    shared(victim) = 0;
    if (got) {
      take(*got, made);
    } else {
      CHECK(got.error().code() == manta::errc::worker_lost);
      ++lost_;
    }
  }
  void take(array<word> a, int made) {
    REQUIRE(is_right(a, made));
    if (made % 3 == 0) {
      // From here on it is the actor's alone.
      return manta::remote<&keeper::keep>(reader_, std::move(a), made).get();
    }
    held_.emplace_back(std::move(a), made);
    if (held_.size() > 5) held_.pop_front();
  }

 public:
  /// Every array that somebody has is whole.
  void check_arrays() const {
    for (const auto& [a, seed] : held_) REQUIRE(is_right(a, seed));
    manta::remote<&keeper::check_all>(reader_).get();
    REQUIRE(shared(wrong) == 0);
  }
  /// And takes the only room.
  bool has_only_its_room(const manta::runtime& rt) const {
    std::uint64_t bytes = 0;
    for (const auto& one : held_) bytes += words_of(one.second) * sizeof(word);
    for (const int seed : manta::remote<&keeper::seeds>(reader_).get()) {
      bytes += words_of(seed) * sizeof(word);
    }
    return comes_true([&] { return rt.store().used_bytes == bytes; }, 10s);
  }

 private:
  manta_test::dice roll_;
  manta::actor<keeper> reader_ = manta::spawn<keeper>();
  std::deque<std::pair<array<word>, int>> held_;
  int last_ = 0;
  int lost_ = 0;
};

}  // namespace

TEST_CASE(
    "a worker that is killed at any point of an array's way costs no other array, and no room",
    "[isolation][array][repeats]") {
  const counted_numbers numbers;
  const std::uint64_t seed = manta_test::run_seed();
  CAPTURE(seed);
  { const manta::runtime before(isolated()); }  // its zygote stays
  const std::ptrdiff_t files = open_files();
  const int rounds = manta_test::repeats(300, 4500);
  {
    manta::config c = isolated(2);
    c.store_bytes = std::int64_t{16} << 20U;
    const manta::runtime rt(c);
    {
      storm s(seed);
      s.count_points();  // also of what comes with the first one
      const int points = s.count_points();
      CAPTURE(points);
      CHECK(points >= (test::is_sanitized ? 10 : 20));
      for (int round = 0; round < rounds; ++round) {
        CAPTURE(round, shared(target), shared(delay_us));
        s.random_round(points);
        s.check_arrays();
        REQUIRE(s.has_only_its_room(rt));
      }
      CHECK(numbers[kills] >= rounds * 2 / 3);
      CHECK(s.lost() >= rounds / 3);
      std::printf("manta: seed %llu: %d points, %d rounds, %d deaths, %d results lost\n",
                  static_cast<unsigned long long>(seed), points, rounds, numbers[kills].load(),
                  s.lost());
    }
    CHECK(comes_true([&] { return rt.store().used_bytes == 0; }, 10s));
  }
  CHECK(comes_true([] { return test::children_of(zygote_of_this()).empty(); }, 10s));
  CHECK(open_files() == files);
}

namespace {

// A driver's life: its store is too small, so that arrays come and go; workers read and make some.
[[noreturn]] void drive(const std::filesystem::path& folder) {
  manta::config c = isolated(2);
  c.store_bytes = std::int64_t{2} << 20U;
  // Workers that a busy machine keeps from their cores hold what they read.
  c.store_wait_ms = 60'000;
  c.spill_folder = (folder / "spill").string();
  c.quota_folder = (folder / "quota").string();
  c.quota_bytes = std::int64_t{16} << 20U;
  shared(victim) = getpid();
  const manta::runtime rt(c);
  constexpr int puts = 24;
  constexpr int made = 6;
  for (;;) {
    std::vector<manta::future<array<word>>> all;
    all.reserve(puts + made);
    for (int i = 0; i < puts; ++i) all.push_back(manta::put(written(i)));
    for (std::size_t i = 0; i < made; ++i) {
      const int seed = static_cast<int>(i);
      all.push_back(manta::remote<lives>(all[i], seed, puts + seed));
    }
    for (int i = 0; i < puts + made; ++i) {
      const array<word> a = std::move(all[static_cast<std::size_t>(i)]).get();
      check(a, i);
    }
    // No point counts any more, however late the test sees that.
    if (++shared(turns) >= 2) shared(victim) = 0;
  }
}

// Whether nobody has the other end any more.
bool ends_within(int reading_end, std::chrono::milliseconds time) {
  pollfd looked{reading_end, POLLIN, 0};
  return poll(&looked, 1, static_cast<int>(time.count())) == 1 && (looked.revents & POLLHUP) != 0;
}

// Runs one until it has died, at that point or after some turns; all of its processes have the end
// of a pipe, so the pipe's end is theirs.
void drive_until(int at, int delay, const std::filesystem::path& folder) {
  shared(passed) = 0;
  shared(target) = at;
  shared(delay_us) = delay;
  shared(turns) = 0;
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t driver = fork();
  if (driver == 0) {
    close(ends[0]);
    try {
      drive(folder);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "the driver ended: %s\n", e.what());
      ++shared(wrong);
      _exit(1);
    }
  }
  close(ends[1]);
  bool has_died = false;
  CHECK(comes_true([&] {
    has_died = waitpid(driver, nullptr, WNOHANG) == driver;
    return has_died || shared(turns) >= 2;
  }));
  shared(victim) = 0;
  if (!has_died) {
    kill(driver, SIGKILL);
    waitpid(driver, nullptr, 0);
  }
  CHECK(ends_within(ends[0], 10s));
  close(ends[0]);
}

}  // namespace

TEST_CASE("a driver that is killed at any point of an array's way leaves nothing",
          "[isolation][array][repeats]") {
  const counted_numbers numbers;
  const std::uint64_t seed = manta_test::run_seed();
  CAPTURE(seed);
  manta_test::dice roll(seed);
  const manta_test::folder where;
  std::filesystem::create_directory(where.path() / "spill");
  const std::ptrdiff_t files = open_files();
  drive_until(0, 0, where.path());
  const int points = numbers[passed];
  CHECK(points >= 100);
  const int rounds = manta_test::repeats(40, 500);
  for (int round = 0; round < rounds; ++round) {
    const int at = 1 + static_cast<int>(roll.below(static_cast<std::size_t>(points)));
    const int delay = roll.one_in(3) ? 1 + static_cast<int>(roll.below(300)) : 0;
    CAPTURE(round, at, delay);
    drive_until(at, delay, where.path());
    REQUIRE(numbers[wrong] == 0);
    REQUIRE(std::filesystem::is_empty(where.path() / "spill"));
    const auto shared_room = manta::store::quota::open((where.path() / "quota").string(), 1);
    REQUIRE(shared_room);
    REQUIRE(shared_room->used() == 0);
  }
  CHECK(numbers[kills] >= rounds / 2);
  CHECK(open_files() == files);
  std::printf("manta: seed %llu: %d points, %d rounds, %d deaths\n",
              static_cast<unsigned long long>(seed), points, rounds, numbers[kills].load());
}

}  // namespace array_kill_test
