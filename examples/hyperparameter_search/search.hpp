// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <manta/manta.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "halving.hpp"
#include "model.hpp"

// The same search with all trials at the same time: coroutines, each with tasks of its own, and
// those that lose are cancelled wherever they are.
namespace tuning {

constexpr std::size_t most_trials = 4096;

// What happened, for the report: counted where it happens, for all trials of the process.
struct counters {
  std::array<std::atomic<std::int64_t>, most_trials> epochs{};  // of each trial, all its folds
  std::atomic<int> alive{0};                                    // trials whose frame exists

  std::int64_t all_epochs() const {
    std::int64_t sum = 0;
    for (const auto& one : epochs) sum += one.load();
    return sum;
  }
};
inline counters counted;

// One fold's turn, a task that its trial makes. Before each epoch it asks whether it is still
// wanted; check() throws manta::cancelled when its trial was cancelled.
inline fold train_fold(std::size_t trial, settings with, fold f, const std::vector<point>& points,
                       int epochs) {
  return trained(with, std::move(f), points, epochs, [trial] {
    manta::this_task::check();
    ++counted.epochs[trial];
  });
}

class is_alive {
 public:
  is_alive() { ++counted.alive; }
  ~is_alive() { --counted.alive; }
  is_alive(const is_alive&) = delete;
  is_alive& operator=(const is_alive&) = delete;
};

// One trial, from the first rung to the last unless somebody cancels it. It reports after each
// rung and goes on as long as it has tickets, one for each rung. While it waits, for folds or a
// ticket, it is a suspended frame and has no thread; when it is cancelled meanwhile, the frame is
// destroyed with all that is in it.
inline manta::coroutine<double> run_trial(request asked, std::size_t trial,
                                          manta::future<std::vector<point>> points,
                                          manta::channel<report> reports,
                                          manta::channel<bool> tickets) {
  const is_alive alive;
  const settings with = drawn(asked.seed, trial);
  std::vector<fold> state(folds);
  for (std::size_t k = 0; k < folds; ++k) state[k].number = k;
  double loss = 0;
  for (std::size_t rung = 0; rung < rungs_of(asked); ++rung) {
    co_await tickets.async_receive();
    std::vector<manta::future<fold>> training;
    for (fold& f : state) {
      training.push_back(
          manta::remote<train_fold>(trial, with, std::move(f), points, epochs_of(asked, rung)));
    }
    state = co_await std::move(training);
    loss = 0;
    for (const fold& f : state) loss += f.loss / folds;
    co_await reports.async_send({.trial = trial, .rung = rung, .loss = loss});
  }
  co_return loss;
}

// How a trial ended.
struct ending {
  bool is_cancelled = false;
  std::size_t rungs = 0;    // that it was in the running for
  std::int64_t epochs = 0;  // that it ran, each fold counted
};

struct outcome {
  winner best;
  std::vector<ending> endings;
  std::int64_t epochs_at_end = 0;  // when the last trial had ended
};

class search {
 public:
  search(const request& asked, std::vector<point> points)
      : asked_(asked), reports_(asked.trials), reported_(rungs_of(asked)), is_out_(asked.trials) {
    const manta::future<std::vector<point>> shared = manta::put(std::move(points));
    for (std::size_t t = 0; t < asked.trials; ++t) {
      tickets_.emplace_back(rungs_of(asked));
      trials_.push_back(manta::remote<run_trial>(asked, t, shared, reports_, tickets_[t]));
      tickets_[t].send(true);
      if (is_free(1)) tickets_[t].send(true);
    }
  }

  outcome run() {
    outcome out;
    out.endings.resize(asked_.trials);
    std::size_t left = asked_.trials;
    for (std::size_t rung = 0; rung < rungs_of(asked_); ++rung) {
      std::vector<report> all = reports_of(rung, left);
      left = ranked(all);
      out.best = {.trial = all.front().trial, .loss = all.front().loss, .epochs = 0};
      for (std::size_t i = 0; i < all.size(); ++i) {
        const std::size_t t = all[i].trial;
        out.endings[t].rungs = rung + 1;
        if (i < left) {
          // To the last rung goes only who has won; to others one may run ahead.
          if (is_free(rung + 2) || rung + 2 == rungs_of(asked_)) tickets_[t].send(true);
        } else {
          // Whatever it does now, waiting, training or standing in the queue, is in vain.
          is_out_[t] = true;
          manta::cancel(trials_[t]);
        }
      }
    }
    settle(out);
    return out;
  }

 private:
  // Whether a trial may begin this rung before the one before it is decided.
  bool is_free(std::size_t rung) const { return rung + 1 < rungs_of(asked_); }

  // The reports of a rung from all `count` trials that are left; what comes for later rungs
  // meanwhile is kept.
  std::vector<report> reports_of(std::size_t rung, std::size_t count) {
    std::vector<report>& all = reported_[rung];
    std::erase_if(all, [&](const report& r) { return is_out_[r.trial]; });
    while (all.size() < count) {
      const report r = reports_.receive();
      if (!is_out_[r.trial]) reported_[r.rung].push_back(r);
    }
    return all;
  }

  // Waits for every trial's end: with its loss, or as cancelled.
  void settle(outcome& out) {
    for (std::size_t t = 0; t < asked_.trials; ++t) {
      const auto end = trials_[t].try_get();
      out.endings[t].is_cancelled = !end && end.error().code() == manta::errc::cancelled;
      out.endings[t].epochs = counted.epochs[t];
    }
    out.best.epochs = counted.all_epochs();
    out.epochs_at_end = counted.all_epochs();
  }

  request asked_;
  manta::channel<report> reports_;
  std::vector<manta::channel<bool>> tickets_;
  std::vector<manta::future<double>> trials_;
  std::vector<std::vector<report>> reported_;
  std::vector<bool> is_out_;
};

}  // namespace tuning
