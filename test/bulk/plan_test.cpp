// SPDX-License-Identifier: Apache-2.0
#include "bulk/plan.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "exec/support.hpp"

// Pulls whose lines open, end, lack chunks and send wrong ones at random. What each chunk's state
// is has been written down beside the plan, which is held to it.

namespace bulk_plan_test {

namespace {

using manta::bulk::chunk_ask;
using manta::bulk::ended_pull;
using manta::bulk::holder_id;
using manta::bulk::line_id;
using manta::bulk::plan;
using manta::bulk::pull_end;
using manta::bulk::pull_id;
using manta_test::dice;
using manta_test::repeats;
using manta_test::run_seed;
using manta_test::scaled;

constexpr std::uint32_t chunk = 100;
constexpr std::size_t credits = 2;
constexpr manta::bulk::plan_limits small_chunks{.chunk_bytes = chunk, .credits = credits};

struct model_pull {
  std::uint64_t bytes = 0;
  std::set<holder_id> holders;
  std::set<holder_id> helpers;  // of these
  std::set<std::uint64_t> here;
  std::set<std::uint64_t> under_way;
  std::set<std::pair<holder_id, std::uint64_t>> lacking;
  std::map<std::uint64_t, int> wrong;

  std::uint64_t chunks() const { return (bytes + chunk - 1) / chunk; }
  bool may_be_asked(holder_id whom, std::uint64_t at) const {
    return holders.contains(whom) && !lacking.contains({whom, at});
  }
  // While there are helpers, only of them.
  bool is_asked(holder_id whom, std::uint64_t at) const {
    return may_be_asked(whom, at) && (helpers.empty() || helpers.contains(whom));
  }
  bool has_somebody(std::uint64_t at) const {
    return std::ranges::any_of(holders, [&](holder_id one) { return may_be_asked(one, at); });
  }
};

class model {
 public:
  explicit model(std::uint64_t seed) : dice_(seed) {}

  void step() {
    switch (dice_.below(13)) {
      case 0:
        return add();
      case 1:
        return open();
      case 2:
        return dice_.one_in(3) ? close() : open();
      case 3:
        return dice_.one_in(8) ? lose() : answer();
      case 4:
        return dice_.one_in(6) ? drop() : answer();
      case 5:
        return lack();
      case 6:
        return damage();
      case 7:
        return tell();
      default:
        return answer();
    }
  }
  void look() {
    while (const auto one = plan_.next()) asked(*one);
    while (const auto one = plan_.next_end()) ended(*one);
    for (const auto& [line, is] : lines_) {
      const chunk_ask* const front = plan_.front(line);
      REQUIRE((front == nullptr) == is.second.empty());
      if (front != nullptr) REQUIRE(*front == is.second.front());
      if (is.second.size() >= credits) continue;
      for (const auto& [pull, of] : pulls_) REQUIRE_FALSE(has_for(of, is.first));
    }
    for (holder_id one = 1; one <= last_helper_; ++one) {
      const bool needs =
          std::ranges::any_of(pulls_, [&](const auto& of) { return has_for(of.second, one); });
      REQUIRE(plan_.needs(one) == needs);
    }
    REQUIRE(due_.empty());
  }
  /// Every line answers, and holders that are needed have lines: all of them end.
  void finish() {
    for (holder_id one = 1; one <= last_helper_; ++one) open_line(one);
    look();
    for (int i = 0; i < 100'000 && !pulls_.empty(); ++i) {
      answer();
      look();
    }
    REQUIRE(pulls_.empty());
    REQUIRE(plan_.wanted() == 0);
  }
  int whole = 0;
  int others = 0;
  int told = 0;

 private:
  static constexpr holder_id most_holders = 3;
  using line_state = std::pair<holder_id, std::deque<chunk_ask>>;

