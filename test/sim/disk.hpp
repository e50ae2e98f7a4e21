// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <manta/spec/error.hpp>

#include "control/store.hpp"
#include "sim/world.hpp"

// A control store on a simulated disk. What is committed can be read at once and is on the disk a
// while later, in its order; a crash loses what is not, none or all of it or from some batch on:
// that the last one is torn on a disk is nothing that a store shows. While the disk fails, a commit
// is answered with an error, and half of these have been written all the same. While it is slow, a
// commit takes up to a second and a half. A store is opened on the disk for each life of the
// process that has it.

namespace sim {

namespace control = manta::control;

struct disk {
  explicit disk(world& w) : in(w) {}

  world& in;
  std::map<std::string, std::string> safe;  // on the disk
  std::deque<control::batch> late;          // not yet, oldest first
  std::uint64_t life = 0;                   // answers of a former one are dropped
  duration most_wait = std::chrono::milliseconds(8);
  time_point fails_until{};
  time_point slow_until{};
  std::function<void(const control::batch&)> sees;  // what is asked for
  bool answers_early = false;                       // a planted bug
  bool fails_silently = false;                      // likewise
  bool forgets_epoch = false;                       // likewise
  bool forgets_rows = false;                        // likewise

  void crash() {
    ++life;
    for (std::size_t kept = in.random().below(late.size() + 1); kept > 0; --kept) {
      settle();
    }
    late.clear();
  }
  void settle() {
    for (const control::change& one : late.front().changes) {
      if (one.what == control::change::kind::put) {
        safe[one.key] = one.value;
      } else {
        safe.erase(one.key);
      }
    }
    late.pop_front();
  }
};

class disk_store final : public control::store {
 public:
  explicit disk_store(disk& on) : on_(on), life_(++on.life), seen_(on.safe) {}

  void commit(control::batch what, control::answer<control::outcome> then) override {
    if (on_.sees) on_.sees(what);
    const bool fails = on_.in.now() < on_.fails_until;
    if (fails && on_.in.random().one_in(2)) return lose(std::move(then));
    for (const control::change& one : what.changes) {
      if (one.what == control::change::kind::put) {
        seen_[one.key] = one.value;
      } else {
        seen_.erase(one.key);
      }
    }
    on_.late.push_back(std::move(what));
    if (on_.answers_early) then(control::outcome{++at_, {}});
    const bool is_slow = on_.in.now() < on_.slow_until;
    const duration wait = on_.in.any(is_slow ? std::chrono::milliseconds(1500) : on_.most_wait) +
                          (on_.answers_early ? duration(400'000'000) : duration(0));
    safe_at_ = std::max(safe_at_, on_.in.now() + wait);
    on_.in.at(safe_at_, [disk = &on_, life = life_, at = ++at_, fails, then = std::move(then)] {
      if (disk->life != life) return;  // it crashed
      disk->settle();
      if (disk->answers_early) return;
      if (fails && !disk->fails_silently) return then(failure());
      then(control::outcome{at, {}});
    });
  }
  void read(std::vector<std::string> keys, control::answer<control::found> then) override {
    control::found out;
    for (const std::string& key : keys) {
      const auto at = seen_.find(key);
      if (at == seen_.end() || on_.forgets_epoch) {
        out.records.emplace_back();
      } else {
        out.records.emplace_back(control::record{at->first, at->second, 1});
      }
    }
    then(std::move(out));
  }
  void scan(control::range of, control::answer<control::page> then) override {
    control::page out;
    for (auto at = seen_.lower_bound(of.prefix); at != seen_.end(); ++at) {
      if (!at->first.starts_with(of.prefix) || on_.forgets_rows) break;
      if (at->first <= of.after) continue;
      if (out.records.size() == of.most) {
        out.has_more = true;
        break;
      }
      out.records.push_back({at->first, at->second, 1});
    }
    then(std::move(out));
  }
  manta::result<std::unique_ptr<control::watcher>> watch(std::string /*prefix*/,
                                                         control::revision /*from*/,
                                                         std::function<void()> /*bell*/) override {
    return manta::error(manta::errc::unsupported, "no watches on a simulated disk");
  }
  control::usage measure() const override { return {seen_.size(), 0, at_}; }
  manta::result<void> close() override { return {}; }

 private:
  static manta::error failure() {
    return manta::error(manta::errc::storage_failed, "the simulated disk fails");
  }
  void lose(control::answer<control::outcome> then) {
    on_.in.after(on_.in.any(on_.most_wait),
                 [disk = &on_, life = life_, at = ++at_, then = std::move(then)] {
                   if (disk->life != life) return;
                   if (!disk->fails_silently) return then(failure());
                   then(control::outcome{at, {}});
                 });
  }

  disk& on_;
  const std::uint64_t life_;
  std::map<std::string, std::string> seen_;
  control::revision at_ = 0;
  time_point safe_at_{};
};

}  // namespace sim
