// SPDX-License-Identifier: Apache-2.0
// Programs as processes: settings, exit codes, what a killed one leaves, what an idle one costs.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/support.hpp"
#include "e2e/child.hpp"
#include "folder.hpp"

namespace process_test {

namespace {

using test::child;
using test::outcome;
using test::program;
using test::run;
using test::variables;

bool is_one_line(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n') == 1 && text.back() == '\n';
}

std::set<std::string> entries(const char* folder) {
  std::set<std::string> found;
  std::error_code ignored;
  for (const auto& e : std::filesystem::directory_iterator(folder, ignored)) {
    found.insert(e.path().filename().string());
  }
  return found;
}

/// Whether a process is left in the group that `leader` began.
bool has_group(pid_t leader) { return kill(-leader, 0) == 0 || errno != ESRCH; }

}  // namespace

TEST_CASE("a small program runs, prints and ends with code 0", "[process]") {
  const outcome o = run({"hello"});
  CHECK(o.status == 0);
  CHECK(o.out == "285 285\n");
  CHECK(o.err.empty());
}

TEST_CASE("the command line beats the environment, and a struct beats both", "[process]") {
  CHECK(run({"workers", "--manta-workers=3"}).out == "3\n");
  CHECK(run({"workers"}, {"MANTA_WORKERS=4"}).out == "4\n");
  CHECK(run({"workers", "--manta-workers=3"}, {"MANTA_WORKERS=4"}).out == "3\n");
  CHECK(run({"workers", "--manta-workers=3", "--manta-workers=5"}).out == "5\n");
  CHECK(run({"default_workers", "--manta-workers=3"}, {"MANTA_WORKERS=4"}).out == "4\n");
  CHECK(run({"struct_workers"}, {"MANTA_WORKERS=4"}).out == "3\n");
  CHECK(run({"workers", "--", "--manta-workers=x"}, {"MANTA_WORKERS=2"}).out == "2\n");
}

TEST_CASE("a bad setting ends the program with code 2 and one line with key and range",
          "[process]") {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"--manta-workers=0", "1 to 1024"},    {"--manta-workers=-1", "1 to 1024"},
      {"--manta-workers=1025", "1 to 1024"}, {"--manta-workers=two", "1 to 1024"},
      {"--manta-workers=2x", "1 to 1024"},   {"--manta-workers=", "1 to 1024"},
      {"--manta-workers", "1 to 1024"},      {"--manta-workers=99999999999999", "1 to 1024"},
      {"--manta-spin-us=-1", "0 to 10000"},  {"--manta-spin-us=1.5", "0 to 10000"},
      {"--manta-extra-threads=1e3", "0 to"}, {"--manta-extra-threads=100001", "0 to"},
      {"--manta-wrokers=2", "workers"},
  };
  for (const auto& [argument, range] : bad) {
    INFO(argument);
    const outcome o = run({"workers", argument});
    CHECK(o.status == 2);
    CHECK(o.out.empty());
    CHECK(is_one_line(o.err));
    CHECK(o.err.find(argument.substr(0, argument.find('='))) != std::string::npos);
    CHECK(o.err.find(range) != std::string::npos);
  }
  for (const std::string key : {"MANTA_WORKERS", "MANTA_SPIN_US", "MANTA_EXTRA_THREADS"}) {
    for (const std::string value : {"", "x", "-1", "1000000"}) {
      INFO(key << '=' << value);
      const outcome o = run({"workers"}, {key + "=" + value});
      CHECK(o.status == 2);
      CHECK(is_one_line(o.err));
      CHECK(o.err.find(key) != std::string::npos);
    }
  }
  const outcome o = run({"struct_workers"}, {"MANTA_WORKERS=nonsense"});
  CHECK(o.status != 0);
}

