// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp that are two drivers of one cluster: what the first one lends the
// other has when the first is lost.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/membership.hpp"
#include "cluster/settling.hpp"

namespace settling {

namespace {

constexpr std::size_t lent_count = std::size_t{1} << 20U;  // 8 MiB
counted_words lent_from(std::uint64_t from) { return counted_from(lent_count, from); }
bool are_lent(const counted_words& all, std::uint64_t from) {
  return are_counted(all, lent_count, from);
}

// Until somebody ends it, which it notes; no worker waits meanwhile.
manta::coroutine<long> waits_lent(std::string key) {
  const counter end(0, key + ".end");
  co_await manta::kv::put(key, 1);
  auto puts = manta::kv::watch<int>("nothing");
  const auto change = co_await puts.next();
  co_return *change.value;
}

long squared_slowly(long x) {
  std::this_thread::sleep_for(1ms);  // the task's work: others have their share
  return x * x;
}

// What a driver has and another one is given.
struct estate {
  manta::future<long> known;
  manta::future<long> runs_here;   // where its owner is
  manta::future<long> runs_there;  // at the helper
  manta::future<counted_words> read;
  manta::future<counted_words> unread;
  counted_words held;
  manta::actor<counter> near;  // where its owner is
  manta::actor<counter> far;   // at the helper
};

// Lives at the helper, without a driver.
struct board {
  void lends(const estate& all) { kept = all; }
  bool is_lent() const { return kept.has_value(); }
  estate lent() const { return *kept; }
  // What a node that is no driver gets of the same: nothing where it has a value.
  std::vector<std::string> ends() const {
    return {thrown_by<manta::node_lost>(kept->runs_here),
            thrown_by<manta::node_lost>(kept->runs_there),
            thrown_by<manta::node_lost>(kept->unread),
            thrown_by<manta::actor_lost>(manta::remote<&counter::add>(kept->near, 1L))};
  }
  // For who has lent: an actor that it alone has then.
  void gives(const manta::actor<counter>& one) { gift = one; }
  std::optional<manta::actor<counter>> takes() { return std::exchange(gift, std::nullopt); }

