// SPDX-License-Identifier: Apache-2.0
#include "node/worker_output.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace manta::inline v0::node {

namespace {

// As much as a pipe holds: all that was in it when the reading began.
constexpr std::size_t pipe_bytes = std::size_t{64} << 10U;
// What a dead worker's pipe may still have; those it left behind may write until they are killed.
constexpr std::size_t most_last_bytes = std::size_t{1} << 20U;

void close_all(std::array<int, 4>& files) noexcept {
  for (int& one : files) {
    if (one >= 0) ::close(std::exchange(one, -1));
  }
}

void write_all(std::FILE* to, std::string& text) noexcept {
  if (text.empty()) return;
  std::fwrite(text.data(), 1, text.size(), to);
  std::fflush(to);
  text.clear();
}

}  // namespace

worker_output::source::~source() {
  for (const int one : read_) {
    if (one >= 0) ::close(one);
  }
}

worker_output::ends::~ends() { close_all(files); }

void worker_output::open(who asked) {
  who_ = std::move(asked);
  poll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event on{.events = EPOLLIN, .data = {.u64 = 0}};
  if (poll_ < 0 || wake_ < 0 || epoll_ctl(poll_, EPOLL_CTL_ADD, wake_, &on) != 0) {
    const int why = errno;
    for (int* const one : {&poll_, &wake_}) {
      if (*one >= 0) ::close(std::exchange(*one, -1));
    }
    throw std::system_error(why, std::generic_category(), "the output of isolated workers");
  }
  {
    const std::lock_guard lock(mutex_);
    ends_ = false;
    has_timer_ = false;
  }
  thread_ = std::thread([this] { listen(); });
  is_open_ = true;
}

