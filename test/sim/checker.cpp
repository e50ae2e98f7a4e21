// SPDX-License-Identifier: Apache-2.0
#include "sim/checker.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>

namespace sim {

namespace {

using what = entry::what;
using std::chrono::milliseconds;
using std::chrono::seconds;

// What has happened to a process.
struct story {
  std::optional<std::uint64_t> epoch;
  std::optional<time_point> drained;
  std::optional<time_point> over;
  std::optional<time_point> impaired;  // since then
  duration longest{0};                 // that it was
  std::optional<time_point> reset;     // the last one
  int depth = 0;                       // of impairments
  bool is_crashed = false;
};

class check {
 public:
  explicit check(const manta::life::membership_settings& with) : with_(with) {}

  std::vector<std::string> of(const outcome& run) {
    for (const entry& one : run.log) look_at(one);
    look_at_end(run);
    return found_;
  }

 private:
  template <class... Args>
  void breach(const entry& at, fmt::format_string<Args...> text, Args&&... args) {
    found_.push_back(fmt::format("at {} ms: ", at.at.time_since_epoch() / milliseconds(1)) +
                     fmt::format(text, std::forward<Args>(args)...));
  }

  void look_at(const entry& one) {
    story& of = all_[one.process];
    switch (one.is) {
      case what::head_began:
        if (one.epoch <= largest_) {
          breach(one, "a head begins with epoch {}, after {} was given", one.epoch, largest_);
        }
        largest_ = std::max(largest_, one.epoch);
        break;
      case what::joined:
        if (!epochs_.emplace(one.epoch, one.process).second) {
          breach(one, "epoch {} is given to {:x}, and was {:x}'s", one.epoch, one.process,
                 epochs_[one.epoch]);
        }
        largest_ = std::max(largest_, one.epoch);
        of.epoch = one.epoch;
        break;
      case what::saw_end:
        knows_.emplace(one.process, one.other);
        break;
      case what::accepted:
        accept(one);
        break;
      case what::drained:
        of.drained = one.at;
        break;
      case what::left:
      case what::ended:
        end(one, of);
        break;
      case what::crashed:
        of.is_crashed = true;
        of.over = one.at;
        break;
      case what::impaired:
        if (of.depth++ == 0) of.impaired = one.at;
        break;
      case what::restored:
        of.depth = one.number == 1 ? 0 : of.depth - 1;  // 1: of all
        if (of.depth > 0 || !of.impaired) break;
        of.longest = std::max(of.longest, one.at - *of.impaired);
        of.impaired.reset();
        of.depth = 0;
        break;
      case what::reset:
        of.reset = one.at;
        break;
      default:
        break;
    }
  }

  void accept(const entry& one) {
    if (knows_.contains({one.process, one.other})) {
      breach(one, "{:x} handles request {} of {:x}, which it knows to have ended", one.process,
             one.number, one.other);
    }
    if (!handled_.emplace(one.process, one.other, one.number).second) {
      breach(one, "{:x} handles request {} of {:x} twice", one.process, one.number, one.other);
    }
  }

  void end(const entry& one, story& of) {
    of.over = one.at;
    if (of.drained) {
      const duration took = one.at - *of.drained;
      if (one.is == what::left && took <= seconds(6)) return;
      // Else it must have another reason, as any.
    }
    const duration away = of.impaired ? one.at - *of.impaired : of.longest;
    const bool was_away = std::max(of.longest, away) >= with_.dead_after - milliseconds(600);
    if (!was_away && !of.reset) {
      breach(one, "{:x} ends, and was never away for more than {} ms: {}", one.process,
             std::max(of.longest, away) / milliseconds(1), one.why);
    }
  }

  void look_at_end(const outcome& run) {
    entry at{what::ended};
    at.at = run.end;
    std::map<std::uint64_t, std::uint64_t> living;
    for (const auto& [process, view] : run.views) {
      const story& of = all_[process];
      if (of.drained && run.end - *of.drained > seconds(8)) {
        breach(at, "{:x} was drained {} ms ago and has not left", process,
               (run.end - *of.drained) / milliseconds(1));
      }
      if (!of.epoch) {
        breach(at, "{:x} lives and has never become a member", process);
      } else {
        living[process] = *of.epoch;
      }
    }
    for (const auto& [process, view] : run.views) {
      if (view == living) continue;
      std::string seen;
      for (const auto& [other, epoch] : view) seen += fmt::format(" {:x}:{}", other, epoch);
      std::string wanted;
      for (const auto& [other, epoch] : living) wanted += fmt::format(" {:x}:{}", other, epoch);
      breach(at, "to {:x} the members are{}, those that live{}", process, seen, wanted);
    }
  }

  const manta::life::membership_settings with_;
  std::vector<std::string> found_;
  std::map<std::uint64_t, story> all_;
  std::map<std::uint64_t, std::uint64_t> epochs_;
  std::uint64_t largest_ = 0;
  std::set<std::pair<std::uint64_t, std::uint64_t>> knows_;
  std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>> handled_;
};

}  // namespace

std::vector<std::string> breaches(const outcome& of, const manta::life::membership_settings& with) {
  return check(with).of(of);
}

}  // namespace sim
