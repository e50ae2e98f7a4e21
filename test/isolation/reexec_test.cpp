// SPDX-License-Identifier: Apache-2.0
// Isolated workers of a process that it is too late to fork: its file is started once more. Each
// case runs in a process of its own, since an earlier runtime of this one may have left a zygote.
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>

#include "folder.hpp"
#include "isolation/support.hpp"

namespace reexec_test {

namespace {

using namespace std::chrono_literals;
using test::children_of;
using test::comes_true;
using test::isolated;
using test::pid;
using test::square;

constexpr auto in_process = manta::isolation_mode::processes;

manta::config late() {
  manta::config c;
  c.workers = 2;
  c.isolation = manta::isolation_mode::threads;
  c.zygote = manta::zygote_mode::late;
  return c;
}
const auto isolated_pid = manta::remote<pid>.with({.isolation = in_process});

// The test program with one of the cases below and a variable more; its process.
pid_t start_alone(const std::string& name, const std::string& variable = "MANTA_TEST_NOTHING=1") {
  std::vector<std::string> arguments{"/proc/self/exe", name, "-w", "NoTests"};
  std::vector<char*> argv;
  for (std::string& one : arguments) argv.push_back(one.data());
  argv.push_back(nullptr);
  std::string more = variable;
  std::vector<char*> variables{more.data()};
  for (char** one = environ; *one != nullptr; ++one) variables.push_back(*one);
  variables.push_back(nullptr);
  pid_t made = -1;
  const int failed =
      posix_spawn(&made, "/proc/self/exe", nullptr, nullptr, argv.data(), variables.data());
  return failed == 0 ? made : -1;
}
// Whether its checks held.
bool holds_alone(const std::string& name, const std::string& variable = "MANTA_TEST_NOTHING=1") {
  const pid_t made = start_alone(name, variable);
  if (made < 0) return false;
  int status = -1;
  waitpid(made, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// What main would have set up before its runtime.
int set_by_main = 0;
int seen_setting() { return set_by_main; }
// Set up before main.
const int set_before_main = 42;
int seen_constant() { return set_before_main; }

std::string variable_of(const std::string& name) {
  const char* const found = std::getenv(name.c_str());
  return found == nullptr ? "none" : found;
}
int crashes() {
  if (test::is_sanitized) std::signal(SIGSEGV, SIG_DFL);  // the sanitizer would tell of it
  raise(SIGSEGV);
  return 0;
}
double fifth(const manta::array<double>& of) { return of.span()[5]; }
struct counter {
  int next() { return ++value; }
  int where() { return getpid(); }
  int value = 0;
};

// In a process whose initialisers start a thread, no zygote can be.
const bool has_early_thread = [] {
  if (std::getenv("MANTA_TEST_EARLY_THREAD") == nullptr) return false;
  std::thread([] {
    for (;;) std::this_thread::sleep_for(1h);
  }).detach();
  return true;
}();

bool is_gone(pid_t one) { return kill(one, 0) != 0; }

}  // namespace

// ---- what runs alone: hidden, since each needs a new process, in which a case below runs it

TEST_CASE("alone: no process is made before a call asks for one", "[.][alone]") {
  const manta::runtime rt(late());
  CHECK(manta::remote<square>(3).get() == 9);
  CHECK(children_of(getpid()).empty());
  CHECK(isolated_pid().get() != getpid());
  CHECK(children_of(getpid()).size() == 1);
}

TEST_CASE("alone: main has not begun in workers", "[.][alone]") {
  set_by_main = 7;
  const manta::runtime rt(late());
  CHECK(manta::remote<seen_setting>().get() == 7);
  CHECK(manta::remote<seen_setting>.with({.isolation = in_process})().get() == 0);
  CHECK(manta::remote<seen_constant>.with({.isolation = in_process})().get() == 42);
  const auto variable = manta::remote<variable_of>.with({.isolation = in_process});
  CHECK(variable("MANTA_ZYGOTE_OF").get() == "none");
  CHECK(variable("MANTA_TEST_NOTHING").get() == "1");
}

TEST_CASE("alone: a runtime that comes after threads has isolated workers", "[.][alone]") {
  test::scoped_gate ended;
  std::thread other([&] { ended.wait(); });
  {
    const manta::runtime rt(isolated());
    CHECK(manta::remote<pid>().get() != getpid());
    const auto a = manta::spawn<counter>();
    CHECK(manta::remote<&counter::where>(a).get() != getpid());
    for (int i = 1; i <= 100; ++i) CHECK(manta::remote<&counter::next>(a).get() == i);
    auto made = manta::make_array<double>({1 << 16});
    made.span()[5] = 2.5;
    const auto sealed = std::move(made).seal();
    CHECK(manta::remote<fifth>(sealed).get() == 2.5);
  }
  ended.open();
  other.join();
}

TEST_CASE("alone: a crash is named though addresses differ", "[.][alone]") {
  const manta::runtime rt(late());
  std::string text;
  try {
    manta::remote<crashes>.with({.isolation = in_process, .max_retries = 0})().get();
  } catch (const manta::worker_lost& e) {
    text = e.what();
  }
  CAPTURE(text);
  CHECK(text.find("signal 11") != std::string::npos);
  if (!test::is_sanitized) CHECK(text.find("in reexec_test::crashes()") != std::string::npos);
}

TEST_CASE("alone: a later runtime has the same zygote and its own settings", "[.][alone]") {
  const auto visible = [] {
    return manta::remote<variable_of>.with({.isolation = in_process})("CUDA_VISIBLE_DEVICES").get();
  };
  test::scoped_gate ended;
  std::thread other([&] { ended.wait(); });
  unsetenv("CUDA_VISIBLE_DEVICES");
  std::vector<pid_t> zygotes;
  for (const int gpus : {0, 2, 0}) {
    CAPTURE(gpus);
    manta::config c = late();
    c.gpus = gpus;
    const manta::runtime rt(c);
    CHECK(visible() == (gpus > 0 ? "" : "none"));
    const auto now = children_of(getpid());
    CHECK(now.size() == 1);
    CHECK((zygotes.empty() || zygotes == now));
    zygotes = now;
  }
  ended.open();
  other.join();
}

TEST_CASE("alone: a zygote that died is made anew by the next runtime", "[.][alone]") {
  test::scoped_gate ended;
  std::thread other([&] { ended.wait(); });
  {
    const manta::runtime rt(late());
    CHECK(isolated_pid().get() != getpid());
    const auto zygotes = children_of(getpid());
    REQUIRE(zygotes.size() == 1);
    kill(zygotes.front(), SIGKILL);
    CHECK_THROWS_AS(manta::remote<crashes>.with({.isolation = in_process})().get(),
                    manta::worker_lost);
  }
  const manta::runtime rt(late());
  CHECK(isolated_pid().get() != getpid());
  ended.open();
  other.join();
}

TEST_CASE("alone: what has threads before main can't have workers late", "[.][alone]") {
  REQUIRE(has_early_thread);
  const manta::runtime rt(late());
  std::string text;
  try {
    static_cast<void>(isolated_pid());
  } catch (const manta::unsupported& e) {
    text = e.what();
  }
  CAPTURE(text);
  CHECK(text.find("2 threads before its main begins") != std::string::npos);
  CHECK(children_of(getpid()).empty());
  CHECK(manta::remote<square>(3).get() == 9);
}

TEST_CASE("alone: what can't be started again says so", "[.][alone]") {
  REQUIRE(std::getenv("MANTA_ZYGOTE_OF") != nullptr);
  {
    const manta::runtime rt(late());
    CHECK_THROWS_WITH(isolated_pid(), Catch::Contains("can't be started once more") &&
                                          Catch::Contains("zygote = early"));
    CHECK(children_of(getpid()).empty());
    CHECK(manta::remote<square>(3).get() == 9);
  }
  manta::config early = late();
  early.zygote = manta::zygote_mode::early;
  const manta::runtime rt(early);
  CHECK(isolated_pid().get() != getpid());
}

namespace {

bool inner_holds() { return holds_alone("alone: no process is made before a call asks for one"); }

}  // namespace

TEST_CASE("alone: a worker may start the program as any other", "[.][alone]") {
  const manta::runtime rt(late());
  CHECK(manta::remote<inner_holds>.with({.isolation = in_process})().get());
}

TEST_CASE("alone: many callers at once make one zygote", "[.][alone]") {
  const manta::runtime rt(late());
  std::vector<std::thread> all;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i) {
    all.emplace_back([&] { right += isolated_pid().get() != getpid() ? 1 : 0; });
  }
  for (std::thread& one : all) one.join();
  CHECK(right == 8);
  CHECK(children_of(getpid()).size() == 1);
}

TEST_CASE("alone: is killed", "[.][victim]") {
  const manta::runtime rt(late());
  const char* const path = std::getenv("MANTA_TEST_PATH");
  std::FILE* const file = path == nullptr ? nullptr : std::fopen(path, "we");
  REQUIRE(file != nullptr);
  const int worker = isolated_pid().get();
  std::fprintf(file, "%d %d\n", worker, children_of(getpid()).front());
  std::fclose(file);
  comes_true([] { return false; });
}

// ---- who runs them

TEST_CASE("where it is too late to fork, the program's file is started once more", "[isolation]") {
  CHECK(holds_alone("alone: no process is made before a call asks for one"));
  CHECK(holds_alone("alone: main has not begun in workers"));
  CHECK(holds_alone("alone: a runtime that comes after threads has isolated workers"));
  CHECK(holds_alone("alone: a crash is named though addresses differ"));
  CHECK(holds_alone("alone: many callers at once make one zygote"));
}

TEST_CASE("a zygote that was started so serves later runtimes, and is replaced", "[isolation]") {
  CHECK(holds_alone("alone: a later runtime has the same zygote and its own settings"));
  CHECK(holds_alone("alone: a zygote that died is made anew by the next runtime"));
}

TEST_CASE("no zygote comes of a program that has threads before main", "[isolation]") {
  CHECK(holds_alone("alone: what has threads before main can't have workers late",
                    "MANTA_TEST_EARLY_THREAD=1"));
}

TEST_CASE("nothing that workers start is a zygote", "[isolation]") {
  CHECK(holds_alone("alone: a worker may start the program as any other"));
  // Nor is a program that somebody else gave such a variable.
  CHECK(holds_alone("alone: what can't be started again says so", "MANTA_ZYGOTE_OF=3:1"));
}

TEST_CASE("a driver that is killed leaves no process behind that was started so", "[isolation]") {
  const manta_test::folder folder;
  const std::string path = (folder.path() / "pids").string();
  const pid_t driver = start_alone("alone: is killed", "MANTA_TEST_PATH=" + path);
  REQUIRE(driver > 0);
  int worker = 0;
  int zygote = 0;
  const bool has_begun = comes_true([&] {
    std::FILE* const file = std::fopen(path.c_str(), "re");
    const int found = file == nullptr ? 0 : std::fscanf(file, "%d %d", &worker, &zygote);
    if (file != nullptr) std::fclose(file);
    return found == 2;
  });
  kill(driver, SIGKILL);
  int status = 0;
  waitpid(driver, &status, 0);
  REQUIRE(has_begun);
  CHECK(comes_true([&] { return is_gone(worker) && is_gone(zygote); }, 10s));
}

}  // namespace reexec_test
