// SPDX-License-Identifier: Apache-2.0
#include "wire/loop_job.hpp"

#include <algorithm>
#include <atomic>
#include <future>
#include <utility>

#include <kj/async.h>
#include <kj/timer.h>

#include "wire/loop_core.hpp"

namespace manta::inline v0::wire {

namespace {

// KJ counts in 64 bits from the machine's start.
constexpr duration longest_wait = std::chrono::hours(1);

}  // namespace

struct loop_job::shared {
  explicit shared(std::shared_ptr<loop_core> loop) : at(std::move(loop)) {}

  const std::shared_ptr<loop_core> at;
  std::atomic<bool> is_asked{false};
  part* on_loop = nullptr;  // the loop's thread only
};

class loop_job::part final : public resident {
 public:
  part(std::shared_ptr<shared> with, work what) : shared_(std::move(with)), work_(std::move(what)) {
    shared_->on_loop = this;
  }
  virtual ~part() noexcept(false) = default;

  void run() {
    shared_->is_asked.store(false);
    const base::deadline next = work_();
    if (shared_->on_loop != this) return;  // ended meanwhile
    timer_ = nullptr;
    if (!next.has_value()) return;
    // A nanosecond too early would be once more for nothing.
    const auto wait = std::clamp<duration>(*next - base::now(), {}, longest_wait).count() + 1;
    timer_ = shared_->at->port()
                 .getTimer()
                 .afterDelay(wait * kj::NANOSECONDS)
                 .then([this] { run_soon(); })
                 .eagerlyEvaluate([](kj::Exception&&) {});
  }

  void end() override {
    if (std::exchange(shared_->on_loop, nullptr) == nullptr) return;
    shared_->at->drop(this);
  }

 private:
  // Outside of KJ's callbacks: the work may end what KJ is in.
  void run_soon() {
    shared_->at->later([with = shared_] {
      if (with->on_loop != nullptr) with->on_loop->run();
    });
  }

  const std::shared_ptr<shared> shared_;
  const work work_;
  kj::Promise<void> timer_ = nullptr;
};

loop_job::loop_job(loop& at, work what) : shared_(std::make_shared<shared>(at.core())) {
  shared_->is_asked.store(true);
  at.core()->post([with = shared_, what = std::move(what)]() mutable {
    auto made = std::make_unique<part>(with, std::move(what));
    part* const it = made.get();
    with->at->keep(std::move(made));
    it->run();
  });
}

void loop_job::ask() {
  if (shared_->is_asked.exchange(true)) return;
  try {
    shared_->at->post([with = shared_] {
      if (with->on_loop != nullptr) with->on_loop->run();
    });
  } catch (...) {
    shared_->is_asked.store(false);
    throw;
  }
}

loop_job::~loop_job() { stop(); }

void loop_job::stop() {
  auto gone = std::make_shared<std::promise<void>>();
  std::future<void> is_gone = gone->get_future();
  const bool will_run = shared_->at->post([with = shared_, gone] {
    if (with->on_loop != nullptr) with->on_loop->end();
    with->at->later([gone] { gone->set_value(); });
  });
  if (will_run) is_gone.wait();
}

}  // namespace manta::inline v0::wire
