// SPDX-License-Identifier: Apache-2.0
#include "sim/checker.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "sim/timeline.hpp"

namespace sim {

namespace {

using namespace std::chrono_literals;
using manta::spec::node_state;
using what = entry::what;

// For how long, with a head that can be reached, what happened to a process excuses its end.
constexpr duration excuse_lasts = 2500ms;
// What a connection may take until it works again, on a network that loses messages.
constexpr duration to_settle = 1500ms;
constexpr duration after_a_stop = 2500ms;

// What has happened to a process.
struct story {
  time_point began{};
  std::optional<std::uint64_t> epoch;
  time_point joined{};
  std::optional<time_point> drained;
  std::optional<entry> over;
  std::map<std::uint64_t, time_point> ends;  // that the head saw first, by epoch
  timeline impaired;
  int depth = 0;                  // of impairments
  std::vector<time_point> mixed;  // when one came on top of another
  std::vector<time_point> resets;
  std::map<std::uint64_t, time_point> saw_ends;

  std::optional<time_point> told_dead() const {
    const auto at = ends.find(epoch.value_or(0));
    return at == ends.end() ? std::nullopt : std::optional(at->second);
  }
  time_point until() const { return over ? over->at : time_point::max(); }
  static bool has_one(const std::vector<time_point>& all, time_point from, time_point to) {
    return std::ranges::any_of(all, [&](time_point at) { return at >= from && at <= to; });
  }
  bool is_reset(time_point from, time_point to) const { return has_one(resets, from, to); }
  // A way that is healed brings what was said before, though its process was stopped since.
  bool is_mixed(time_point from, time_point to) const { return has_one(mixed, from, to); }
  /// Nothing that happens to it alone.
  bool is_well(time_point from, time_point to) const {
    return epoch && joined <= from && until() > to && !impaired.touches(from, to) &&
           !is_reset(from, to);
  }
};

class check {
 public:
  check(const run_settings& with, asked_times* asked)
      : with_(with), how_(patience_of({.seed = with.seed})), asked_(asked) {
    no_head_.open({});  // until the first one begins
  }

  std::vector<std::string> of(const outcome& run) {
    for (const entry& one : run.log) look_at(one);
    end_ = run.end;
    for (const auto& [process, one] : all_) {
      look_at_over(process, one);
      look_at_patience(process, one);
      look_at_detection(process, one);
      look_at_hearing(process, one);
    }
    look_at_end(run);
    return found_;
  }

 private:
  template <class... Args>
  void breach(time_point at, fmt::format_string<Args...> text, Args&&... args) {
    found_.push_back(fmt::format("at {} ms: ", at.time_since_epoch() / 1ms) +
                     fmt::format(text, std::forward<Args>(args)...));
  }

  void look_at(const entry& one) {
    switch (one.is) {
      case what::head_began:
        no_head_.close(one.at);
        if (one.epoch <= largest_) {
          breach(one.at, "a head begins with epoch {}, after {} was given", one.epoch, largest_);
        }
        largest_ = std::max(largest_, one.epoch);
        break;
      case what::head_ended:
        no_head_.open(one.at);
        head_stop_.close(one.at);
        break;
      case what::head_stopped:
        head_stop_.open(one.at);
        break;
      case what::head_went_on:
        head_stop_.close(one.at);
        break;
      case what::disk_bad:
        bad_disk_.open(one.at);
        break;
      case what::disk_good:
        bad_disk_.close(one.at + 1600ms);  // what it began slowly ends later
        break;
      case what::accepted:
        accept(one);
        break;
      default:
        tell(one, all_[one.process]);
        break;
    }
  }

  void tell(const entry& one, story& of) {
    switch (one.is) {
      case what::began:
        of.began = one.at;
        break;
      case what::joined:
        join(one, of);
        break;
      case what::saw_end:
        knows_.emplace(one.process, one.other);
        of.saw_ends.emplace(one.other, one.at);
        break;
      case what::told_dead:
        of.ends.emplace(one.epoch, one.at);
        break;
      case what::drained:
        of.drained = one.at;
        break;
      case what::left:
      case what::ended:
      case what::crashed:
        if (!of.over) of.over = one;
        break;
      case what::impaired:
        if (of.depth++ == 0) {
          of.impaired.open(one.at);
        } else {
          of.mixed.push_back(one.at);
        }
        break;
      case what::restored:
        of.depth = one.number == 1 ? 0 : std::max(of.depth - 1, 0);  // 1: of all
        if (of.depth == 0) of.impaired.close(one.at);
        break;
      case what::reset:
        of.resets.push_back(one.at);
        break;
      default:
        break;
    }
  }

  void join(const entry& one, story& of) {
    if (!epochs_.emplace(one.epoch, one.process).second) {
      breach(one.at, "epoch {} is given to {:x}, and was {:x}'s", one.epoch, one.process,
             epochs_[one.epoch]);
    }
    largest_ = std::max(largest_, one.epoch);
    of.epoch = one.epoch;
    of.joined = one.at;
  }

