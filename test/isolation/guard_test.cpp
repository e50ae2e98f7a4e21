// SPDX-License-Identifier: Apache-2.0
// Isolated workers that are replaced, and ended for what they use.
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "constants.hpp"
#include "isolation/support.hpp"

namespace {

using namespace std::chrono_literals;
using manta_test::mib;
using test::comes_true;
using test::isolated;
using test::shared;
using test::shared_numbers;

int runs_once(int i) {
  ++shared(static_cast<std::size_t>(i));
  return getpid();
}
// Resident, and kept as long as the process.
int leaks(int megabytes) {
  const std::size_t bytes = static_cast<std::size_t>(megabytes) * mib;
  void* const room = std::malloc(bytes);
  if (room == nullptr) return -1;
  std::memset(room, 1, bytes);
  static std::vector<void*> kept;
  kept.push_back(room);
  return getpid();
}
int hogs(int megabytes) {
  ++shared(0);
  leaks(megabytes);
  comes_true([] { return shared(1) != 0; });
  return 1;
}
int hogs_at_first(int megabytes) {
  if (++shared(0) > 1) return 7;
  leaks(megabytes);
  comes_true([] { return shared(1) != 0; });
  return 1;
}
struct hoard {
  int grow(int megabytes) {
    leaks(megabytes);
    comes_true([] { return shared(1) != 0; });
    return 1;
  }
};

}  // namespace

TEST_CASE("a worker is replaced after its tasks, and none is lost or run twice", "[isolation]") {
  const shared_numbers numbers;
  manta::config c = isolated();
  c.worker_tasks = 10;
  const manta::runtime rt(c);
  constexpr int n = 300;
  std::vector<manta::future<int>> all;
  for (int i = 0; i < n; ++i) {
    all.push_back(manta::remote<runs_once>.with({.max_retries = 0})(i));
  }
  std::map<int, int> by_pid;
  for (auto& f : all) ++by_pid[f.get()];
  for (int i = 0; i < n; ++i) {
    CAPTURE(i);
    CHECK(numbers[static_cast<std::size_t>(i)] == 1);
  }
  CHECK(by_pid.size() >= n / 10);
  for (const auto& [pid, tasks] : by_pid) {
    CAPTURE(pid);
    CHECK(tasks <= 10);
  }
  const auto zygotes = test::children_of(getpid());
  REQUIRE(zygotes.size() == 1);
  CHECK(comes_true([&] { return test::children_of(zygotes.front()).size() <= 2; }));
}

namespace {

// Is destroyed in the process that made it, and takes its time for that: its work, so it sleeps.
class lingering {
 public:
  lingering() = default;
  explicit lingering(int n) : n_(n), maker_(getpid()) {}
  lingering(lingering&& other) noexcept : n_(other.n_), maker_(std::exchange(other.maker_, 0)) {}
  lingering& operator=(lingering&& other) noexcept {
    n_ = other.n_;
    std::swap(maker_, other.maker_);
    return *this;
  }
  ~lingering() {
    if (maker_ != getpid()) return;
    std::this_thread::sleep_for(400ms);
    ++shared(0);
  }
  int n() const { return n_; }
  template <class Archive>
  void serialize(Archive& with) {
    with(n_);
  }

 private:
  int n_ = 0;
  pid_t maker_ = 0;
};
lingering lingers(int n) { return lingering(n); }

int calls_another(int depth) {
  return depth == 0 ? 1 : manta::remote<calls_another>(depth - 1).get() + 1;
}

}  // namespace

TEST_CASE("workers that are to be replaced finish what they wait for", "[isolation]") {
  manta::config c = isolated();
  c.worker_tasks = 1;
  const manta::runtime rt(c);
  std::vector<manta::future<int>> all;
  for (int i = 0; i < 20; ++i) all.push_back(manta::remote<calls_another>(5));
  for (auto& f : all) CHECK(f.get() == 6);
}

TEST_CASE("a worker that is replaced destroys first what it has made", "[isolation]") {
  const shared_numbers numbers;
  manta::config c = isolated();
  c.worker_tasks = 1;
  const manta::runtime rt(c);
  for (int i = 0; i < 3; ++i) CHECK(manta::remote<lingers>(i).get().n() == i);
  CHECK(comes_true([&] { return numbers[0] == 3; }));
}

