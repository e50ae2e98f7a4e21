// SPDX-License-Identifier: Apache-2.0
#include "node/zygote.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fmt/format.h>
#include <poll.h>
#include <stdio_ext.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <manta/base/sanitizers.hpp>
#include <manta/codec/codec.hpp>

#include "node/early_main.hpp"
#include "node/own_program.hpp"

namespace manta::inline v0::node {

namespace {

struct order {
  enum class kind : std::uint32_t { spawn, kill, settings } what = kind::spawn;
  std::uint64_t number = 0;
};
// What comes behind an order: the bytes of settings.
constexpr std::size_t most_text = std::size_t{64} << 10U;
constexpr std::size_t fewest_files = wire::worker_line::file_count + 1;
constexpr std::size_t most_files = fewest_files + std::tuple_size_v<decltype(worker_seat::output)>;

union file_space {
  cmsghdr header;
  char bytes[CMSG_SPACE(most_files * sizeof(int))];
};

bool send_order(int to, const order& what, const int* files, std::size_t count,
                std::span<const std::byte> text = {}) noexcept {
  iovec pieces[2] = {{const_cast<order*>(&what), sizeof what},
                     {const_cast<std::byte*>(text.data()), text.size()}};
  file_space space{};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = text.empty() ? 1 : 2;
  if (count > 0) {
    message.msg_control = space.bytes;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(head), files, count * sizeof(int));
  }
  ssize_t sent = -1;
  do {
    sent = sendmsg(to, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof what + text.size());
}

struct whole_order {
  order what;
  std::vector<int> files;
  std::vector<std::byte> text = std::vector<std::byte>(most_text);
  std::size_t text_bytes = 0;
};

// False: the other side is gone.
bool receive_order(int from, whole_order& came) noexcept {
  std::vector<int>& files = came.files;
  iovec pieces[2] = {{&came.what, sizeof came.what}, {came.text.data(), came.text.size()}};
  file_space space{};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = 2;
  message.msg_control = space.bytes;
  message.msg_controllen = sizeof space.bytes;
  ssize_t got = -1;
  do {
    got = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  files.clear();
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); got > 0 && head != nullptr;
       head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(head) + i * sizeof(int), sizeof file);
      files.push_back(file);
    }
  }
  if (got < static_cast<ssize_t>(sizeof came.what)) return false;
  came.text_bytes = static_cast<std::size_t>(got) - sizeof came.what;
  return true;
}

// What a worker has of its runtime's settings: all but which part the process has in its job.
auto told_fields(config& of) noexcept {
  return std::tie(of.workers, of.spin_us, of.extra_threads, of.gpus, of.memory_bytes, of.resources,
                  of.check, of.labels, of.control, of.events, of.isolation, of.zygote,
                  of.worker_output, of.store_bytes, of.store_wait_ms, of.spill_folder,
                  of.spill_bytes, of.quota_bytes, of.quota_folder, of.worker_tasks,
                  of.worker_recycle_bytes, of.worker_memory_bytes, of.interrupt);
}
template <class Tied>
struct values_of;
template <class... T>
struct values_of<std::tuple<T&...>> {
  using type = std::tuple<T...>;
};
using told_settings = values_of<decltype(told_fields(std::declval<config&>()))>::type;

// The settings that a driver has sent.
config settings_in(const whole_order& came) {
  spec::parcel_view bytes;
  bytes.head = std::span(came.text).first(came.text_bytes);
  config out;
  told_fields(out) = codec::decode<told_settings>(bytes);
  return out;
}

// Entries of a folder of /proc that are numbers.
std::vector<pid_t> numbers_in(const char* folder) {
  std::vector<pid_t> found;
  DIR* const open = opendir(folder);
  if (open == nullptr) return found;
  while (const dirent* const one = readdir(open)) {
    const pid_t number = static_cast<pid_t>(std::atol(one->d_name));
    if (number > 0) found.push_back(number);
  }
  closedir(open);
  return found;
}

std::size_t threads_of_process() { return numbers_in("/proc/self/task").size(); }