TEST_CASE("a program killed with -9 leaves no process and nothing in shared memory", "[process]") {
  const auto shared_before = entries("/dev/shm");
  pid_t group = 0;
  {
    child c(program({"until_killed"}), {});
    REQUIRE(c.says("ready"));
    group = c.pid();
    CHECK(has_group(group));
    kill(group, SIGKILL);
    CHECK(c.finish().status == 128 + SIGKILL);
  }
  const auto end = std::chrono::steady_clock::now() + test::patience;
  while (has_group(group) && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  CHECK_FALSE(has_group(group));
  std::set<std::string> left;
  for (const std::string& e : entries("/dev/shm")) {
    if (shared_before.count(e) == 0 && e.find("manta") != std::string::npos) left.insert(e);
  }
  CHECK(left.empty());
}

TEST_CASE("an idle program uses less than 0.1 % of a core", "[process]") {
  const outcome o = run({"idle"});
  REQUIRE(o.status == 0);
  const long microseconds = std::strtol(o.out.c_str(), nullptr, 10);
  INFO(o.out);
  // 2 s at 0.1 % are 2,000 us; sanitizers have a thread of their own.
  CHECK(microseconds < (test::is_sanitized ? 100000 : 2000));
}

TEST_CASE("a call in a static destructor is refused and the program ends well", "[process]") {
  const outcome o = run({"static_destructor"});
  CHECK(o.status == 0);
  CHECK(o.out == "refused, kept 36\n");
}

TEST_CASE("a runtime that is a static object ends with the program", "[process]") {
  const outcome o = run({"static_runtime"});
  CHECK(o.status == 0);
  CHECK(o.out == "4\n");
}

TEST_CASE("1,000 runtimes follow each other in one process", "[process]") {
  const outcome o = run({"many_lives"});
  CHECK(o.status == 0);
  CHECK(o.out == "1000\n");
}

TEST_CASE("a preloaded allocator works where one is installed", "[process]") {
  if (test::is_sanitized) return;  // a sanitizer has its own allocator
  int found = 0;
  for (const char* const folder : {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"}) {
    for (const char* const name : {"libmimalloc.so.2", "libmimalloc.so.2.0", "libjemalloc.so.2"}) {
      const std::string path = std::string(folder) + "/" + name;
      if (!std::filesystem::exists(path)) continue;
      ++found;
      INFO(path);
      const outcome o = run({"hello"}, {"LD_PRELOAD=" + path});
      CHECK(o.status == 0);
      CHECK(o.out == "285 285\n");
    }
  }
  if (found == 0) WARN("no mimalloc or jemalloc is installed here");
}

TEST_CASE("every line of a log says whose it is", "[process]") {
  const outcome o = run({"log_lines"});
  CHECK(o.status == 0);
  CHECK(std::count(o.err.begin(), o.err.end(), '\n') == 4);
  std::size_t at = 0;
  for (const std::string text : {"one", "", "two"}) {
    const std::size_t end = o.err.find('\n', at);
    const std::string line = o.err.substr(at, end - at);
    CHECK(line.find("[writer ") == 0);
    CHECK(line.substr(line.find("] ") + 2) == text);
    at = end + 1;
  }
}

TEST_CASE("asking a result for what it does not hold is the caller's bug, and says so",
          "[process]") {
  const outcome no_error = run({"no_error"});
  CHECK(no_error.status == 128 + SIGABRT);
  CHECK(no_error.err.find("calls manta: result::error() of a result that holds a value") !=
        std::string::npos);
  CHECK(is_one_line(no_error.err));
  const outcome no_value = run({"no_value"});
  CHECK(no_value.status == 128 + SIGABRT);
  CHECK(no_value.err.find("calls manta: result::value() of a result that holds an error") !=
        std::string::npos);
}

namespace {

// ThreadSanitizer keeps a signal back until the thread that has it calls something that the
// sanitizer knows; main, asleep in the engine, calls nothing.
constexpr bool keeps_signals_back = MANTA_HAS_TSAN != 0;

/// The program after one SIGINT that came when it was ready.
outcome interrupted(const std::vector<std::string>& arguments, const variables& environment = {}) {
  child c(program(arguments), environment);
  if (!c.says("ready")) return {};
  kill(c.pid(), SIGINT);
  return c.finish();
}

}  // namespace

TEST_CASE("SIGINT ends a program in order, with code 130", "[process]") {
  if (keeps_signals_back) return;
  for (const std::string how : {"threads", "processes"}) {
    INFO(how);
    const std::string isolation = "--manta-isolation=" + how;
    const outcome caught = interrupted({"looks", isolation, "--manta-worker-output=plain"});
    CHECK(caught.status == 130);
    CHECK_FALSE(caught.is_killed);
    INFO(caught.out);
    CHECK(caught.out.find("stopped\n") != std::string::npos);
    CHECK(caught.out.find("cancelled\ncancelled too\nunwound\n") != std::string::npos);
    CHECK(is_one_line(caught.err));
    CHECK(caught.err.find("interrupted") != std::string::npos);
    const outcome uncaught = interrupted({"uncaught", isolation, "--manta-worker-output=plain"});
    CHECK(uncaught.status == 130);
    CHECK_FALSE(uncaught.is_killed);
    CHECK(uncaught.out.find("stopped\n") != std::string::npos);
    CHECK(is_one_line(uncaught.err));
  }
}

TEST_CASE("a worker that does not stop at SIGINT is ended, a thread ends with the program",
          "[process]") {
  if (keeps_signals_back) return;
  const outcome worker = interrupted({"stubborn", "--manta-isolation=processes"});
  CHECK(worker.status == 130);
  CHECK(worker.out.find("unwound\n") != std::string::npos);
  CHECK(is_one_line(worker.err));
  const outcome thread = interrupted({"stubborn"});
  CHECK(thread.status == 130);
  CHECK_FALSE(thread.is_killed);
  CHECK(thread.out == "ready\n");
  CHECK(thread.err.find("what runs did not stop within 5 s") != std::string::npos);
  const outcome main = interrupted({"computes"});
  CHECK(main.status == 130);
  CHECK_FALSE(main.is_killed);
  CHECK(main.err.find("main did not come to its end within 5 s") != std::string::npos);
}

TEST_CASE("SIGINT ends a program of which a thread reads stdin", "[process]") {
  if (keeps_signals_back) return;
  const outcome o = interrupted({"reads"});
  CHECK(o.status == 130);
  CHECK_FALSE(o.is_killed);
  CHECK(o.out == "ready\nkept");
  CHECK(is_one_line(o.err));
}

TEST_CASE("a second SIGINT ends a program at once", "[process]") {
  if (keeps_signals_back) return;
  child c(program({"stubborn"}), {});
  REQUIRE(c.says("ready"));
  kill(c.pid(), SIGINT);
  REQUIRE(c.complains("a second SIGINT"));
  kill(c.pid(), SIGINT);
  const outcome o = c.finish();
  CHECK(o.status == 130);
  CHECK_FALSE(o.is_killed);
  CHECK(is_one_line(o.err));  // without the one that comes after 5 s
}

TEST_CASE("SIGINT is left alone where that is asked for", "[process]") {
  const outcome o = interrupted({"looks", "--manta-interrupt=leave"});
  CHECK(o.is_killed);
  CHECK(o.status == 128 + SIGINT);
  CHECK(o.err.empty());
  const outcome wrong = run({"looks", "--manta-interrupt=never"});
  CHECK(wrong.status == 2);
  CHECK(wrong.err == "manta: --manta-interrupt: found \"never\", allowed are end and leave\n");
}

namespace {

/// RocksDB is not built for ThreadSanitizer.
const variables beside_rocksdb = {"TSAN_OPTIONS=halt_on_error=1 ignore_noninstrumented_modules=1"};

/// The last number that was written whole.
int last_said(const std::string& text) {
  const std::size_t end = text.rfind(".\n");
  if (end == std::string::npos) return 0;
  const std::size_t before = text.rfind('\n', end);
  return std::stoi(text.substr(before == std::string::npos ? 0 : before + 1));
}

}  // namespace

TEST_CASE("what a killed process had made durable is found by the next one", "[process]") {
  const manta_test::folder where;
  int said = 0;
  constexpr std::size_t kills = 3;
  for (std::size_t round = 0; round < kills; ++round) {
    child c(program({"count", "--manta-control=" + where.store(), "--manta-workers=1"}),
            beside_rocksdb);
    REQUIRE(c.says(std::to_string(said + 5) + ".\n"));
    kill(c.pid(), SIGKILL);
    const outcome got = c.finish();
    CHECK(got.status == 128 + SIGKILL);
    CHECK(got.err.empty());
    said = last_said(got.out);
    CHECK(said >= 5);
  }
  const outcome last = run({"kept", "--manta-control=" + where.store()}, beside_rocksdb);
  std::istringstream words(last.out);
  int count = 0;
  int buffered = 0;
  std::size_t jobs = 0;
  std::size_t ended = 0;
  std::size_t actors = 0;
  std::string program;
  REQUIRE(words >> count >> buffered >> jobs >> ended >> actors >> program);
  CHECK(count >= said);
  CHECK(count <= said + 1);
  CHECK(buffered <= count);
  CHECK(jobs == kills + 1);
  CHECK(ended == 0);
  CHECK(actors == 0);
  CHECK(program == "e2e_program");
}

TEST_CASE("a control folder whose disk is full is refused in one line", "[process]") {
  const manta_test::folder where;
  const std::string at = where.path().string();
  const auto on_small_disk = [&](const std::string& bytes, std::vector<std::string> words) {
    std::vector<std::string> all{"unshare", "--mount"};
    if (geteuid() != 0) all.insert(all.end(), {"--user", "--map-root-user"});
    all.insert(all.end(),
               {"sh", "-c", "mount -t tmpfs -o size=" + bytes + " full \"$0\" && exec \"$@\"", at});
    all.insert(all.end(), words.begin(), words.end());
    return child(all, beside_rocksdb).finish();
  };
  if (on_small_disk("64k", {"true"}).status != 0) {
    WARN("nothing can be mounted here: nothing was tested");
    return;
  }
  const outcome o = on_small_disk("4k", program({"hello", "--manta-control=" + at + "/store"}));
  CHECK(o.status == 2);
  CHECK(is_one_line(o.err));
  CHECK(o.err.find("no room on the disk") != std::string::npos);
}

TEST_CASE("a control folder that another process has is refused in one line", "[process]") {
  const manta_test::folder where;
  const std::string setting = "--manta-control=" + where.store();
  child first(program({"count", setting, "--manta-workers=1"}), beside_rocksdb);
  REQUIRE(first.says("2.\n"));
  const outcome second = run({"hello", setting}, beside_rocksdb);
  CHECK(second.status == 2);
  CHECK(is_one_line(second.err));
  CHECK(second.err.find("another process has it") != std::string::npos);
}

}  // namespace process_test
