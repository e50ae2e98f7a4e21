// SPDX-License-Identifier: Apache-2.0
#include "tool/ranks.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/user_folder.hpp"
#include "tool/control.hpp"
#include "wire/token.hpp"

namespace manta::tool {

namespace {

using namespace std::chrono_literals;
using variable_list = std::vector<std::pair<std::string, std::string>>;

// As cluster.cpp prints it for MANTA_ANNOUNCE.
constexpr std::string_view announcement = "manta: head at ";
// How long the others may take when rank 0 has ended, and all of them when they were told twice.
constexpr auto time_to_end = 10s;
// From the third on nobody wants to wait any more.
constexpr int signals_heeded = 2;

int trouble(const std::string& text) {
  fmt::print(stderr, "manta: run: {}\n", text);
  return exit_problem;
}

std::string hex_of(const wire::secret& token) {
  std::string out;
  for (const std::byte one : token.view()) out += fmt::format("{:02x}", std::to_integer<int>(one));
  return out;
}

std::string draw_name() {
  std::random_device random;
  return fmt::format("run-{}-{:08x}", getpid(), random());
}

std::string describe_end(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

// What a rank's child says where it can't become the program.
struct no_start {
  int rank = 0;
  int why = 0;  // errno
};
// As of a shell that can't start a program.
constexpr int no_start_code = 127;

int code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> out;
  out.reserve(words.size() + 1);
  for (std::string& one : words) out.push_back(one.data());
  out.push_back(nullptr);
  return out;
}

class job {
 public:
  explicit job(const job_order& what) : what_(what), name_(draw_name()) {}
  job(const job&) = delete;
  job& operator=(const job&) = delete;
  ~job();

  int run();

 private:
  struct rank {
    int number = 0;
    std::string host;  // empty: here
    pid_t pid = 0;
    int input = -1;  // of its shell on another machine
    bool has_ended = false;
    int status = 0;
  };

  std::string host_of(int number) const;
  variable_list variables_of(int number) const;
  bool start(int number);
  [[noreturn]] void become(int number, const std::string& host, int input, int errors);
  bool start_others();
  void relay();
  void read_line(const std::string& line);
  void reap();
  bool has_not_started(const rank& one);
  bool hear_signal();
  void tell_all(int number);
  int wait_for_all();

