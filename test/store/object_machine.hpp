// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "constants.hpp"
#include "exec/support.hpp"
#include "store/object_table.hpp"

// Who performs what a table of objects decides, without memory and disk.

namespace test_store {

using manta::store::holder;
using manta::store::object_id;
using manta::store::object_table;
using manta::store::place;
using manta::store::request_id;
using manta::store::segment_id;
using manta::store::spilled;
using manta_test::dice;
using manta_test::kib;
using manta_test::mib;
namespace act = manta::store::act;

// Memory, disk and workers that do what a table says, some of it later; what lies in a place is
// the number of an object. Every claim of the table that can be checked here is.
class machine {
 public:
  object_table table;
  bool is_disk_full = false;
  bool is_memory_short = false;
  std::map<request_id, std::vector<place>> granted;
  std::map<request_id, manta::error> refused;
  std::set<object_id> lost;
  std::set<object_id> evicted;
  std::map<segment_id, std::uint64_t> segments;
  std::map<segment_id, holder> shelf;  // what workers may use again
  std::uint64_t spills = 0;
  std::uint64_t moves = 0;
  int asked_back = 0;

  explicit machine(std::uint64_t budget) : table(budget) {}

  void write(const place& at, object_id object) {
    const auto [was, is_new] = memory_.emplace(std::pair(at.segment, at.at), object);
    REQUIRE(is_new);
  }
  object_id read(const place& at) const {
    const auto found = memory_.find({at.segment, at.at});
    return found == memory_.end() ? 0 : found->second;
  }
  // Takes what the table says; what takes time is kept for later.
  void take() {
    for (auto all = table.take(); !all.empty(); all = table.take()) {
      for (act::any& one : all) std::visit([this](auto& what) { perform(what); }, one);
    }
  }
  bool is_busy() const { return !later_.empty(); }
  // One that is under way ends; they need not end in order.
  void finish_one(dice& roll) {
    if (later_.empty()) return;
    std::swap(later_[roll.below(later_.size())], later_.back());
    const act::any one = later_.back();
    later_.pop_back();
    std::visit([this](const auto& what) { finish(what); }, one);
    take();
  }
  void finish_all(dice& roll) {
    while (is_busy()) finish_one(roll);
  }
  void break_disk() { disk_.clear(); }
  bool is_empty(segment_id segment) const {
    const auto first = memory_.lower_bound({segment, 0});
    return first == memory_.end() || first->first.first != segment;
  }

 private:
  void perform(const act::granted& is) {
    REQUIRE(granted.emplace(is.request, is.at).second);
    REQUIRE_FALSE(refused.contains(is.request));
  }
  void perform(const act::refused& is) {
    REQUIRE(refused.emplace(is.request, is.why).second);
    REQUIRE_FALSE(granted.contains(is.request));
  }
  void perform(const act::drop& is) {
    REQUIRE(std::ranges::none_of(memory_,
                                 [&](const auto& one) { return one.first.first == is.segment; }));
    segments.erase(is.segment);
  }
  void perform(const act::freed& is) { memory_.erase({is.at.segment, is.at.at}); }
  void perform(const act::forget& is) { disk_.erase(is.at.at); }
  void perform(const act::ask_back&) {
    ++asked_back;
    for (const auto& [one, of] : shelf) table.segment_gone(one);
    shelf.clear();
    table.asked_back();
  }
  void perform(const act::offer& is) {
    REQUIRE(is_empty(is.segment));
    REQUIRE(shelf.emplace(is.segment, is.of).second);
  }
  void perform(const act::evicted& is) { evicted.insert(is.object); }
  void perform(const act::lost& is) { lost.insert(is.object); }
  template <class Slow>
  void perform(const Slow& is) {
    later_.emplace_back(is);
  }

  void finish(const act::reserve& is) {
    if (!is_memory_short) segments[is.segment] = is.bytes;
    using end = object_table::reserved_as;
    table.reserved(is.segment, is_memory_short ? end::no_memory : end::made);
  }
  void finish(const act::move& is) {
    REQUIRE(read(is.from) == is.object);
    write(is.to, is.object);
    ++moves;
    table.moved(is.object);
  }
  void finish(const act::spill& is) {
    REQUIRE(read(is.from) == is.object);
    if (is_disk_full) return table.spilled_to(is.object, std::nullopt);
    const spilled at{1, next_on_disk_++, is.from.bytes, 0};
    disk_[at.at] = is.object;
    ++spills;
    table.spilled_to(is.object, at);
  }
  void finish(const act::restore& is) {
    const auto found = disk_.find(is.from.at);
    const bool is_right = found != disk_.end() && found->second == is.object;
    write(is.to, is.object);
    table.restored(is.object, is_right);
  }
  template <class Quick>
  void finish(const Quick&) {
    FAIL("takes no time");
  }

  std::map<std::pair<segment_id, std::uint64_t>, object_id> memory_;
  std::map<std::uint64_t, object_id> disk_;
  std::vector<act::any> later_;
  std::uint64_t next_on_disk_ = 1;
};

// A machine whose node makes and reads objects, all at once.
class store_node : public machine {
 public:
  using machine::machine;
  dice roll{1};

  bool make(object_id object, std::uint64_t bytes) {
    const request_id asked = ask(object, bytes);
    finish_all(roll);
    if (!granted.contains(asked)) return false;
    write(granted.at(asked)[0], object);
    table.seal(object);
    take();
    return true;
  }
  request_id ask(object_id object, std::uint64_t bytes, holder who = 0) {
    table.create(++requests_, object, bytes, who);
    take();
    return requests_;
  }
  request_id want(std::vector<object_id> objects, holder who = 0) {
    table.pin(++requests_, std::move(objects), who);
    take();
    return requests_;
  }
  bool pin(object_id object, holder who = 0) {
    const request_id asked = want({object}, who);
    finish_all(roll);
    return granted.contains(asked) && read(granted.at(asked)[0]) == object;
  }
  request_id ask_segment(std::uint64_t bytes, holder worker) {
    table.create_segment(++requests_, bytes, worker);
    take();
    return requests_;
  }
  segment_id worker_segment(std::uint64_t bytes, holder worker) {
    const request_id asked = ask_segment(bytes, worker);
    finish_all(roll);
    if (!granted.contains(asked)) return 0;
    segments[granted.at(asked)[0].segment] = bytes;
    return granted.at(asked)[0].segment;
  }

 private:
  request_id requests_ = 0;
};

}  // namespace test_store