// ThreadSanitizer has a thread of its own, which it stops around a fork.
constexpr std::size_t threads_before_any = MANTA_HAS_TSAN != 0 ? 2 : 1;

pid_t parent_of(pid_t pid) {
  char name[64];
  std::snprintf(name, sizeof name, "/proc/%d/stat", static_cast<int>(pid));
  std::FILE* const file = std::fopen(name, "re");
  if (file == nullptr) return 0;
  char text[512];
  const std::size_t n = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[n] = 0;
  // The name in the second field may hold anything but ends with the last ')'.
  const char* const after = std::strrchr(text, ')');
  int parent = 0;
  char state = 0;
  if (after == nullptr || std::sscanf(after + 1, " %c %d", &state, &parent) != 2) return 0;
  return static_cast<pid_t>(parent);
}

/// The zygote's own life: one thread.
class nursery {
 public:
  nursery(int socket, pid_t driver, config settings) noexcept
      : socket_(socket), driver_(driver), settings_(std::move(settings)) {}

  [[noreturn]] void run() noexcept {
    prepare();
    const int parent = static_cast<int>(syscall(SYS_pidfd_open, driver_, 0));
    const int signals = signalfd(-1, &children_, SFD_CLOEXEC | SFD_NONBLOCK);
    while (getppid() == driver_) {
      pollfd looked[3] = {{socket_, POLLIN, 0}, {signals, POLLIN, 0}, {parent, POLLIN, 0}};
      // Without pidfds (before Linux 5.3) the parent is asked after once a second.
      if (poll(looked, parent >= 0 ? 3 : 2, parent >= 0 ? -1 : 1000) < 0 && errno != EINTR) break;
      if (looked[1].revents != 0) {
        signalfd_siginfo info;
        while (read(signals, &info, sizeof info) > 0) {
        }
        reap();
      }
      if (looked[0].revents != 0 && !obey()) break;
    }
    end();
  }

 private:
  struct child {
    std::uint64_t number;
    pid_t pid;
  };

