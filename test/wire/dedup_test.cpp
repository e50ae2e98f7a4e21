// SPDX-License-Identifier: Apache-2.0
#include "wire/dedup.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <vector>

#include <catch2/catch.hpp>

#include "exec/support.hpp"
#include "wire/outbox.hpp"

namespace {

using manta::wire::dedup;
using manta::wire::numbered;
using manta::wire::outbox;
using manta_test::dice;
using manta_test::run_seed;
using manta_test::scaled;
using verdict = dedup::verdict;
using bytes = std::vector<std::byte>;

numbered at(std::uint64_t number, std::uint64_t acknowledged = 0, std::uint64_t epoch = 1) {
  return {{epoch, number}, epoch, number, acknowledged};
}

// The same by maps that forget nothing but the answers that were acknowledged.
class model {
 public:
  explicit model(const dedup::limits& most) : most_(most) {}

  verdict look(const numbered& what) {
    if (what.epoch < epoch_) return verdict::stale;
    if (what.number == 0 || what.acknowledged >= what.number) return verdict::wrong;
    if (what.epoch > epoch_) *this = model(most_, what.epoch);
    for (std::uint64_t i = acknowledged_ + 1; i <= what.acknowledged; ++i) {
      if (!answers_.contains(i)) return verdict::wrong;
    }
    acknowledged_ = std::max(acknowledged_, what.acknowledged);
    if (what.number <= acknowledged_) return verdict::over;
    if (what.number > ids_.size() + 1) return verdict::early;
    if (!ids_.contains(what.number)) {
      if (ids_.size() - acknowledged_ >= most_.requests || kept() >= most_.bytes) {
        return verdict::full;
      }
      ids_[what.number] = what.request;
      return verdict::fresh;
    }
    if (ids_[what.number] != what.request) return verdict::wrong;
    return answers_.contains(what.number) ? verdict::answered : verdict::under_way;
  }
  bool answer(std::uint64_t epoch, std::uint64_t number, const bytes& with) {
    if (epoch != epoch_ || !ids_.contains(number)) return false;
    return answers_.emplace(number, with).second;
  }
  std::size_t kept() const {
    std::size_t sum = 0;
    for (const auto& [number, answer] : answers_) {
      if (number > acknowledged_) sum += answer.size();
    }
    return sum;
  }
  const bytes& answer_of(std::uint64_t number) const { return answers_.at(number); }
  std::uint64_t epoch() const { return epoch_; }
  std::uint64_t last() const { return ids_.size(); }

 private:
  model(const dedup::limits& most, std::uint64_t epoch) : most_(most), epoch_(epoch) {}

  dedup::limits most_;
  std::uint64_t epoch_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::map<std::uint64_t, manta::base::id> ids_;
  std::map<std::uint64_t, bytes> answers_;
};

}  // namespace

TEST_CASE("a request is fresh once", "[wire][dedup]") {
  dedup seen;
  CHECK(seen.look(at(1)) == verdict::fresh);
  CHECK(seen.look(at(1)) == verdict::under_way);
  CHECK(seen.look(at(3)) == verdict::early);
  CHECK(seen.answer(1, 1, bytes(5)));
  CHECK_FALSE(seen.answer(1, 1, bytes(6)));
  CHECK(seen.look(at(1)) == verdict::answered);
  CHECK(seen.answer_of(1).size() == 5);
  CHECK(seen.look(at(2, 1)) == verdict::fresh);  // its sender has the first answer
  CHECK(seen.look(at(1)) == verdict::over);
  CHECK(seen.bytes() == 0);
  CHECK(seen.remembered() == 1);
}

TEST_CASE("a later epoch begins anew, an earlier one is refused", "[wire][dedup]") {
  dedup seen;
  CHECK(seen.look(at(1, 0, 5)) == verdict::fresh);
  CHECK(seen.look(at(1, 0, 4)) == verdict::stale);
  CHECK(seen.look(at(1, 0, 6)) == verdict::fresh);
  CHECK_FALSE(seen.answer(5, 1, bytes(1)));  // of the life before
  CHECK(seen.look(at(2, 0, 5)) == verdict::stale);
  CHECK(seen.look(at(1, 0, 6)) == verdict::under_way);
}

TEST_CASE("what no honest sender says is wrong", "[wire][dedup]") {
  dedup seen;
  CHECK(seen.look(at(0)) == verdict::wrong);
  CHECK(seen.look(at(1, 1)) == verdict::wrong);
  CHECK(seen.look(at(1)) == verdict::fresh);
  CHECK(seen.look(at(2, 1)) == verdict::wrong);  // has an answer that was not given
  numbered other = at(1);
  other.request.low += 7;
  CHECK(seen.look(other) == verdict::wrong);
  CHECK(seen.look(at(~std::uint64_t{0}, ~std::uint64_t{0} - 1)) == verdict::wrong);
}