TEST_CASE("a worker that has grown is replaced between two tasks", "[isolation]") {
  if (test::is_sanitized) return;  // their own memory is far more
  manta::config c = isolated(1);
  c.worker_recycle_bytes = 150 * std::int64_t{mib};
  const manta::runtime rt(c);
  const int first = manta::remote<leaks>.with({.max_retries = 0})(1).get();
  CHECK(manta::remote<leaks>.with({.max_retries = 0})(200).get() == first);
  CHECK(
      comes_true([&] { return manta::remote<leaks>.with({.max_retries = 0})(0).get() != first; }));
}

TEST_CASE("a task that uses too much memory loses its worker and says so", "[isolation]") {
  if (test::is_sanitized) return;  // as above
  const shared_numbers numbers;
  manta::config c = isolated(1);
  c.worker_memory_bytes = 150 * std::int64_t{mib};
  const manta::runtime rt(c);
  auto hog = manta::remote<hogs>.with({.max_retries = 0})(300);
  REQUIRE(comes_true([&] { return numbers[0] == 1; }));
  // Sent ahead to the same worker; it spends no run.
  std::vector<manta::future<int>> behind;
  for (int i = 10; i < 15; ++i) {
    behind.push_back(manta::remote<runs_once>.with({.max_retries = 0})(i));
  }
  std::string text;
  try {
    hog.get();
  } catch (const manta::worker_lost& e) {
    text = e.what();
  }
  CAPTURE(text);
  CHECK(text.find("too much memory: used ") != std::string::npos);
  CHECK(text.find(" MiB of 150 MiB; largest workers: hogs (worker ") != std::string::npos);
  for (auto& f : behind) CHECK(f.get() > 0);
  for (std::size_t i = 10; i < 15; ++i) CHECK(numbers[i] == 1);
}

TEST_CASE("such a task runs again as often as it may", "[isolation]") {
  if (test::is_sanitized) return;  // as above
  const shared_numbers numbers;
  manta::config c = isolated(1);
  c.worker_memory_bytes = 150 * std::int64_t{mib};
  const manta::runtime rt(c);
  CHECK(manta::remote<hogs_at_first>.with({.max_retries = 1})(300).get() == 7);
  CHECK(numbers[0] == 2);
}

TEST_CASE("an actor that uses too much memory is lost, and says so", "[isolation]") {
  if (test::is_sanitized) return;  // as above
  const shared_numbers numbers;
  manta::config c = isolated(1);
  c.worker_memory_bytes = 150 * std::int64_t{mib};
  const manta::runtime rt(c);
  const auto a = manta::spawn<hoard>();
  std::string text;
  try {
    manta::remote<&hoard::grow>(a, 300).get();
  } catch (const manta::actor_lost& e) {
    text = e.what();
  }
  CAPTURE(text);
  CHECK(text.find("too much memory: used ") != std::string::npos);
  CHECK(text.find("hoard (worker ") != std::string::npos);
}

namespace {

constexpr auto in_process = manta::isolation_mode::processes;

// Early, so that tasks find the shared numbers.
manta::config mixed(int workers = 1) {
  manta::config c;
  c.workers = workers;
  c.memory_bytes = 8192 * std::int64_t{mib};
  c.isolation = manta::isolation_mode::threads;
  c.zygote = manta::zygote_mode::early;
  return c;
}
// With a limit of so much, and none of what it may have beside.
manta::options with_limit(std::size_t megabytes, int max_retries = 0) {
  return {.memory_bytes = megabytes * mib,
          .isolation = in_process,
          .enforce_memory = true,
          .max_retries = max_retries};
}
template <class Future>
std::string text_of(Future&& f) {
  try {
    f.get();
  } catch (const manta::worker_lost& e) {
    return e.what();
  } catch (const manta::actor_lost& e) {
    return e.what();
  }
  return {};
}
// Reads all of an array, which makes it resident here, and waits for several looks of the guard.
double reads(const manta::array<double>& a) {
  double sum = 0;
  for (const double x : a.span()) sum += x;
  std::this_thread::sleep_for(700ms);  // what the test is about: that nothing comes meanwhile
  return sum;
}
int holds(int megabytes) {
  leaks(megabytes);
  std::this_thread::sleep_for(700ms);  // as above
  return getpid();
}

}  // namespace