  const job_order& what_;
  const std::string name_;
  std::string token_;
  sigset_t before_{};
  int signals_ = -1;
  int errors_ = -1;           // what rank 0 prints there, until its announcement is known and after
  int starts_[2] = {-1, -1};  // the children's no_start; what starts closes its end
  std::vector<int> unstarted_;  // ranks
  std::string unread_;
  std::string address_;  // of the head, for ranks on other machines
  bool has_others_ = false;
  int told_ = 0;  // what they were told last
  int times_told_ = 0;
  std::vector<rank> ranks_;
};

job::~job() {
  bool was_killed = false;
  for (rank& one : ranks_) {
    if (!one.has_ended) {
      kill(one.pid, SIGKILL);
      waitpid(one.pid, nullptr, 0);
      was_killed = true;
    }
    if (one.input >= 0) close(one.input);
  }
  // They have left their sockets, and maybe nobody else removes the folder, which launch.cpp names.
  if (was_killed) node::remove_job_folder(node::job_folder("job-" + name_));
  for (const int file : {errors_, signals_, starts_[0], starts_[1]}) {
    if (file >= 0) close(file);
  }
}

std::string job::host_of(int number) const {
  if (what_.hosts.empty()) return {};
  const auto count = static_cast<std::int64_t>(what_.hosts.size());
  return what_.hosts[static_cast<std::size_t>(number * count / what_.size)];
}

variable_list job::variables_of(int number) const {
  variable_list out{{"MANTA_RANK", std::to_string(number)},
                    {"MANTA_WORLD_SIZE", std::to_string(what_.size)},
                    {"MANTA_JOB", name_}};
  if (what_.hosts.empty()) {
    out.emplace_back("MANTA_NODES", std::to_string(what_.size));
  } else if (number == 0) {
    out.emplace_back("MANTA_LISTEN", ":0");
    out.emplace_back("MANTA_ANNOUNCE", "1");
  } else {
    out.emplace_back("MANTA_ADDRESS", address_);
  }
  return out;
}

// In the child: the rank, or who starts it elsewhere.
void job::become(int number, const std::string& host, int input, int errors) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
  if (errors >= 0) dup2(errors, STDERR_FILENO);
  const variable_list variables = variables_of(number);
  std::vector<std::string> words = what_.command;
  if (host.empty()) {
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    if (number > 0) {
      const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
      dup2(nothing, STDIN_FILENO);
    }
  } else {
    dup2(input, STDIN_FILENO);
    std::error_code ignored;
    const std::string folder = std::filesystem::current_path(ignored).string();
    words = {what_.remote_shell, host, remote_line(variables, folder, what_.command)};
  }
  execvp(words.front().c_str(), pointers_to(words).data());
  const no_start said{number, errno};
  // A pipe has room for it, unless thousands have said so before.
  static_cast<void>(write(starts_[1], &said, sizeof said) == 0);
  _exit(no_start_code);
}

bool job::start(int number) {
  rank one{.number = number, .host = host_of(number)};
  int input[2] = {-1, -1};
  int errors[2] = {-1, -1};
  const bool is_remote = !one.host.empty();
  if (is_remote && pipe2(input, O_CLOEXEC) != 0) return false;
  if (is_remote && number == 0 && pipe2(errors, O_CLOEXEC) != 0) return false;
  one.pid = fork();
  if (one.pid == 0) become(number, one.host, input[0], errors[1]);
  for (const int file : {input[0], errors[1]}) {
    if (file >= 0) close(file);
  }
  one.input = input[1];
  if (errors[0] >= 0) errors_ = errors[0];
  if (one.pid < 0) return false;
  if (is_remote) {
    const std::string line = token_ + "\n";
    // A pipe has room for it; a shell that is gone already says so itself.
    static_cast<void>(write(one.input, line.data(), line.size()) == 0);
  }
  ranks_.push_back(std::move(one));
  return true;
}

bool job::start_others() {
  has_others_ = true;
  for (int number = 1; number < what_.size; ++number) {
    if (!start(number)) return false;
  }
  return true;
}

// What rank 0 prints to its standard error goes on to ours, but for where its head is.
void job::relay() {
  std::array<char, 4096> some{};
  const ssize_t got = read(errors_, some.data(), some.size());
  if (got <= 0) {
    close(std::exchange(errors_, -1));
    return;
  }
  unread_.append(some.data(), static_cast<std::size_t>(got));
  for (std::size_t end = 0; (end = unread_.find('\n')) != std::string::npos;) {
    read_line(unread_.substr(0, end));
    unread_.erase(0, end + 1);
  }
}

void job::read_line(const std::string& line) {
  if (!line.starts_with(announcement) || !address_.empty()) {
    if (!line.starts_with(announcement)) fmt::print(stderr, "{}\n", line);
    return;
  }
  const std::string at = line.substr(announcement.size());
  if (at.starts_with("unix:")) return;
  // It is reached by the name that the user knows it by.
  address_ = host_of(0) + at.substr(at.rfind(':'));
}

void job::reap() {
  for (rank& one : ranks_) {
    if (one.has_ended || waitpid(one.pid, &one.status, WNOHANG) != one.pid) continue;
    one.has_ended = true;
    const bool is_quiet = one.number == 0 || told_ != 0 || one.status == 0 || has_not_started(one);
    if (is_quiet) continue;
    fmt::print(stderr, "manta: run: rank {}{}{} ended with {}\n", one.number,
               one.host.empty() ? "" : " on ", one.host, describe_end(one.status));
  }
}

// It has said so before it ended. One of them is told of, for all: it is one program.
bool job::has_not_started(const rank& one) {
  if (code_of(one.status) != no_start_code) return false;
  no_start said;
  while (read(starts_[0], &said, sizeof said) == static_cast<ssize_t>(sizeof said)) {
    if (unstarted_.empty()) {
      const bool is_remote = !one.host.empty();
      trouble(fmt::format(
          "asked to start {}, found: {}; {}",
          is_remote ? what_.remote_shell : what_.command.front(), std::strerror(said.why),
          is_remote ? "name what starts commands on other machines with --ssh"
                    : "give the path of a program that may be run, or a name that is in PATH"));
    }
    unstarted_.push_back(said.rank);
  }
  return std::find(unstarted_.begin(), unstarted_.end(), one.number) != unstarted_.end();
}

void job::tell_all(int number) {
  for (const rank& one : ranks_) {
    if (one.has_ended) continue;
    kill(one.pid, number);
  }
}

// False: nobody wants to wait any more.
bool job::hear_signal() {
  signalfd_siginfo is{};
  if (read(signals_, &is, sizeof is) != static_cast<ssize_t>(sizeof is)) return true;
  if (is.ssi_signo == SIGCHLD) return true;
  const int number = static_cast<int>(is.ssi_signo);
  told_ = number;
  if (++times_told_ > signals_heeded) return false;
  // A terminal has told all of them itself.
  const bool is_from_terminal = number == SIGINT && is.ssi_code == SI_KERNEL;
  if (!is_from_terminal) tell_all(number);
  return true;
}

int job::wait_for_all() {
  std::optional<std::chrono::steady_clock::time_point> until;
  for (;;) {
    reap();
    const bool is_over =
        std::all_of(ranks_.begin(), ranks_.end(), [](const rank& one) { return one.has_ended; });
    if (is_over && errors_ < 0) break;
    const auto now = std::chrono::steady_clock::now();
    const bool is_about_to = ranks_.front().has_ended || times_told_ >= signals_heeded;
    if (is_about_to && !until) until = now + time_to_end;
    if (until && now >= *until) break;
    std::array<pollfd, 2> looked{{{signals_, POLLIN, 0}, {errors_, POLLIN, 0}}};
    poll(looked.data(), looked.size(), 100);
    if (looked[0].revents != 0 && !hear_signal()) return 128 + told_;
    if (errors_ >= 0 && looked[1].revents != 0) relay();
    if (!has_others_ && !address_.empty() && !start_others()) {
      return trouble(
          fmt::format("asked to start {} ranks, found: {}", what_.size, std::strerror(errno)));
    }
  }
  if (!ranks_.front().has_ended) return 128 + told_;
  const int code = code_of(ranks_.front().status);
  if (has_not_started(ranks_.front())) {
    return has_others_ || what_.size == 1 ? code : exit_problem;
  }
  if (!has_others_ && what_.size > 1) {
    return trouble(
        fmt::format("rank 0 ended with {} before it was a head; look at what it "
                    "printed: main has to come to its manta::runtime",
                    describe_end(ranks_.front().status)));
  }
  if (told_ == 0 && WIFSIGNALED(ranks_.front().status)) {
    fmt::print(stderr, "manta: run: rank 0 ended with {}\n", describe_end(ranks_.front().status));
  }
  return code;
}

int job::run() {
  if (!what_.hosts.empty()) {
    const std::string path = what_.token_file.empty() ? wire::usual_token_path() : what_.token_file;
    const result<wire::secret> token = wire::make_token(path);
    if (!token) return trouble(token.error().message());
    token_ = hex_of(*token);
  }
  sigset_t heard;
  sigemptyset(&heard);
  for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&heard, number);
  sigprocmask(SIG_BLOCK, &heard, &before_);
  std::signal(SIGPIPE, SIG_IGN);
  signals_ = signalfd(-1, &heard, SFD_CLOEXEC);
  const bool has_files = signals_ >= 0 && pipe2(starts_, O_CLOEXEC | O_NONBLOCK) == 0;
  const bool has_begun = has_files && start(0) && (!what_.hosts.empty() || start_others());
  if (!has_begun) {
    return trouble(
        fmt::format("asked to start {} ranks, found: {}", what_.size, std::strerror(errno)));
  }
  return wait_for_all();
}

}  // namespace

