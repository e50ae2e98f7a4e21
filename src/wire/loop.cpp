// SPDX-License-Identifier: Apache-2.0
#include "wire/loop.hpp"

#include <csignal>
#include <future>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <kj/debug.h>
#include <kj/exception.h>

#include <manta/base/pause.hpp>

#include "wire/loop_core.hpp"

namespace manta::inline v0::wire {

namespace {

// KJ tells stderr what it thinks of a peer's bytes; the link's end tells its user.
class quiet final : public kj::ExceptionCallback {
 public:
  virtual ~quiet() noexcept(false) = default;
  void logMessage(kj::LogSeverity, const char*, int, int, kj::String&&) override {}
};

// KJ's port ignores SIGPIPE for the whole process. Nothing here needs that, since all is written
// with MSG_NOSIGNAL, and whether it ends the process is the program's to say.
class signal_keeper {
 public:
  signal_keeper() noexcept { sigaction(SIGPIPE, nullptr, &before_); }
  ~signal_keeper() { sigaction(SIGPIPE, &before_, nullptr); }
  signal_keeper(const signal_keeper&) = delete;
  signal_keeper& operator=(const signal_keeper&) = delete;

 private:
  struct sigaction before_ {};
};

constexpr unsigned most_calls = 16;  // of others' work before sockets are looked at

}  // namespace

bool loop_core::post(task work) {
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return false;
    queue_.push_back(std::move(work));
  }
  has_queue_.store(true, std::memory_order_relaxed);
  // With the one in sleep(): either it sees the queue, or this sees it asleep.
  base::full_barrier();
  if (!sleeps_.load(std::memory_order_relaxed)) return true;
  // Under the lock, since the port goes when the loop is over.
  const std::lock_guard lock(mutex_);
  if (!is_over_ && sleeps_.exchange(false)) io_->wake();
  return true;
}

void loop_core::stop() {
  post([this] { is_stopping_ = true; });
}

void loop_core::drop(resident* one) {
  later([this, one] { residents_.erase(one); });
}

void loop_core::run_queue() {
  std::vector<task> now;
  {
    const std::lock_guard lock(mutex_);
    has_queue_.store(false, std::memory_order_relaxed);
    now.swap(queue_);
  }
  for (task& work : now) work();
  while (!later_.empty()) {
    now.clear();
    now.swap(later_);
    for (task& work : now) work();
  }
}

// Lets the thread return from waiting in serve(). False: there is no reason to.
bool loop_core::call_main() {
  if (!has_queue_.load(std::memory_order_relaxed) && later_.empty()) return false;
  if (main_.get() != nullptr && main_->isWaiting()) main_->fulfill();
  return true;
}

void loop_core::flush() {
  std::vector<flushed*> now;
  now.swap(to_flush_);
  for (flushed* one : now) one->flush();
}

bool loop_core::may_look_again() {
  if (spin_.count() == 0 || awaited_.load(std::memory_order_relaxed) <= 0) return false;
  const base::time_point now = base::now();
  if (was_active_) look_until_ = now + spin_;
  was_active_ = false;
  return now < look_until_;
}

bool loop_core::sleep() {
  sleeps_.store(true, std::memory_order_relaxed);
  base::full_barrier();
  bool was_woken = false;
  if (!has_queue_.load(std::memory_order_relaxed)) was_woken = io_->wait();
  sleeps_.store(false, std::memory_order_relaxed);
  call_main();
  return was_woken;
}

bool loop_core::wait() {
  if (call_main() && ++calls_ < most_calls) return false;
  calls_ = 0;
  flush();
  if (has_queue_.load(std::memory_order_relaxed) || !later_.empty()) return io_->poll();
  if (!may_look_again()) return sleep();
  base::pause();
  return io_->poll();
}

bool loop_core::poll() {
  flush();
  const bool was_woken = io_->poll();
  call_main();
  return was_woken;
}

void loop_core::serve(kj::WaitScope& scope) {
  while (!is_stopping_) {
    auto called = kj::newPromiseAndFulfiller<void>();
    main_ = kj::mv(called.fulfiller);
    called.promise.wait(scope);
    run_queue();
  }
}

void loop_core::end_all() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  run_queue();
  while (!residents_.empty()) {
    for (auto& [at, one] : residents_) one->end();
    run_queue();  // drops them, and may make others
  }
}

void loop_core::run(const std::function<void(std::optional<error>)>& is_ready) {
  thread_.store(std::this_thread::get_id());
  quiet say_nothing;
  bool is_up = false;
  try {
    std::optional<kj::UnixEventPort> io;
    {
      const signal_keeper keep;
      io.emplace();
    }
    kj::EventLoop events(*this);
    kj::WaitScope scope(events);
    io_ = &*io;
    is_up = true;
    is_ready(std::nullopt);
    serve(scope);
    end_all();
    main_ = nullptr;
  } catch (const kj::Exception& thrown) {
    // What fails later is a link's, which catches it.
    if (is_up) throw;
    is_ready(error(errc::store_full,
                   fmt::format("wire: asked a thread for sockets, the kernel refused: {}; raise "
                               "the limit of open files",
                               thrown.getDescription().cStr())));
  }
}

result<std::unique_ptr<loop>> loop::start(const settings& how) {
  std::unique_ptr<loop> made(new loop(std::make_shared<loop_core>(how)));
  auto ready = std::make_shared<std::promise<std::optional<error>>>();
  std::future<std::optional<error>> answer = ready->get_future();
  try {
    made->thread_ = std::thread([core = made->core_, ready] {
      core->run([&](std::optional<error> failed) { ready->set_value(std::move(failed)); });
    });
  } catch (const std::system_error& failed) {
    return error(errc::store_full,
                 fmt::format("wire: asked a thread for sockets, found: {}; raise the limit of "
                             "threads",
                             failed.what()));
  }
  std::optional<error> failed = answer.get();
  if (failed.has_value()) return *std::move(failed);
  return made;
}

bool loop::is_here() const noexcept { return core_->is_here(); }

bool loop::post(std::function<void()> work) { return core_->post(std::move(work)); }

loop::~loop() {
  core_->stop();
  if (thread_.joinable()) thread_.join();
}

}  // namespace manta::inline v0::wire