  void prepare() noexcept {
    pthread_setname();
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    // What the driver had not written yet is the driver's to write.
    __fpurge(stdout);
    __fpurge(stderr);
    // A terminal's signals are for the driver, which decides what becomes of the others.
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGQUIT, SIG_IGN);
    std::signal(SIGHUP, SIG_IGN);
    std::signal(SIGCHLD, SIG_DFL);  // ignored, and inherited so, it would hide how they end
    sigemptyset(&children_);
    sigaddset(&children_, SIGCHLD);
    sigprocmask(SIG_BLOCK, &children_, &before_);
  }
  static void pthread_setname() noexcept { prctl(PR_SET_NAME, "manta-zygote", 0, 0, 0); }

  bool obey() noexcept {
    if (!receive_order(socket_, came_)) return false;
    const order& what = came_.what;
    std::vector<int>& files = came_.files;
    if (what.what == order::kind::settings) {
      settings_ = settings_in(came_);
      return true;
    }
    if (what.what == order::kind::kill) {
      for (const child& one : children_alive_) {
        if (one.number == what.number) ::kill(one.pid, SIGKILL);
      }
      return true;
    }
    const bool is_whole = files.size() == fewest_files || files.size() == most_files;
    const pid_t zygote_pid = getpid();
    const pid_t pid = is_whole ? fork() : -1;
    const int why = is_whole ? errno : EBADMSG;
    if (pid == 0) become_worker(what.number, zygote_pid);
    for (const int file : files) close(file);
    if (pid > 0) children_alive_.push_back({what.number, pid});
    say({zygote::report::kind::spawned, what.number, std::max(pid, 0), pid > 0 ? 0 : why});
    return true;
  }

  [[noreturn]] void become_worker(std::uint64_t number, pid_t zygote_pid) noexcept {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != zygote_pid) _exit(0);  // it died before it could be noticed
    close(socket_);
    prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
    const std::vector<int>& files = came_.files;
    worker_seat seat;
    seat.number = number;
    seat.settings = &settings_;
    std::copy_n(files.begin(), seat.line.size(), seat.line.begin());
    seat.socket = files[seat.line.size()];
    if (files.size() == most_files) {
      std::copy_n(files.begin() + fewest_files, seat.output.size(), seat.output.begin());
    }
    run_isolated_worker(seat);
  }

  void say(const zygote::report& what) noexcept {
    ssize_t sent = -1;
    do {
      sent = send(socket_, &what, sizeof what, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
  }

  void reap() noexcept {
    int status = 0;
    for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto found =
          std::ranges::find_if(children_alive_, [pid](const child& c) { return c.pid == pid; });
      if (found == children_alive_.end()) {
        if (has_orphans_) kill_adopted();  // its own children are ours now
        continue;
      }
      const std::uint64_t number = found->number;
      children_alive_.erase(found);
      kill_adopted();
      say({zygote::report::kind::ended, number, pid, status});
    }
  }

  bool is_worker(pid_t pid) const noexcept {
    return std::ranges::any_of(children_alive_, [pid](const child& c) { return c.pid == pid; });
  }

  // Children that it did not make: those of workers that are gone, and daemons of workers that
  // live, which have left their parents and have no trace of the worker that they came from. Those
  // end with the next worker, too: what a task starts to outlive a moment is to stay its child. If
  // workers adopted them, they would keep every daemon that has ended until their own end, since a
  // worker can't wait for children that may be the user's. Each that dies, by this or by itself
  // meanwhile, may leave others behind: so again with each until none is found.
  void kill_adopted() noexcept {
    const pid_t self = getpid();
    has_orphans_ = false;
    for (const pid_t pid : numbers_in("/proc")) {
      if (is_worker(pid) || parent_of(pid) != self) continue;
      ::kill(pid, SIGKILL);
      has_orphans_ = true;
    }
  }

  [[noreturn]] void end() noexcept {
    for (const child& one : children_alive_) ::kill(one.pid, SIGKILL);
    children_alive_.clear();
    // Each that dies may leave others behind, which come here then.
    for (int round = 0; round < 1000; ++round) {
      kill_adopted();
      const pid_t gone = waitpid(-1, nullptr, 0);
      if (gone < 0 && errno == ECHILD) break;
    }
    _exit(0);
  }

  const int socket_;
  const pid_t driver_;
  config settings_;
  sigset_t children_{};
  sigset_t before_{};
  std::vector<child> children_alive_;
  bool has_orphans_ = false;
  whole_order came_;
};

error refused(std::string why) {
  return {errc::unsupported,
          fmt::format("isolation = processes: {}; or use isolation = threads", why)};
}

}  // namespace

zygote& zygote::global() {
  static auto* const made = new zygote;
  return *made;
}

void zygote::forget() noexcept {
  const std::lock_guard lock(mutex_);
  if (socket_ >= 0) close(socket_);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  socket_ = -1;
  pid_ = 0;
}

void zygote::take(int socket, pid_t pid, pid_t image) noexcept {
  const std::lock_guard lock(mutex_);
  socket_ = socket;
  pid_ = pid;
  image_.store(image, std::memory_order_relaxed);
  is_dead_ = false;
}

// The fork comes without the lock, which the child would hold for ever.
result<void> zygote::start(const config& settings) {
  if (threads_of_process() > threads_before_any) {
    {
      const std::lock_guard lock(mutex_);
      if (socket_ >= 0 && !is_dead_ && say_settings(socket_, settings)) return {};
    }
    forget();
    return start_again(settings);
  }
  forget();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return refused(fmt::format("no socket could be made: {}", std::strerror(errno)));
  }
  const pid_t driver = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    nursery(ends[1], driver, settings).run();
  }
  const int why = errno;
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return refused(fmt::format("no process could be made: {}; raise the limit on processes",
                               std::strerror(why)));
  }
  take(ends[0], pid, 0);
  return {};
}

bool zygote::say_settings(int to, const config& settings) noexcept {
  try {
    codec::out_archive out;
    config copy = settings;
    const told_settings told = told_fields(copy);
    const spec::parcel_view bytes = codec::encode(out, told);
    if (bytes.head.size() > most_text || !bytes.segments.empty()) return false;
    return send_order(to, {order::kind::settings, 0}, nullptr, 0, bytes.head);
  } catch (const std::exception&) {
    return false;
  }
}