  std::optional<estate> kept;
  std::optional<manta::actor<counter>> gift;
};

manta::actor_options named_at(const std::string& name, const std::string& node) {
  manta::actor_options out;
  out.name = name;
  out.where = manta::on_node(node);
  return out;
}

// Tasks of this driver that run wherever there is room. Whether all are right.
bool works(int count) {
  std::vector<manta::future<long>> all;
  for (int i = 0; i < count; ++i) all.push_back(manta::remote<squared_slowly>(i));
  bool is = true;
  for (long i = 0; i < count; ++i) {
    is = all[static_cast<std::size_t>(i)].get(long_enough) == i * i && is;
  }
  return is;
}

// What it has lent, as soon as it is.
std::optional<estate> borrow(std::optional<manta::actor<board>>& from) {
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (std::chrono::steady_clock::now() < limit) {
    from = manta::find_actor<board>("board");
    if (from.has_value() && manta::remote<&board::is_lent>(*from).get(long_enough)) {
      return manta::remote<&board::lent>(*from).get(long_enough);
    }
    std::this_thread::sleep_for(1ms);  // the other driver is about to
  }
  return std::nullopt;
}

// Whether it can be taken, be it soon: its actor's end is told to all, one after the other.
bool is_free_soon(const std::string& name) {
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (std::chrono::steady_clock::now() < limit) {
    try {
      const auto next = manta::spawn<counter>.with({.name = name})(1L);
      return manta::remote<&counter::add>(next, 1L).get(long_enough) == 2;
    } catch (const manta::name_taken&) {
      std::this_thread::sleep_for(1ms);
    }
  }
  return false;
}

}  // namespace

// Has work of its own until it is killed.
int lends(const manta::runtime& rt) {
  expect(has_joined(rt, "helper"), "the helper has joined");
  auto with = named_at("board", "helper");
  with.detached = true;
  const auto to = manta::spawn<board>.with(with)();
  estate mine;
  mine.known = manta::remote<squared>(7L);
  mine.runs_here = manta::remote<waits_lent>.with(at("first"))(std::string("here"));
  mine.runs_there = manta::remote<waits_lent>.with(at("helper"))(std::string("there"));
  mine.read = manta::remote<lent_from>.with(at("first"))(std::uint64_t{1});
  mine.unread = manta::remote<lent_from>.with(at("first"))(std::uint64_t{2});
  mine.held = lent_from(3);
  mine.near = manta::spawn<counter>.with(named_at("near", "first"))(4L);
  mine.far = manta::spawn<counter>.with(named_at("far", "helper"))(5L, std::string("far.end"));
  expect(comes("here") && comes("there"), "they run");
  manta::remote<&board::lends>(to, mine).get(long_enough);
  std::printf("%s\n", settling::is_right ? "lent" : "not all is lent");
  std::fflush(stdout);
  const auto limit = std::chrono::steady_clock::now() + 3 * long_enough;
  std::optional<manta::actor<counter>> gift;
  while (std::chrono::steady_clock::now() < limit) {
    expect(works(40), "its tasks");
    std::fflush(stdout);  // before it is killed
    if (gift.has_value()) continue;
    gift = manta::remote<&board::takes>(to).get(long_enough);
    if (gift.has_value()) manta::kv::put("gift", 1).get(long_enough);
  }
  return say("lends");
}

int borrows(const manta::runtime& rt) {
  expect(has_joined(rt, "helper") && has_joined(rt, "first"), "the others have joined");
  std::optional<manta::actor<board>> from;
  auto its = borrow(from);
  expect(its.has_value(), "what the other driver has lent");
  if (!its) return say("borrows");
  expect(its->known.get(long_enough) == 49, "a value");
  expect(are_lent(its->read.get(long_enough), 1) && are_lent(its->held, 3), "its arrays");
  expect(manta::remote<&counter::add>(its->near, 1L).get(long_enough) == 5, "an actor in it");
  expect(manta::remote<&counter::add>(its->far, 1L).get(long_enough) == 6, "one at the helper");
  const auto mine = one_at("helper", 1);
  {
    const auto gift = one_at("helper", 2, "gift.end");
    manta::remote<&board::gives>(*from, gift).get(long_enough);
    expect(comes("gift"), "it has taken one of this driver's actors");
  }
  expect(!manta::kv::get<int>("gift.end").get().has_value(), "which lives");
  const auto end = manta::monitor(its->near);
  std::printf("borrowed\n");
  std::fflush(stdout);
  // It is killed meanwhile, and perhaps has some of this driver's tasks.
  long calls = 1;
  while (!ends_within(end, 1ms)) {
    expect(works(20), "its own tasks");
    expect(manta::remote<&counter::add>(mine, 1L).get(long_enough) == ++calls, "its own actor");
  }
  expect(end.get(long_enough).reason == manta::end_reason::process_lost, "the actor's end");
  for (const auto& lost : {its->runs_here, its->runs_there}) {
    const std::string why = thrown_by<manta::node_lost>(lost);
    expect(has(why, "lost"), "a future: " + why);
  }
  const std::string unread = thrown_by<manta::node_lost>(its->unread);
  expect(has(unread, "lost"), "an array that nobody has read: " + unread);
  const std::string call =
      thrown_by<manta::actor_lost>(manta::remote<&counter::add>(its->near, 1L));
  expect(has(call, "lost"), "a call: " + call);
  expect(its->known.get(long_enough) == 49, "what was read stays");
  expect(are_lent(its->read.get(long_enough), 1) && are_lent(its->held, 3), "its arrays stay");
  for (const std::string& why : manta::remote<&board::ends>(*from).get(long_enough)) {
    expect(has(why, "lost"), "at the helper: " + why);
  }
  expect(comes("there.end"), "its task at the helper is stopped");
  expect(is_free_soon("near"), "a name is free");
  expect(comes("gift.end"), "what it alone had of this driver's");
  // What it has made elsewhere lives as long as others have it.
  expect(manta::remote<&counter::add>(its->far, 1L).get(long_enough) == 7, "at the helper, later");
  manta::kill(*from);
  its.reset();
  expect(comes("far.end"), "its actor at the helper ends");
  expect(is_free_soon("far"), "and its name is free");
  expect(works(20), "its own tasks, later");
  expect(manta::remote<&counter::add>(mine, 1L).get(long_enough) == ++calls, "its actor, later");
  return say("borrows");
}

}  // namespace settling