std::string shell_word(const std::string& word) {
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string remote_line(const variable_list& variables, const std::string& folder,
                        const std::vector<std::string>& command) {
  std::string script =
      "umask 077; d=$(mktemp -d) || exit 125; trap 'rm -rf \"$d\"' EXIT; "
      "IFS= read -r t && printf '%s\\n' \"$t\" > \"$d/token\" || exit 125; "
      "MANTA_TOKEN_FILE=\"$d/token\"; export MANTA_TOKEN_FILE; ";
  for (const auto& [name, value] : variables) {
    script += fmt::format("{}={}; export {}; ", name, shell_word(value), name);
  }
  if (!folder.empty()) script += fmt::format("cd {} 2>/dev/null; ", shell_word(folder));
  script += "exec 3<&0; ";
  for (const std::string& word : command) script += shell_word(word) + " ";
  // Who started this is gone when the input ends.
  script +=
      "</dev/null 3<&- & p=$!; (cat <&3 >/dev/null; kill \"$p\") 2>/dev/null & w=$!; "
      "trap 'kill \"$p\"' TERM INT HUP; wait \"$p\"; c=$?; "
      "kill \"$w\" 2>/dev/null; exit \"$c\"";
  return "sh -c " + shell_word(script);
}

int run_job(const job_order& what) {
  const bool is_mixed = what.hosts.size() > 1 && std::find(what.hosts.begin(), what.hosts.end(),
                                                           "localhost") != what.hosts.end();
  if (is_mixed) {
    return trouble("found localhost among several hosts; name this machine as the others know it");
  }
  job all(what);
  return all.run();
}

}  // namespace manta::tool
