// SPDX-License-Identifier: Apache-2.0
#include "node/end_signals.hpp"

#include <atomic>
#include <cerrno>
#include <utility>

#include <unistd.h>

#include "node/leftovers.hpp"

namespace manta::inline v0::node {

namespace {

// Never destroyed: a signal may come at any time.
sem_t end_bell;
std::atomic<int> end_signal{0};
std::atomic<pid_t> end_process{0};
std::atomic<pid_t> early_process{0};

bool has_default_action(int number) noexcept {
  struct sigaction now {};
  sigaction(number, nullptr, &now);
  return (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL;
}

void set_handler(int number, void (*by)(int)) noexcept {
  struct sigaction ours {};
  ours.sa_handler = by;
  ours.sa_flags = SA_RESTART;
  sigaction(number, &ours, nullptr);
}

}  // namespace

end_signals::end_signals() {
  leftovers::global();  // the handler can't make it
  sem_init(&end_bell, 0, 0);
  end_signal.store(0);
  end_process.store(getpid());
  for (taken& one : taken_) {
    if (!early_signals::may_be_taken(one.number)) continue;
    set_handler(one.number, on_signal);
    one.is_ours = true;
  }
}

end_signals::~end_signals() {
  for (const taken& one : taken_) {
    if (one.is_ours) std::signal(one.number, SIG_DFL);
  }
}

void end_signals::give_back(int number) noexcept {
  for (taken& one : taken_) {
    if (one.number == number && std::exchange(one.is_ours, false)) std::signal(number, SIG_DFL);
  }
}

// Async-signal-safe.
void end_signals::on_signal(int number) noexcept {
  const int kept = errno;
  int expected = 0;
  if (getpid() != end_process.load()) {  // a child without an exec
    std::signal(number, SIG_DFL);
    ::raise(number);
  } else if (end_signal.compare_exchange_strong(expected, number)) {
    sem_post(&end_bell);
  } else if (number == SIGINT) {
    if (end_signal.exchange(SIGINT) != SIGINT) sem_post(&end_bell);
  } else {
    leftovers::global().remove_own();
    _exit(128 + number);
  }
  errno = kept;
}

void end_signals::ring() noexcept { sem_post(&end_bell); }

int end_signals::wait() noexcept {
  while (sem_wait(&end_bell) != 0) {
  }
  return last_number();
}

int end_signals::last_number() noexcept { return end_signal.load(); }

bool early_signals::may_be_taken(int number) noexcept {
  return has_default_action(number) || is_ours(number);
}

early_signals::early_signals() {
  leftovers::global();  // the handler can't make it
  early_process.store(getpid());
  for (const int number : {SIGTERM, SIGINT}) {
    if (has_default_action(number)) set_handler(number, on_signal);
  }
}

early_signals::~early_signals() {
  for (const int number : {SIGTERM, SIGINT}) {
    if (is_ours(number)) std::signal(number, SIG_DFL);
  }
}

bool early_signals::is_ours(int number) noexcept {
  struct sigaction now {};
  sigaction(number, nullptr, &now);
  return (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == on_signal;
}

// Async-signal-safe.
void early_signals::on_signal(int number) noexcept {
  const int before = errno;
  if (getpid() == early_process.load()) leftovers::global().remove_own();  // else a child's
  std::signal(number, SIG_DFL);
  ::raise(number);  // which ends it when this returns
  errno = before;
}

}  // namespace manta::inline v0::node
