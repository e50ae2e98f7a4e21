// SPDX-License-Identifier: Apache-2.0
// The table of objects against random events, with a model of what must hold.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "store/object_machine.hpp"

namespace {

using manta::errc;
using namespace test_store;

// Random events at a node and three workers that die now and then.
class storm {
 public:
  store_node n;
  std::uint64_t used_again = 0;

  storm(std::uint64_t seed, std::uint64_t budget) : n(budget), budget_(budget) {
    n.roll = dice(seed);
  }

  void step() {
    const auto who = static_cast<holder>(n.roll.below(4));
    switch (n.roll.below(24)) {
      case 0:
      case 1:
      case 2:
      case 3:
        begin_make(who);
        break;
      case 4:
      case 5:
      case 6:
      case 7:
        begin_read(who);
        break;
      case 8:
      case 9:
      case 10:
      case 11:
        end_read(n.roll.below(reads_.size() + 1));
        break;
      case 12:
        erase();
        break;
      case 13:
        n.table.keep_as_cache(any_object());
        break;
      case 14:
        add_by_worker(1 + who % 3);
        break;
      case 15:
        give_up();
        break;
      case 16:
        n.roll.one_in(8) ? die(1 + who % 3) : n.table.retry();
        break;
      case 17:
        n.is_disk_full = n.roll.one_in(3);
        break;
      case 18:
        keep_segment(1 + who % 3);
        break;
      case 19:
        use_again();
        break;
      default:
        n.finish_one(n.roll);
        break;
    }
    n.take();
    answers();
    check();
  }

  // Everybody stops reading and making: then everything that waits has to be answered.
  void calm() {
    n.is_disk_full = false;
    for (int quiet = 0; quiet < 3;) {
      while (!reads_.empty()) end_read(0);
      n.finish_all(n.roll);
      give_back();
      n.table.retry();
      n.take();
      answers();
      n.take();
      quiet = reads_.empty() && !n.is_busy() ? quiet + 1 : 0;
    }
    check();
    for (const auto& [asked, what] : wanted_) {
      if (const auto why = n.table.give_up(asked)) FAIL_CHECK(why->message());
    }
    CHECK(n.table.waiting() == 0);
  }
  // All that is needed is there, and then nothing is left.
  void end() {
    for (const object_id one : std::set(needed_)) {
      forget_evicted();
      if (!needed_.contains(one)) continue;
      INFO("object " << one);
      const request_id asked = n.want({one});
      while (n.is_busy() || n.asked_back != 0) {
        n.finish_all(n.roll);
        give_back();
        n.take();
      }
      if (const auto why = n.table.give_up(asked)) FAIL(why->message());
      REQUIRE(n.granted.contains(asked));
      REQUIRE(n.read(n.granted.at(asked)[0]) == one);
      n.table.unpin(one, 0);
      n.take();
    }
    for (const object_id one : known_) n.table.erase(one);
    for (holder who = 1; who < 4; ++who) n.table.holder_gone(who);
    n.take();
    n.finish_all(n.roll);
    n.table.tidy();
    n.take();
    CHECK(n.table.live_bytes() == 0);
    CHECK(n.table.reserved_bytes() == 0);
    CHECK(n.segments.empty());
    CHECK(n.table.is_sound());
  }
  std::size_t made() const { return known_.size(); }
  std::size_t answered() const { return n.granted.size(); }

 private:
  struct reading {
    object_id object;
    holder who;
    place at;
  };
  struct wanting {
    std::vector<object_id> objects;  // none: room for `object`
    object_id object = 0;
    holder who = 0;
  };