TEST_CASE("a window is bounded by count and by bytes", "[wire][dedup]") {
  dedup seen(dedup::limits{2, 100});
  CHECK(seen.look(at(1)) == verdict::fresh);
  CHECK(seen.look(at(2)) == verdict::fresh);
  CHECK(seen.look(at(3)) == verdict::full);
  CHECK(seen.answer(1, 1, bytes(200)));
  CHECK(seen.answer(1, 2, bytes(1)));
  CHECK(seen.look(at(3, 1)) == verdict::fresh);
  CHECK(seen.look(at(4, 2)) == verdict::fresh);
  CHECK(seen.answer(1, 3, bytes(100)));
  CHECK(seen.look(at(5, 2)) == verdict::full);
  CHECK(seen.look(at(3, 2)) == verdict::answered);  // what is there is answered all the same
}

TEST_CASE("random requests and answers are as a model says", "[wire][dedup]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  dice roll(seed);
  const dedup::limits most{8, 100};
  dedup seen(most);
  model expected(most);
  int counts[8] = {};
  for (int step = 0; step < scaled(200'000); ++step) {
    const std::uint64_t epoch = expected.epoch() + (roll.one_in(500) ? 1 : 0);
    const std::uint64_t near = expected.last() + 2;
    if (roll.one_in(3)) {
      const std::uint64_t number = near - std::min<std::uint64_t>(near, roll.below(12));
      const bytes answer(roll.below(60), static_cast<std::byte>(number));
      REQUIRE(seen.answer(epoch, number, answer) == expected.answer(epoch, number, answer));
      continue;
    }
    const std::uint64_t number = near - std::min<std::uint64_t>(near, roll.below(12));
    const std::uint64_t behind = number - std::min<std::uint64_t>(number, roll.below(10));
    numbered what = at(number, behind, roll.one_in(100) && epoch > 0 ? epoch - 1 : epoch);
    what.request.low += roll.one_in(200) ? 1000 : 0;
    const verdict is = seen.look(what);
    REQUIRE(is == expected.look(what));
    ++counts[static_cast<int>(is)];
    REQUIRE(seen.bytes() == expected.kept());
    if (is == verdict::answered) {
      REQUIRE(std::ranges::equal(seen.answer_of(number), expected.answer_of(number)));
    }
  }
  for (std::size_t which = 0; which < std::size(counts); ++which) {
    CAPTURE(which);
    CHECK(counts[which] > 10);
  }
}

TEST_CASE("an outbox sends in order, again after a while, and on a new link", "[wire][outbox]") {
  using namespace std::chrono_literals;
  outbox::limits most;
  most.requests = 3;
  most.first_wait = 10ms;
  most.longest_wait = 15ms;
  outbox out(most);
  manta::base::time_point now{};
  for (std::uint64_t i = 1; i <= 3; ++i) REQUIRE(*out.add({0, i}, bytes(i)) == i);
  const auto refused = out.add({0, 4}, bytes(4));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == manta::errc::store_full);
  const auto send_all = [&] {
    std::vector<std::uint64_t> numbers;
    while (const auto* const one = out.next()) {
      numbers.push_back(one->number);
      out.sent(now);
    }
    return numbers;
  };
  using list = std::vector<std::uint64_t>;
  CHECK(send_all() == list{1, 2, 3});
  CHECK(out.due() == now + 10ms);
  out.on_time(now + 9ms);
  CHECK(send_all().empty());
  CHECK_FALSE(out.on_answer(2, {0, 3}, now));  // another one's id
  CHECK(out.on_answer(2, {0, 2}, now));
  CHECK_FALSE(out.on_answer(2, {0, 2}, now));  // once more
  CHECK(out.acknowledged() == 0);
  now += 10ms;
  out.on_time(now);
  CHECK(out.next()->sending == 1);
  CHECK(send_all() == list{1, 3});
  CHECK(out.due() == now + 15ms);  // twice as long, cut
  CHECK(out.on_answer(1, {0, 1}, now));
  CHECK(out.acknowledged() == 2);
  CHECK(out.due() == now + 10ms);
  out.restart();
  CHECK(send_all() == list{3});
  CHECK(out.on_answer(3, {0, 3}, now));
  CHECK(out.unanswered() == 0);
  CHECK_FALSE(out.due().has_value());
}