std::shared_ptr<worker_output::source> worker_output::add(std::uint64_t worker,
                                                          ends& into) noexcept {
  try {
    auto made = std::make_shared<source>(worker);
    for (std::size_t i = 0; i < 2; ++i) {
      int pair[2];
      if (pipe2(pair, O_CLOEXEC) != 0) return nullptr;
      into.files[2 + i] = pair[0];
      into.files[i] = pair[1];
      // The worker looks into it, but must not take anything out: so this end has its own copy, and
      // does not wait.
      made->read_[i] = ::fcntl(pair[0], F_DUPFD_CLOEXEC, 0);
      if (made->read_[i] < 0) return nullptr;
      if (::fcntl(pair[0], F_SETFL, O_NONBLOCK) != 0) return nullptr;
    }
    const std::lock_guard lock(mutex_);
    if (ends_) return nullptr;
    sources_.emplace(worker, made);
    for (const int one : made->read_) {
      epoll_event on{.events = EPOLLIN, .data = {.u64 = worker}};
      if (epoll_ctl(poll_, EPOLL_CTL_ADD, one, &on) == 0) continue;
      sources_.erase(worker);
      return nullptr;
    }
    return made;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// Under the mutex: reads until there is no more, or so much was read.
void worker_output::read(source& of, std::size_t most_bytes) {
  room_.resize(pipe_bytes);
  // Who takes a result now comes here and waits for the lock.
  of.is_unsettled_.store(true, std::memory_order_seq_cst);
  for (const output_stream stream : {output_stream::out, output_stream::err}) {
    const int from = of.read_[static_cast<std::size_t>(stream)];
    for (std::size_t sum = 0; from >= 0 && sum < most_bytes;) {
      // Before the text: who ends meanwhile leaves a mark behind it.
      const speaker now = who_(of.worker);
      const ssize_t got = ::read(from, room_.data(), room_.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      sum += static_cast<std::size_t>(got);
      of.part_of_ = now.number;
      lines_.text(of.worker, now.pid, stream,
                  std::string_view(room_.data(), static_cast<std::size_t>(got)), now.name,
                  base::now(), ready_);
    }
  }
}

void worker_output::settle(source& of, std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  if (ends_) return;
  try {
    read(of, pipe_bytes);
    if (of.part_of_ == number) lines_.end_part(of.worker, base::now(), ready_);
    show();
    of.is_unsettled_.store(lines_.has_part(of.worker), std::memory_order_seq_cst);
    if (!has_timer_ && lines_.next_due()) wake();
  } catch (const std::bad_alloc&) {
    // What was read is lost; there is no memory to show it.
  }
}

// Under the mutex.
void worker_output::end_locked(source& of) {
  read(of, most_last_bytes);
  lines_.ended(of.worker, base::now(), ready_);
  show();
  of.is_unsettled_.store(false, std::memory_order_seq_cst);
  for (int& one : of.read_) {
    if (one < 0) continue;
    epoll_ctl(poll_, EPOLL_CTL_DEL, one, nullptr);
    ::close(std::exchange(one, -1));
  }
}

void worker_output::end(source& of) noexcept {
  const std::lock_guard lock(mutex_);
  if (ends_) return;
  try {
    end_locked(of);
    if (!has_timer_ && lines_.next_due()) wake();
  } catch (const std::bad_alloc&) {
    // As above.
  }
  sources_.erase(of.worker);
}

// Under the mutex, so that no line comes between the parts of another.
void worker_output::show() noexcept {
  try {
    std::string text;
    output_stream to = output_stream::out;
    const auto file = [&to] { return to == output_stream::out ? stdout : stderr; };
    for (const output_lines::line& one : ready_) {
      if (one.to != to) write_all(file(), text);
      to = one.to;
      text += one.text;
    }
    write_all(file(), text);
  } catch (const std::bad_alloc&) {
    // As above.
  }
  ready_.clear();
}

void worker_output::wake() const noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t sent = ::write(wake_, &one, sizeof one);
}

// Under the mutex: milliseconds, -1: for ever.
int worker_output::sleep_time() const noexcept {
  const auto until = lines_.next_due();
  if (!until) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - base::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

void worker_output::listen() noexcept {
  pthread_setname_np(pthread_self(), "manta-output");
  std::array<epoll_event, 32> found{};
  int sleep_ms = -1;
  for (;;) {
    const int n = epoll_wait(poll_, found.data(), static_cast<int>(found.size()), sleep_ms);
    const std::lock_guard lock(mutex_);
    if (ends_) return;
    try {
      for (std::size_t i = 0; i < static_cast<std::size_t>(std::max(n, 0)); ++i) {
        std::uint64_t count = 0;
        const std::uint64_t worker = found[i].data.u64;  // whose place in memory is not aligned
        if (worker == 0) {
          [[maybe_unused]] const ssize_t got = ::read(wake_, &count, sizeof count);
          continue;
        }
        const auto of = sources_.find(worker);
        if (of == sources_.end()) continue;
        source& one = *of->second;
        read(one, pipe_bytes);
        show();
        one.is_unsettled_.store(lines_.has_part(one.worker), std::memory_order_seq_cst);
        // The last one that could write has gone: its end is told by the zygote.
        if ((found[i].events & EPOLLIN) == 0) {
          for (const int gone : one.read_) epoll_ctl(poll_, EPOLL_CTL_DEL, gone, nullptr);
        }
      }
      lines_.due(base::now(), ready_);
      show();
    } catch (const std::bad_alloc&) {
      ready_.clear();
    }
    sleep_ms = sleep_time();
    has_timer_ = sleep_ms >= 0;
  }
}

void worker_output::close() noexcept {
  if (!is_open_) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    try {
      for (const auto& [worker, of] : sources_) end_locked(*of);
      lines_.close(ready_);
    } catch (const std::bad_alloc&) {
      // As above.
    }
    show();
    sources_.clear();
    wake();
  }
  thread_.join();
  ::close(std::exchange(poll_, -1));
  ::close(std::exchange(wake_, -1));
  who_ = nullptr;
  is_open_ = false;
}

}  // namespace manta::inline v0::node