  object_id any_object() { return known_.empty() ? 0 : known_[n.roll.below(known_.size())]; }
  void begin_make(holder who) {
    const object_id object = ++objects_;
    const std::uint64_t most = n.roll.one_in(4) ? budget_ / 4 : budget_ / 100;
    wanted_[n.ask(object, 1 + n.roll.below(most), who)] = {{}, object, who};
  }
  void begin_read(holder who) {
    std::vector<object_id> all;
    for (std::size_t i = 1 + n.roll.below(3); i > 0; --i) {
      if (const object_id one = any_object()) all.push_back(one);
    }
    if (all.empty()) return;
    wanted_[n.want(all, who)] = {all, 0, who};
  }
  void end_read(std::size_t i) {
    if (i >= reads_.size()) return;
    std::swap(reads_[i], reads_.back());
    const reading was = reads_.back();
    reads_.pop_back();
    REQUIRE(n.read(was.at) == was.object);
    n.table.unpin(was.object, was.who);
  }
  void erase() {
    const object_id one = any_object();
    if (one == 0) return;
    n.table.erase(one);
    needed_.erase(one);
    std::erase(known_, one);
  }
  void add_by_worker(holder who) {
    auto& its = segments_[who];
    if (its.empty() || n.roll.one_in(20)) {
      if (its.size() < 3) wanted_[n.ask_segment(budget_ / 20, who)] = {{}, 0, who};
      return;
    }
    auto& [segment, used] = its.back();
    const std::uint64_t bytes = 64 * (1 + n.roll.below(1000));
    if (used + bytes > budget_ / 20) return;
    const object_id object = ++objects_;
    const place at{segment, used, bytes};
    used += bytes;
    n.write(at, object);
    REQUIRE(n.table.add(object, at, who));
    known_.push_back(object);
    needed_.insert(object);
  }
  // A worker has nothing there any more; others may.
  void keep_segment(holder who) {
    auto& its = segments_[who];
    if (its.empty()) return;
    n.table.segment_kept(its.back().first);
    its.pop_back();
  }
  void use_again() {
    if (n.shelf.empty()) return;
    const auto [segment, who] = *n.shelf.begin();
    n.shelf.erase(n.shelf.begin());
    segments_[who].emplace_back(segment, 0);
    ++used_again;
  }
  // As workers do that are asked.
  void give_back() {
    if (n.asked_back == 0) return;
    n.asked_back = 0;
    for (auto& [who, its] : segments_) {
      std::erase_if(its, [&](const auto& one) {
        if (!n.is_empty(one.first)) return false;
        n.table.segment_gone(one.first);
        return true;
      });
    }
  }
  void give_up() {
    if (wanted_.empty()) return;
    const auto one =
        std::next(wanted_.begin(), static_cast<std::ptrdiff_t>(n.roll.below(wanted_.size())));
    const auto why = n.table.give_up(one->first);
    REQUIRE(why);  // those that are answered are not here any more
    CHECK(why->code() == errc::store_full);
    wanted_.erase(one);
  }
  void die(holder who) {
    std::erase_if(reads_, [&](const reading& one) { return one.who == who; });
    std::erase_if(wanted_, [&](const auto& one) { return one.second.who == who; });
    segments_[who].clear();
    std::erase_if(n.shelf, [who](const auto& one) { return one.second == who; });
    n.table.holder_gone(who);
  }
  void forget_evicted() {
    std::erase_if(known_, [&](object_id id) { return n.evicted.contains(id); });
    for (const object_id one : n.evicted) needed_.erase(one);
    n.evicted.clear();
  }
  void answers() {
    forget_evicted();
    for (auto one = wanted_.begin(); one != wanted_.end();) {
      const auto got = n.granted.find(one->first);
      if (got != n.granted.end()) {
        arrived(one->second, got->second);
      } else if (const auto no = n.refused.find(one->first); no != n.refused.end()) {
        // Only what was erased or evicted meanwhile is refused.
        REQUIRE(std::ranges::any_of(one->second.objects,
                                    [&](object_id id) { return !needed_.contains(id); }));
      } else {
        ++one;
        continue;
      }
      one = wanted_.erase(one);
    }
  }
  void arrived(const wanting& what, const std::vector<place>& at) {
    if (!what.objects.empty()) {
      REQUIRE(at.size() == what.objects.size());
      for (std::size_t i = 0; i < at.size(); ++i) {
        REQUIRE(n.read(at[i]) == what.objects[i]);
        reads_.push_back({what.objects[i], what.who, at[i]});
      }
    } else if (what.object != 0) {
      n.write(at[0], what.object);
      n.table.seal(what.object);
      known_.push_back(what.object);
      needed_.insert(what.object);
    } else {
      segments_[what.who].emplace_back(at[0].segment, 0);
      n.segments[at[0].segment] = at[0].bytes;
    }
  }
  void check() {
    REQUIRE(n.table.is_sound());
    REQUIRE(n.lost.empty());
    const bool is_kept = std::ranges::all_of(
        reads_, [&](const reading& one) { return n.read(one.at) == one.object; });
    REQUIRE(is_kept);
  }

  std::uint64_t budget_;
  std::vector<object_id> known_;
  std::set<object_id> needed_;
  std::vector<reading> reads_;
  std::map<request_id, wanting> wanted_;
  std::map<holder, std::vector<std::pair<segment_id, std::uint64_t>>> segments_;
  object_id objects_ = 0;
};

}  // namespace

TEST_CASE("a store does what its makers and readers rely on, whatever happens", "[store]") {
  const std::uint64_t seed = manta_test::run_seed();
  CAPTURE(seed);
  std::uint64_t spills = 0;
  std::uint64_t moves = 0;
  std::uint64_t used_again = 0;
  for (std::uint64_t round = 0; round < 12; ++round) {
    CAPTURE(round);
    storm s(seed + round, (round % 3 == 0 ? 40 : 200) * mib);
    for (int part = 0; part < 3; ++part) {
      for (int i = 0; i < 800; ++i) s.step();
      s.calm();
    }
    CHECK(s.answered() > 300);
    s.end();
    spills += s.n.spills;
    moves += s.n.moves;
    used_again += s.used_again;
  }
  CHECK(spills > 100);
  CHECK(moves > 0);
  CHECK(used_again > 10);
}
