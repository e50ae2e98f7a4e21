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
// while later, in its order; a crash loses what is not, all of it or from some batch on. A store
// is opened on the disk for each life of the process that has it.

namespace sim {

namespace control = manta::control;

struct disk {
  explicit disk(world& w) : in(w) {}

  world& in;
  std::map<std::string, std::string> safe;  // on the disk
  std::deque<control::batch> late;          // not yet, oldest first
  std::uint64_t life = 0;                   // answers of a former one are dropped
  duration most_wait = std::chrono::milliseconds(8);
  bool answers_early = false;  // a planted bug
  bool forgets_epoch = false;  // likewise
  bool forgets_rows = false;   // likewise

  void crash() {
    ++life;
    for (std::size_t kept = late.empty() ? 0 : in.random().below(late.size()); kept > 0; --kept) {
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
    for (const control::change& one : what.changes) {
      if (one.what == control::change::kind::put) {
        seen_[one.key] = one.value;
      } else {
        seen_.erase(one.key);
      }
    }
    on_.late.push_back(std::move(what));
    if (on_.answers_early) then(control::outcome{++at_, {}});
    const duration wait =
        on_.in.any(on_.most_wait) + (on_.answers_early ? duration(400'000'000) : duration(0));
    safe_at_ = std::max(safe_at_, on_.in.now() + wait);
    on_.in.at(safe_at_, [disk = &on_, life = life_, at = ++at_, then = std::move(then)] {
      if (disk->life != life) return;  // it crashed
      disk->settle();
      if (!disk->answers_early) then(control::outcome{at, {}});
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
  disk& on_;
  const std::uint64_t life_;
  std::map<std::string, std::string> seen_;
  control::revision at_ = 0;
  time_point safe_at_{};
};

}  // namespace sim