TEST_CASE("a task's own limit is enforced, and holds for that task alone", "[isolation]") {
  if (test::is_sanitized) return;  // as above
  const shared_numbers numbers;
  const manta::runtime rt(mixed());
  const std::string text = text_of(manta::remote<hogs>.with(with_limit(100))(200));
  CAPTURE(text);
  CHECK(text.find("too much memory: used ") != std::string::npos);
  CHECK(text.find(" MiB of 100 MiB; largest workers: hogs (worker ") != std::string::npos);
  // Another one's limit, none, and one that it keeps.
  CHECK(manta::remote<holds>.with(with_limit(300))(200).get() != getpid());
  CHECK(manta::remote<holds>.with({.isolation = in_process, .max_retries = 0})(200).get() !=
        getpid());
  CHECK(manta::remote<hogs_at_first>.with(with_limit(100, 1))(200).get() == 7);
}

TEST_CASE("what a worker had before is not the next task's", "[isolation]") {
  if (test::is_sanitized) return;  // as above
  const shared_numbers numbers;
  const manta::runtime rt(mixed());
  const int worker =
      manta::remote<leaks>.with({.isolation = in_process, .max_retries = 0})(400).get();
  CHECK(manta::remote<holds>.with(with_limit(100))(50).get() == worker);
  CHECK_FALSE(text_of(manta::remote<hogs>.with(with_limit(100))(200)).empty());
}

TEST_CASE("an array of the store is no task's memory", "[isolation]") {
  if (test::is_sanitized) return;  // as above
  const manta::runtime rt(mixed());
  auto made = manta::make_array<double>({30 * mib});
  for (double& x : made.span()) x = 1;
  const auto sealed = std::move(made).seal();
  CHECK(manta::remote<reads>.with(with_limit(50))(sealed).get() == 30 * mib);
}

TEST_CASE("an actor's own limit is enforced, and holds for all its life", "[isolation]") {
  if (test::is_sanitized) return;  // as above
  const shared_numbers numbers;
  const manta::runtime rt(mixed());
  const auto a = manta::spawn<hoard>.with(
      {.memory_bytes = 100 * mib, .isolation = in_process, .enforce_memory = true})();
  const auto free = manta::spawn<hoard>.with({.isolation = in_process})();
  auto other = manta::remote<&hoard::grow>(free, 200);
  const std::string text = text_of(manta::remote<&hoard::grow>(a, 200));
  CAPTURE(text);
  CHECK(text.find(" MiB of 100 MiB; largest workers: ") != std::string::npos);
  numbers[1] = 1;
  CHECK(other.get() == 1);
}

namespace {

int waits_in_thread() {
  return comes_true([] { return shared(1) != 0; }) ? 1 : 0;
}
manta::coroutine<int> suspends(int megabytes) {
  leaks(megabytes);
  ++shared(0);
  co_return co_await manta::remote<waits_in_thread>();
}
int asks_with_limit(int megabytes) {
  return text_of(manta::remote<hogs>.with(with_limit(100))(megabytes)).empty() ? 0 : 1;
}

}  // namespace

TEST_CASE("a limit holds where an isolated task asks for it, too", "[isolation]") {
  if (test::is_sanitized) return;  // as above
  const shared_numbers numbers;
  const manta::runtime rt(mixed(2));
  CHECK(manta::remote<asks_with_limit>.with({.isolation = in_process})(200).get() == 1);
}

TEST_CASE("what others use is not a suspended task's fault, and its own is", "[isolation]") {
  if (test::is_sanitized) return;  // as above
  const shared_numbers numbers;
  const manta::runtime rt(mixed());
  auto suspended = manta::remote<suspends>.with(with_limit(100))(10);
  REQUIRE(comes_true([&] { return numbers[0] == 1; }));
  CHECK(manta::remote<holds>.with({.isolation = in_process, .max_retries = 0})(300).get() > 0);
  numbers[1] = 1;
  CHECK(suspended.get() == 1);
  numbers[1] = 0;
  CHECK_FALSE(text_of(manta::remote<suspends>.with(with_limit(100))(200)).empty());
  numbers[1] = 1;  // for what it called in a thread
}