  void accept(const entry& one) {
    if (knows_.contains({one.process, one.other})) {
      breach(one.at, "{:x} handles request {} of {:x}, which it knows to have ended", one.process,
             one.number, one.other);
    }
    if (!handled_.emplace(one.process, one.other, one.number).second) {
      breach(one.at, "{:x} handles request {} of {:x} twice", one.process, one.number, one.other);
    }
  }

  // ---- 4. why processes end

  void look_at_over(std::uint64_t process, const story& of) {
    if (!of.over || of.over->is == what::crashed) return;
    const time_point at = of.over->at;
    if (of.over->is == what::left && of.drained) {
      // The time in which it was stopped does not count.
      if (sum(parts_of({&of.impaired}, *of.drained, at).free) <= 6s) return;
    }
    const bool is_excused =
        of.epoch ? was_away(of) || has_no_head(of) || was_deaf(of) : finds_no_place(process, of);
    if (is_excused || was_reset(of)) return;
    breach(at, "{:x} ends, and had no reason shortly before: {}", process, of.over->why);
  }

  // Whether it has had the time to end, or to go on, since then.
  bool is_fresh(const story& of, time_point since) const {
    const time_point at = of.over->at;
    if (since >= at) return true;
    return sum(parts_of({&no_head_, &head_stop_, &bad_disk_, &of.impaired}, since, at).free) <=
           excuse_lasts;
  }

  // For dead_after, but for moments that a heartbeat does not fit in.
  bool was_away(const story& of) const {
    const duration least = how_.dead_after - 600ms;
    for (const timeline::span& first : of.impaired.spans()) {
      for (const timeline::span& last : of.impaired.spans()) {
        const time_point to = std::min(last.to, of.over->at);
        if (to - first.from < least || !is_fresh(of, to)) continue;
        if (sum(parts_of({&of.impaired}, first.from, to).free) <= 400ms) return true;
      }
    }
    return false;
  }

  // Connections that end while a head is stopped have to be made again soon after it goes on.
  bool was_deaf(const story& of) const {
    return std::ranges::any_of(head_stop_.spans(), [&](const timeline::span& one) {
      const time_point soon = one.to == time_point::max() ? one.to : one.to + how_.stop_grace;
      return of.impaired.touches(one.to, soon) && is_fresh(of, soon);
    });
  }

  // A stream that has ended may cost a member. A reset alone does not, but for one that could not
  // be back soon, or was back and not heard.
  bool was_reset(const story& of) const {
    return std::ranges::any_of(of.resets, [&](time_point at) {
      return is_fresh(of, at) && (!with_.has_resets || with_.has_bad_network ||
                                  of.impaired.touches(at, at + how_.reset_grace));
    });
  }

  bool has_no_head(const story& of) const {
    if (of.over->why.find("the head has not answered") == std::string::npos) return false;
    const time_point at = of.over->at;
    const parts good = parts_of({&no_head_, &head_stop_, &of.impaired}, at - how_.head_wait, at);
    return longest(good.free) <= 2s;
  }

  bool finds_no_place(std::uint64_t process, const story& of) {
    const time_point at = of.over->at;
    // The head had taken it, and what said so was lost.
    if (of.over->why.find("no member of its cluster any more") != std::string::npos) {
      return was_away(of) || was_deaf(of);
    }
    for (const timeline::span& one : bad_disk_.spans()) {
      if (one.from <= at && is_fresh(of, one.to)) return true;  // it was refused
    }
    if (of.over->why.find("no head has taken") == std::string::npos) return false;
    if (at - of.began < how_.join_limit) {
      breach(at, "{:x} gives up after {} ms", process, (at - of.began) / 1ms);
    }
    // Its name may be that of one who has to be declared dead, by a head that has begun anew.
    const parts good = parts_of({&no_head_, &head_stop_, &of.impaired, &bad_disk_}, of.began, at);
    return longest(good.free) < how_.return_grace + how_.dead_after + to_settle;
  }

  // ---- 8. who gives up

  void look_at_patience(std::uint64_t process, const story& of) {
    const time_point until = std::min(of.until(), end_);
    if (!of.epoch) {
      const parts own = parts_of({&of.impaired}, of.began, until);
      if (own.covered.empty() && until - of.began > how_.join_limit + 500ms) {
        breach(until, "{:x} tries to join for {} ms", process, (until - of.began) / 1ms);
      }
      return;
    }
    for (const timeline::span& one : parts_of({&no_head_, &head_stop_}, of.joined, until).covered) {
      if (one.to - one.from <= how_.head_wait + 2s || of.impaired.touches(one.from, one.to)) {
        continue;
      }
      breach(one.to, "{:x} has had no head for {} ms, and waits", process,
             (one.to - one.from) / 1ms);
    }
  }

  // ---- 7. how soon an end is seen