namespace {

// The first word of a zygote; none: it has ended, or says nothing.
std::optional<zygote::report> first_word(int from) noexcept {
  pollfd looked{from, POLLIN, 0};
  constexpr int most_ms = 30'000;
  int got = -1;
  do {
    got = poll(&looked, 1, most_ms);
  } while (got < 0 && errno == EINTR);
  zygote::report said;
  if (got != 1 || recv(from, &said, sizeof said, 0) != static_cast<ssize_t>(sizeof said)) {
    return std::nullopt;
  }
  return said;
}

constexpr const char* make_it_early =
    "construct the first runtime before anything that starts a thread, with isolation = processes "
    "or zygote = early";

}  // namespace

// Where it is too late to fork.
result<void> zygote::start_again(const config& settings) {
  if (!early_main::is_in_front()) {
    return refused(fmt::format(
        "{} threads run already, so that this process can't be forked, and its file can't be "
        "started once more, since libmanta was not there when it was, or {} was set: {}",
        threads_of_process(), early_main::variable, make_it_early));
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return refused(fmt::format("no socket could be made: {}", std::strerror(errno)));
  }
  pid_t pid = 0;
  const int failed = start_own_program(
      {.variables = {{early_main::variable, fmt::format("{}:{}", ends[1], getpid())}},
       .files = {ends[1]}},
      pid);
  close(ends[1]);
  if (failed != 0) {
    close(ends[0]);
    return refused(fmt::format("the program's file could not be started once more: {}; {}",
                               std::strerror(failed), make_it_early));
  }
  const bool is_told = say_settings(ends[0], settings);
  const auto said = is_told ? first_word(ends[0]) : std::nullopt;
  if (said && said->what == report::kind::ready && said->status == 0) {
    take(ends[0], pid, pid);
    return {};
  }
  ::kill(pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  close(ends[0]);
  if (said && said->status > 0) {
    return refused(
        fmt::format("the program has {} threads before its main begins, so that it can "
                    "be forked nowhere; start them in main",
                    said->status));
  }
  return refused(
      fmt::format("the program's file was started once more, and ended before its main "
                  "with {}; {}",
                  describe_end(status), make_it_early));
}

void run_zygote(int socket, pid_t driver) noexcept {
  const std::size_t threads = threads_of_process();
  const bool is_alone = threads <= threads_before_any;
  const zygote::report ready{zygote::report::kind::ready, 0, 0,
                             is_alone ? 0 : static_cast<int>(threads)};
  whole_order first;
  if (!receive_order(socket, first) || first.what.what != order::kind::settings) _exit(1);
  if (send(socket, &ready, sizeof ready, MSG_NOSIGNAL) < 0 || !is_alone) _exit(1);
  nursery(socket, driver, settings_in(first)).run();
}

bool zygote::spawn(const worker_seat& seat) noexcept {
  const std::lock_guard lock(mutex_);
  std::array<int, most_files> files{};
  std::copy(seat.line.begin(), seat.line.end(), files.begin());
  files[seat.line.size()] = seat.socket;
  std::copy(seat.output.begin(), seat.output.end(), files.begin() + fewest_files);
  const std::size_t count = seat.output.front() >= 0 ? most_files : fewest_files;
  return socket_ >= 0 &&
         send_order(socket_, {order::kind::spawn, seat.number}, files.data(), count);
}

void zygote::kill(std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  if (socket_ >= 0) send_order(socket_, {order::kind::kill, number}, nullptr, 0);
}

std::optional<zygote::report> zygote::next_report() noexcept {
  const std::lock_guard lock(mutex_);
  if (socket_ < 0) return std::nullopt;
  report said;
  const ssize_t got = recv(socket_, &said, sizeof said, MSG_DONTWAIT);
  if (got == static_cast<ssize_t>(sizeof said)) return said;
  if (got == 0) is_dead_ = true;
  return std::nullopt;
}

std::string describe_end(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

}  // namespace manta::inline v0::node
