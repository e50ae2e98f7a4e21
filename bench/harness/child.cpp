// SPDX-License-Identifier: Apache-2.0
#include "harness/child.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include "harness/machine.hpp"
#include "harness/measure.hpp"

namespace bench {
namespace {

constexpr int report_descriptor = 3;
constexpr unsigned child_limit_s = 120;  // a contestant that hangs ends by SIGALRM
// A process that has used this much does no further round that is not time-bounded: slow
// contestants get fewer repeats (the table says how many), never fewer operations.
constexpr double process_budget_s = 1.5;

std::string read_all(int descriptor) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t n = read(descriptor, buffer, sizeof buffer);
    if (n <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
  }
}

std::string explain(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    if (number == SIGALRM) return "over its time limit";
    return std::string("ended by signal: ") + strsignal(number);
  }
  return "exit code " + std::to_string(WEXITSTATUS(status));
}

// Lines: "process pid line_us", "round cold value operations p50 p99 bytes n wall user system peak
// after threads", and "end" when all rounds were run.
bool parse(const std::string& text, result& into) {
  bool complete = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    double v[13] = {};
    int cold = 0;
    int pid = 0;
    if (std::sscanf(line.c_str(), "process %d %lf", &pid, &v[0]) == 2) {
      into.pids.push_back(pid);
      into.line_us.push_back(v[0]);
    } else if (std::sscanf(line.c_str(), "round %d %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf",
                           &cold, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7], &v[8],
                           &v[9], &v[10], &v[11]) == 13) {
      const reading got{v[0], v[1], v[2], v[3], v[4], v[5]};
      const int threads = static_cast<int>(v[11]);
      into.samples.push_back({cold != 0, got, v[6], v[7], v[8], v[9], v[10], threads});
    } else if (line == "end") {
      complete = true;
    }
  }
  return complete;
}

int threads_that_ran(const std::map<int, std::uint64_t>& before) {
  int count = 0;
  for (const auto& [tid, ns] : thread_cpu_ns()) {
    const auto found = before.find(tid);
    if (found == before.end() || ns > found->second) ++count;
  }
  return count;
}

sample one_round(const body& work, const turn& t) {
  sample s;
  s.cold = t.cold;
  const std::map<int, std::uint64_t> threads = thread_cpu_ns();
  reset_peak();
  double user = 0, system = 0;
  process_cpu_s(user, system);
  const double start = now_s();
  s.got = work(t);
  s.wall_s = now_s() - start;
  process_cpu_s(s.user_s, s.system_s);
  s.user_s -= user;
  s.system_s -= system;
  s.rss_peak = peak_resident_bytes();
  s.rss_after = resident_bytes();
  s.threads = threads_that_ran(threads);
  return s;
}

void report(std::FILE* out, const sample& s) {
  std::fprintf(out, "round %d %.9g %.9g %.9g %.9g %.9g %.9g %.9g %.9g %.9g %.9g %.9g %d\n", s.cold,
               s.got.value, s.got.operations, s.got.p50, s.got.p99, s.got.bytes, s.got.n, s.wall_s,
               s.user_s, s.system_s, s.rss_peak, s.rss_after, s.threads);
}

}  // namespace

std::vector<allocator> loadable_allocators() {
  const allocator known[] = {{"mimalloc", "libmimalloc.so.2"},
                             {"tbbmalloc", "libtbbmalloc_proxy.so.2"}};
  std::vector<allocator> found;
  for (const allocator& a : known) {
    // Tried in a child of its own: an allocator must not enter the parent half-way.
    const pid_t pid = fork();
    if (pid == 0) _exit(dlopen(a.library.c_str(), RTLD_NOW) != nullptr ? 0 : 1);
    int status = 1;
    waitpid(pid, &status, 0);
    if (status == 0) found.push_back(a);
  }
  return found;
}

void run_child(std::size_t contestant_index, const std::string& library, bool quick, result& into) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    into.failure = "no pipe";
    return;
  }
  const std::string index = std::to_string(contestant_index);
  const char* const argv[] = {"/proc/self/exe", "--child", index.c_str(),
                              quick ? "--quick" : nullptr, nullptr};
  if (library.empty()) {
    unsetenv("LD_PRELOAD");
  } else {
    setenv("LD_PRELOAD", library.c_str(), 1);
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], report_descriptor);
  pid_t pid = 0;
  const int failed =
      posix_spawn(&pid, argv[0], &actions, nullptr, const_cast<char* const*>(argv), environ);
  posix_spawn_file_actions_destroy(&actions);
  unsetenv("LD_PRELOAD");
  close(ends[1]);
  const std::string text = failed == 0 ? read_all(ends[0]) : std::string();
  close(ends[0]);
  if (failed != 0) {
    into.failure = "could not start";
    return;
  }
  int status = 0;
  waitpid(pid, &status, 0);
  const bool complete = parse(text, into);
  if (!complete || status != 0) into.failure = explain(status);
}

int serve_child(const row& in, const contestant& who, const plan& how) {
  alarm(child_limit_s);
  fcntl(report_descriptor, F_SETFD, FD_CLOEXEC);
  std::FILE* out = fdopen(report_descriptor, "w");
  if (out == nullptr) {
    std::fprintf(stderr, "bench: --child is for the harness itself; run without it\n");
    return 2;
  }
  std::fprintf(out, "process %d %.4f\n", getpid(), cache_line_round_trip_us());
  {
    const body work = who.start(how);
    const auto round = [&](const turn& t) {
      if (in.split_cores) split_cores();  // each time: threads may be made late
      report(out, one_round(work, t));
    };
    round({true, how.quick ? 0.01 : in.cold_seconds});
    const int rounds = how.quick ? std::min(in.warm_rounds, 1) : in.warm_rounds;
    const double start = now_s();
    for (int i = 0; i < rounds; ++i) {
      round({false, how.quick ? 0.02 : in.warm_seconds});
      if (in.warm_seconds == 0 && now_s() - start > process_budget_s) break;
    }
  }
  std::fprintf(out, "end\n");
  std::fclose(out);
  return 0;
}

}  // namespace bench