  static bool has_for(const model_pull& of, holder_id whom) {
    for (std::uint64_t at = 0; at < of.bytes; at += chunk) {
      if (!of.here.contains(at) && !of.under_way.contains(at) && of.is_asked(whom, at)) {
        return true;
      }
    }
    return false;
  }
  void add() {
    if (pulls_.size() > 5) return;
    const pull_id number = ++last_;
    model_pull of;
    of.bytes = dice_.below(12) * chunk / 2;
    for (holder_id one = 1; one <= most_holders; ++one) {
      if (dice_.one_in(2)) of.holders.insert(one);
    }
    const std::vector<holder_id> from(of.holders.begin(), of.holders.end());
    // Half of them have begun before.
    manta::bulk::chunks_here here(dice_.one_in(2) ? of.chunks() : 0);
    for (std::size_t i = 0; i < here.size(); ++i) {
      here[i] = dice_.one_in(2);
      if (here[i]) of.here.insert(i * chunk);
    }
    plan_.add(number, of.bytes, from, here);
    if (of.here.size() == of.chunks()) {
      due_.emplace(number, pull_end::whole);
    } else if (from.empty()) {
      note_here(number, of);
      due_.emplace(number, pull_end::unreachable);
    } else {
      pulls_.emplace(number, of);
    }
  }
  void open() { open_to(some_holder()); }
  // As often a helper, if there is one.
  holder_id some_holder() {
    const holder_id helpers = last_helper_ - most_holders;
    if (helpers == 0 || dice_.one_in(2)) return 1 + dice_.below(most_holders);
    return last_helper_ - dice_.below(std::min<holder_id>(helpers, 4));
  }
  void open_to(holder_id to) {
    if (lines_.size() <= 6) open_line(to);
  }
  void open_line(holder_id to) {
    const line_id line = ++last_;
    lines_.emplace(line, line_state{to, {}});
    plan_.opened(line, to);
  }
  line_id some_line() {
    if (lines_.empty()) return 0;
    return std::next(lines_.begin(), static_cast<int>(dice_.below(lines_.size())))->first;
  }
  void close() { close_line(some_line()); }
  void close_line(line_id line) {
    if (line == 0) return;
    for (const chunk_ask& one : lines_.at(line).second) {
      const auto of = pulls_.find(one.pull);
      if (of != pulls_.end()) of->second.under_way.erase(one.at);
    }
    lines_.erase(line);
    plan_.closed(line);
  }
  void lose() { lose_one(some_holder()); }
  void lose_one(holder_id whom) {
    std::vector<line_id> gone;
    for (const auto& [line, is] : lines_) {
      if (is.first == whom) gone.push_back(line);
    }
    for (const line_id one : gone) close_line(one);
    plan_.lost(whom);
    for (auto at = pulls_.begin(); at != pulls_.end();) {
      auto& [number, of] = *at++;
      if (of.holders.erase(whom) == 0) continue;
      of.helpers.erase(whom);
      if (of.holders.empty()) {
        end(number, pull_end::unreachable);
        continue;
      }
      end_if_lacking(number);
    }
  }
  void end(pull_id number, pull_end how) {
    if (how != pull_end::whole) note_here(number, pulls_.at(number));
    pulls_.erase(number);
    due_.emplace(number, how);
  }
  void note_here(pull_id number, const model_pull& of) {
    manta::bulk::chunks_here& all = was_here_[number];
    all.resize(static_cast<std::size_t>(of.chunks()));
    for (const std::uint64_t at : of.here) all[static_cast<std::size_t>(at / chunk)] = true;
  }
  void drop() {
    if (pulls_.empty()) return;
    const pull_id number = pulls_.begin()->first;
    plan_.drop(number);
    pulls_.erase(number);
  }
  // A line with something under way, and that. Nothing: there is none.
  std::pair<line_id, chunk_ask> take_front() {
    std::vector<line_id> busy;
    for (const auto& [line, is] : lines_) {
      if (!is.second.empty()) busy.push_back(line);
    }
    if (busy.empty()) return {};
    const line_id line = busy[dice_.below(busy.size())];
    const chunk_ask out = lines_.at(line).second.front();
    lines_.at(line).second.pop_front();
    const auto of = pulls_.find(out.pull);
    if (of != pulls_.end()) of->second.under_way.erase(out.at);
    return {line, out};
  }
  void answer() {
    const auto [line, asked] = take_front();
    if (line == 0) return;
    plan_.came(line);
    const auto of = pulls_.find(asked.pull);
    if (of == pulls_.end()) return;
    of->second.here.insert(asked.at);
    if (of->second.here.size() == of->second.chunks()) end(asked.pull, pull_end::whole);
  }
  void lack() {
    const auto [line, asked] = take_front();
    if (line == 0) return;
    plan_.lacks(line);
    const auto of = pulls_.find(asked.pull);
    if (of == pulls_.end()) return;
    if (leaves(of, lines_.at(line).first)) return;
    of->second.lacking.emplace(lines_.at(line).first, asked.at);
    if (!of->second.has_somebody(asked.at)) end(asked.pull, pull_end::not_there);
  }
  // A helper is not asked twice.
  bool leaves(std::map<pull_id, model_pull>::iterator of, holder_id whom) {
    if (of->second.helpers.erase(whom) == 0) return false;
    of->second.holders.erase(whom);
    if (of->second.holders.empty()) {
      end(of->first, pull_end::unreachable);
    } else {
      end_if_lacking(of->first);
    }
    return true;
  }
  void end_if_lacking(pull_id number) {
    const model_pull& of = pulls_.at(number);
    for (std::uint64_t at = 0; at < of.bytes; at += chunk) {
      if (of.here.contains(at) || of.has_somebody(at)) continue;
      return end(number, pull_end::not_there);
    }
  }
  // Of a helper of its own; sometimes of one that is not to be asked.
  void tell() {
    const auto [line, asked] = take_front();
    if (line == 0) return;
    const auto of = pulls_.find(asked.pull);
    if (dice_.one_in(4) || of == pulls_.end()) return plan_.told(line, 0);
    const holder_id helper = ++last_helper_;
    of->second.holders.insert(helper);
    of->second.helpers.insert(helper);
    plan_.told(line, helper);
    ++told;
    if (dice_.one_in(2)) open_line(helper);
  }
  void damage() {
    const auto [line, asked] = take_front();
    if (line == 0) return;
    plan_.wrong(line);
    const auto of = pulls_.find(asked.pull);
    if (of == pulls_.end()) return;
    if (leaves(of, lines_.at(line).first)) return;
    if (++of->second.wrong[asked.at] == 2) return end(asked.pull, pull_end::damaged);
    const std::pair<holder_id, std::uint64_t> one{lines_.at(line).first, asked.at};
    const bool is_new = of->second.lacking.insert(one).second;
    if (is_new && !of->second.has_somebody(asked.at)) of->second.lacking.erase(one);
  }
  void asked(const chunk_ask& one) {
    REQUIRE(lines_.contains(one.line));
    auto& [to, under_way] = lines_.at(one.line);
    REQUIRE(under_way.size() < credits);
    REQUIRE(pulls_.contains(one.pull));
    model_pull& of = pulls_.at(one.pull);
    REQUIRE(one.at % chunk == 0);
    REQUIRE(one.at < of.bytes);
    REQUIRE(one.bytes == std::min<std::uint64_t>(chunk, of.bytes - one.at));
    REQUIRE_FALSE(of.here.contains(one.at));
    REQUIRE(of.under_way.insert(one.at).second);
    REQUIRE(of.is_asked(to, one.at));
    under_way.push_back(one);
  }
  void ended(const ended_pull& one) {
    const auto due = due_.find(one.pull);
    REQUIRE(due != due_.end());
    REQUIRE(due->second == one.how);
    REQUIRE(one.here == was_here_[one.pull]);
    due_.erase(due);
    ++(one.how == pull_end::whole ? whole : others);
  }