  bool has_good_head(time_point from, time_point to) const {
    return to <= end_ && !no_head_.touches(from, to) && !head_stop_.touches(from, to);
  }

  void look_at_detection(std::uint64_t process, const story& of) {
    if (!of.epoch) return;
    if (of.over && of.over->is == what::crashed) {
      const time_point at = of.over->at;
      const time_point limit = at + how_.closed_grace + 5ms;
      const bool counts = of.joined <= at - to_settle && !of.impaired.touches(at - to_settle, at) &&
                          !of.is_reset(at - to_settle, at) &&
                          has_good_head(at - after_a_stop, limit + 5ms);
      if (counts) expect(process, of, "died", at, limit, &asked_times::closed);
    }
    const duration within = how_.dead_after + how_.heartbeat / 2 + 400ms;
    for (const timeline::span& one : of.impaired.spans()) {
      const time_point limit = one.from + within;
      const bool counts = of.joined + 500ms <= one.from && std::min(one.to, of.until()) >= limit &&
                          has_good_head(one.from - after_a_stop, limit) &&
                          !of.is_mixed(one.from, limit);
      if (counts) expect(process, of, "was silent", one.from, limit, &asked_times::silent);
    }
  }

  void expect(std::uint64_t process, const story& of, const char* how, time_point since,
              time_point limit, int asked_times::*counter) {
    if (asked_ != nullptr) ++(asked_->*counter);
    if (const auto at = of.told_dead(); at && *at <= limit) return;
    breach(limit, "{:x} {} {} ms ago, and its head has not seen it", process, how,
           (limit - since) / 1ms);
  }

  void look_at_hearing(std::uint64_t process, const story& of) {
    if (!of.told_dead()) return;
    const time_point at = *of.told_dead();
    const duration within = with_.has_bad_network ? duration(2500ms) : duration(20ms);
    const time_point from = at - to_settle;
    const time_point limit = at + within;
    const bool counts = of.joined <= from && has_good_head(from, limit) &&
                        !bad_disk_.touches(from, limit) && with_.nodes <= how_.news_members;
    if (!counts) return;
    for (const auto& [other, one] : all_) {
      if (other == process || !one.is_well(from, limit)) continue;
      if (asked_ != nullptr) ++asked_->heard;
      const auto saw = one.saw_ends.find(process);
      if (saw != one.saw_ends.end() && saw->second <= limit) continue;
      breach(limit, "{:x} has not heard of the end of {:x} {} ms ago", other, process,
             within / 1ms);
    }
  }

  // ---- 5. and 6.

  void look_at_end(const outcome& run) {
    std::map<std::uint64_t, std::uint64_t> living;
    for (const auto& [process, view] : run.views) {
      const story& of = all_[process];
      if (of.drained && run.end - *of.drained > 8s) {
        breach(run.end, "{:x} was drained {} ms ago and has not left", process,
               (run.end - *of.drained) / 1ms);
      }
      if (!of.epoch) {
        breach(run.end, "{:x} lives and has never become a member", process);
      } else {
        living[process] = *of.epoch;
      }
    }
    for (const auto& [process, view] : run.views) look_at_view(run, process, view, living);
  }

  void look_at_view(const outcome& run, std::uint64_t process, const view_of_members& view,
                    const std::map<std::uint64_t, std::uint64_t>& living) {
    std::map<std::uint64_t, std::uint64_t> seen;
    for (const auto& [other, known] : view) {
      seen[other] = known.epoch;
      if (known.is != node_state::alive) {
        breach(run.end, "to {:x} member {:x} is {}", process, other,
               known.is == node_state::suspected ? "suspected" : "draining");
      }
      const auto load = run.loads.find(other);
      if (other == process || load == run.loads.end() || known.load == load->second) continue;
      breach(run.end, "to {:x} member {:x} has {} tasks that wait, and it has {}", process, other,
             known.load.queued, load->second.queued);
    }
    if (seen == living) return;
    std::string found;
    for (const auto& [other, epoch] : seen) found += fmt::format(" {:x}:{}", other, epoch);
    std::string wanted;
    for (const auto& [other, epoch] : living) wanted += fmt::format(" {:x}:{}", other, epoch);
    breach(run.end, "to {:x} the members are{}, those that live{}", process, found, wanted);
  }

  const run_settings with_;
  const manta::life::membership_settings how_;
  asked_times* const asked_;
  time_point end_{};
  std::vector<std::string> found_;
  std::map<std::uint64_t, story> all_;
  timeline no_head_;
  timeline head_stop_;
  timeline bad_disk_;
  std::map<std::uint64_t, std::uint64_t> epochs_;
  std::uint64_t largest_ = 0;
  std::set<std::pair<std::uint64_t, std::uint64_t>> knows_;
  std::set<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>> handled_;
};

}  // namespace

std::vector<std::string> breaches(const outcome& of, const run_settings& with, asked_times* asked) {
  return check(with, asked).of(of);
}

}  // namespace sim
