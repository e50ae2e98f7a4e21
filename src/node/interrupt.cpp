// SPDX-License-Identifier: Apache-2.0
#include "node/interrupt.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <utility>

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "node/end_signals.hpp"
#include "node/leftovers.hpp"

namespace manta::inline v0::node {

namespace {

constexpr std::chrono::seconds time_to_end{5};

std::atomic<pid_t> interrupted_process{0};
std::terminate_handler terminate_before = nullptr;

// Somebody who hangs may hold a stream's lock.
[[noreturn]] void leave_at_once(int code = interrupted_code) noexcept {
  if (ftrylockfile(stdout) == 0) std::fflush(stdout);
  _exit(code);
}

// Not by stderr, whose lock somebody may hold; and nothing when nobody reads it.
void say(std::string_view text) noexcept {
  pollfd room{STDERR_FILENO, POLLOUT, 0};
  if (poll(&room, 1, 0) <= 0 || (room.revents & POLLOUT) == 0) return;
  const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  static_cast<void>(written);  // there is nobody else to tell
}

// What ends the program is an interrupted wait that nobody caught, and no breach of `noexcept`.
bool is_uncaught() noexcept { return std::current_exception() != nullptr; }

}  // namespace

// Who reads a stream holds its lock meanwhile, and who writes to one that nobody reads, so there is
// a limit. The standard streams are flushed last; if it is stdin that is read, only that is
// missing.
void leave_in_order(int code) noexcept {
  constexpr std::chrono::milliseconds all_but_stdin{200};
  const bool is_read = ftrylockfile(stdin) != 0;
  if (!is_read) funlockfile(stdin);
  const std::chrono::milliseconds most = is_read ? all_but_stdin : time_to_end;
  try {
    std::thread([most, code] {
      std::this_thread::sleep_for(most);
      leave_at_once(code);
    }).detach();
  } catch (const std::exception&) {
    leave_at_once(code);
  }
  std::fflush(nullptr);
  _exit(code);
}

namespace {
constinit std::atomic<bool> is_end_over{false};
}  // namespace

void note_end_over() noexcept { is_end_over.store(true); }

void limit_end(int code, void (*begins)() noexcept) noexcept {
  try {
    std::thread([code, begins] {
      begins();
      std::this_thread::sleep_for(time_to_end);
      if (is_end_over.load()) return;  // what the program does at its exit is its own
      say("manta: what runs did not stop within 5 s, so this node ends without it\n");
      leftovers::global().remove();
      leave_at_once(code);
    }).detach();
  } catch (const std::exception&) {
    std::signal(SIGINT, SIG_DFL);  // it ends with what runs, or with the next one
  }
}

constinit std::atomic<interrupt::state> interrupt::state_{state::off};

interrupt::interrupt() {
  sem_init(&bell_, 0, 0);
  std::atexit([] { on_exit(); });
}

interrupt& interrupt::global() {
  static auto* const made = new interrupt;  // never destroyed: a signal may come at any time
  return *made;
}

result<void> interrupt::check() {
  if (!is_interrupted()) return {};
  return error(errc::cancelled, "SIGINT has come: the program ends, and makes no other runtime");
}

void interrupt::open(const config& settings, std::function<void()> end) {
  if (settings.interrupt == interrupt_mode::leave) return;
  // The program has a handler, or was started to ignore the signal.
  if (!early_signals::may_be_taken(SIGINT)) return;
  leftovers::global();  // the handler can't make it
  end_ = std::move(end);
  is_leaving_ = false;
  interrupted_process.store(getpid());
  listener_ = std::thread([this] { listen(); });
  state_.store(state::armed);
  if (std::get_terminate() != on_terminate) terminate_before = std::set_terminate(on_terminate);
  struct sigaction ours {};
  ours.sa_handler = on_signal;
  ours.sa_flags = SA_RESTART;
  sigaction(SIGINT, &ours, nullptr);
}

bool interrupt::close() noexcept {
  if (!listener_.joinable()) return false;
  state expected = state::armed;
  if (state_.compare_exchange_strong(expected, state::off)) {
    struct sigaction now {};
    sigaction(SIGINT, nullptr, &now);
    if (now.sa_handler == on_signal) std::signal(SIGINT, SIG_DFL);
    if (std::get_terminate() == on_terminate) std::set_terminate(terminate_before);
    sem_post(&bell_);
  }
  leave();
  listener_.join();
  end_ = nullptr;
  return is_interrupted();
}

// Async-signal-safe.
void interrupt::on_signal(int /*number*/) noexcept {
  const int kept = errno;
  state expected = state::armed;
  const bool is_ours = getpid() == interrupted_process.load();
  if (is_ours && state_.compare_exchange_strong(expected, state::interrupted)) {
    sem_post(&global().bell_);
  } else if (is_ours && expected == state::interrupted) {
    leftovers::global().remove_own();
    _exit(interrupted_code);
  } else {
    // A child without an exec, whose parent has the bell; or the runtime ends this very moment.
    std::signal(SIGINT, SIG_DFL);
    ::raise(SIGINT);
  }
  errno = kept;
}

void interrupt::listen() noexcept {
  pthread_setname_np(pthread_self(), "manta-interrupt");
  while (sem_wait(&bell_) != 0) {
  }
  if (!is_interrupted()) return;
  std::thread ender;
  try {
    ender = std::thread([this] {
      end_();
      const std::lock_guard lock(mutex_);
      has_ended_ = true;
      changed_.notify_all();
    });
  } catch (const std::exception&) {
    leftovers::global().remove();
    leave_at_once();
  }
  say("manta: interrupted: what runs is asked to stop, what has not begun is cancelled, and the "
      "program ends; a second SIGINT ends it at once\n");
  listen_to_end();
  ender.join();
}

void interrupt::listen_to_end() noexcept {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, time_to_end, [this] { return has_ended_ && is_leaving_; })) return;
  say(has_ended_
          ? "manta: interrupted: main did not come to its end within 5 s, so the program ends "
            "without\n"
          : "manta: interrupted: what runs did not stop within 5 s, so the program ends without "
            "it\n");
  leftovers::global().remove();
  leave_at_once();
}

// Says that main came to its end, and waits for the runtime's.
void interrupt::leave() noexcept {
  std::unique_lock lock(mutex_);
  is_leaving_ = true;
  changed_.notify_all();
  if (is_interrupted()) changed_.wait(lock, [this] { return has_ended_; });
}

// Nobody caught what an interrupted call threw.
void interrupt::on_terminate() noexcept {
  if (is_interrupted() && is_uncaught()) {
    global().leave();
    leave_in_order(interrupted_code);
  }
  if (terminate_before != nullptr) terminate_before();
  std::abort();
}

// exit() may have been called with a runtime in main.
void interrupt::on_exit() noexcept {
  if (!is_interrupted()) return;
  global().leave();
  leave_in_order(interrupted_code);
}

}  // namespace manta::inline v0::node