  dice dice_;
  plan plan_{small_chunks};
  std::uint64_t last_ = 0;
  holder_id last_helper_ = most_holders;
  std::map<pull_id, model_pull> pulls_;
  std::map<line_id, line_state> lines_;
  std::map<pull_id, pull_end> due_;
  std::map<pull_id, manta::bulk::chunks_here> was_here_;  // of those that are not whole
};

constexpr std::array<holder_id, 1> one_holder{1};

}  // namespace

TEST_CASE("a plan does what its model says, whatever happens to lines and holders", "[bulk]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  int whole = 0;
  int others = 0;
  int told = 0;
  for (int run = 0; run < repeats(60, 2000); ++run) {
    CAPTURE(run);
    model m(seed + static_cast<std::uint64_t>(run));
    for (int i = 0; i < 300; ++i) {
      m.step();
      m.look();
    }
    m.finish();
    whole += m.whole;
    others += m.others;
    told += m.told;
  }
  CHECK(whole > 50);
  CHECK(others > 20);
  CHECK(told > scaled(100));
}

TEST_CASE("what was under way on a line that ends is asked once more and nothing else", "[bulk]") {
  plan p(small_chunks);
  p.opened(1, 1);
  p.add(7, 5 * chunk, one_holder);
  REQUIRE(p.next().value().at == 0);
  REQUIRE(p.next().value().at == chunk);
  REQUIRE_FALSE(p.next().has_value());  // no credits
  p.came(1);
  p.closed(1);
  REQUIRE_FALSE(p.next().has_value());
  p.opened(2, 1);
  CHECK(p.next().value().at == chunk);
  CHECK(p.next().value().at == 2 * chunk);
}

TEST_CASE("helpers alone are asked until there is none and then who was asked first", "[bulk]") {
  plan p(small_chunks);
  p.opened(1, 1);
  p.opened(2, 2);
  p.add(7, 3 * chunk, one_holder);
  REQUIRE(p.next().value().line == 1);
  p.told(1, 2);
  CHECK(p.next().value() == chunk_ask{2, 7, 0, chunk});
  CHECK_FALSE(p.is_here(7, 0, chunk));
  p.came(2);
  CHECK(p.is_here(7, 0, chunk));
  CHECK_FALSE(p.is_here(7, 0, chunk + 1));
  CHECK_FALSE(p.is_here(7, 2 * chunk, 2 * chunk));
  CHECK(p.next().value().line == 2);
  CHECK(p.next().value().line == 2);
  CHECK_FALSE(p.needs(1));
  p.lacks(2);
  CHECK_FALSE(p.needs(2));
  CHECK(p.next().value() == chunk_ask{1, 7, chunk, chunk});
  p.closed(2);
  CHECK(p.next().value() == chunk_ask{1, 7, 2 * chunk, chunk});
}

TEST_CASE("nothing of a helper is kept when it is done without", "[bulk]") {
  plan p(small_chunks);
  p.opened(1, 1);
  p.add(7, 100 * chunk, one_holder);
  holder_id helper = 2;
  for (; helper < 8; ++helper) {
    REQUIRE(p.next().value().line == 1);
    p.told(1, helper);
    p.opened(helper, helper);
    REQUIRE(p.next().value().line == helper);
    if (helper % 2 == 0) p.lacks(helper);
    p.closed(helper);
    p.lost(helper);
    CHECK(p.wanted() <= 1);
  }
}

TEST_CASE("what has come of an object that nobody gives goes on with another holder", "[bulk]") {
  plan p(small_chunks);
  p.opened(1, 1);
  p.add(7, 4 * chunk - 1, one_holder);
  REQUIRE(p.next().value().at == 0);
  REQUIRE(p.next().value().at == chunk);
  p.came(1);
  REQUIRE(p.next().value().at == 2 * chunk);
  p.closed(1);
  p.lost(1);
  const ended_pull end = p.next_end().value();
  REQUIRE(end.how == pull_end::unreachable);
  CHECK(end.here == manta::bulk::chunks_here{true, false, false, false});
  const std::array<holder_id, 1> other{2};
  p.opened(2, 2);
  p.add(7, 4 * chunk - 1, other, end.here);
  CHECK(p.is_here(7, 0, chunk));
  for (const std::uint64_t at : {chunk, 2 * chunk, 3 * chunk}) {
    const std::uint32_t bytes = at == 3 * chunk ? chunk - 1 : chunk;
    REQUIRE(p.next().value() == chunk_ask{2, 7, at, bytes});
    p.came(2);
  }
  CHECK(p.next_end().value().how == pull_end::whole);
  CHECK(p.wanted() == 0);
}

TEST_CASE("an object of which all has come is whole at once and of another size has nothing",
          "[bulk]") {
  plan p(small_chunks);
  p.opened(1, 1);
  p.add(7, 2 * chunk, one_holder, {true, true});
  CHECK(p.next_end().value().how == pull_end::whole);
  CHECK_FALSE(p.next().has_value());
  p.add(8, 2 * chunk, one_holder, {true, true, true});
  CHECK(p.next().value().at == 0);
  CHECK(p.next().value().at == chunk);
  p.came(1);
  p.came(1);
  const ended_pull end = p.next_end().value();
  CHECK(end.how == pull_end::whole);
  CHECK(end.here.empty());
}

TEST_CASE("a wrong chunk is asked of another holder where there is one", "[bulk]") {
  plan p(small_chunks);
  const std::array<holder_id, 2> two{1, 2};
  p.opened(1, 1);
  p.add(7, chunk, two);
  REQUIRE(p.next().value().line == 1);
  p.opened(2, 2);
  p.wrong(1);
  CHECK(p.next().value().line == 2);
  p.wrong(2);
  CHECK(p.next_end().value().how == pull_end::damaged);
}

}  // namespace bulk_plan_test
