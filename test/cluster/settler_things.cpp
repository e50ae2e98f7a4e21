// SPDX-License-Identifier: Apache-2.0
// Channels, semaphores and barriers that several nodes use: settler.cpp.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/settling.hpp"

namespace settling {

namespace {

using ints = manta::channel<int>;

// What a call ends with: its value, or the code of its error.
template <class F>
std::string outcome_of(F&& f) {
  try {
    return f();
  } catch (const manta::exception& e) {
    return manta::to_string(e.code());
  }
}
std::string text_of(const std::optional<int>& of) {
  return of.has_value() ? std::to_string(*of) : "none";
}

// ---- what runs elsewhere

void sends_some(const ints& to, int from, int count) {
  for (int i = 0; i < count; ++i) to.send(from + i);
}
long receives_some(const ints& from, int count) {
  long out = 0;
  for (int i = 0; i < count; ++i) {
    const int came = from.receive();
    if (came != i) return -1;
    out += came;
  }
  return out;
}
manta::coroutine<long> awaits_some(ints from, int count) {
  long out = 0;
  for (int i = 0; i < count; ++i) out += co_await from.async_receive();
  co_return out;
}
manta::coroutine<void> awaits_room(ints to, int count) {
  for (int i = 0; i < count; ++i) co_await to.async_send(i);
}
std::string takes_one(const ints& from, const std::string& began) {
  if (!began.empty()) manta::kv::put(began, 1).get();
  return outcome_of([&] { return text_of(from.next()); });
}
manta::coroutine<std::string> awaits_one(ints from, std::string began) {
  co_await manta::kv::put(began, 1);
  try {
    const auto came = co_await from.async_next();
    co_return text_of(came);
  } catch (const manta::exception& e) {
    co_return manta::to_string(e.code());
  }
}
// Everything that does not wait.
std::string looks_at(const ints& of) {
  std::string out = std::to_string(of.size()) + "/" + std::to_string(of.capacity());
  out += of.try_send(7) ? " sent" : " full";
  out += of.try_send(8) ? " sent" : " full";
  out += " " + text_of(of.try_receive());
  out += " " + text_of(of.try_receive());
  out += " " + text_of(of.receive(1ms));
  out += of.send(9, 1ms) ? " sent" : " full";
  out += of.send(10, 1ms) ? " sent" : " full";
  out += of.close() ? " closed" : " open";
  out += of.close() ? " closed" : " was";
  out += of.is_closed() ? " yes" : " no";
  out += " " + outcome_of([&] { return std::string(of.try_send(1) ? "sent" : "full"); });
  out += " " + std::to_string(of.receive());
  out += " " + outcome_of([&] { return std::to_string(of.receive()); });
  return out;
}
std::string selects(const ints& a, const ints& b) {
  std::string out;
  for (int i = 0; i < 2; ++i) {
    manta::select(manta::on_receive(a, [&](int x) { out += "a" + std::to_string(x); }),
                  manta::on_receive(b, [&](int x) { out += "b" + std::to_string(x); }));
  }
  const auto none =
      manta::select(1ms, manta::on_receive(a, [](int) {}), manta::on_receive(b, [](int) {}));
  out += none.has_value() ? " some" : " none";
  a.send(0);
  const auto full = manta::select(1ms, manta::on_send(a, 1), manta::on_receive(b, [](int) {}));
  return out + (full.has_value() ? " some" : " none");
}

// Has a channel, as its own.
struct thing_keeper {
  thing_keeper() = default;
  explicit thing_keeper(ints from) : kept(std::move(from)) {}
  void keep(const ints& one) { kept = one; }
  int receives() { return kept.receive(); }
  void sends(int x) { kept.send(x); }
  ints gives() { return kept; }
  void lets_go() { kept = {}; }
  ints kept;
};

// ---- what is checked

void check_order(const std::string& node) {
  const ints up(3);
  const auto sent = manta::remote<sends_some>.with(at(node))(up, 0, 500);
  bool in_order = true;
  for (int i = 0; i < 500; ++i) in_order = in_order && up.receive(long_enough) == i;
  expect(in_order, "items from there, in order");
  sent.get(long_enough);
  const ints down(3);
  const auto sum = manta::remote<receives_some>.with(at(node))(down, 500);
  for (int i = 0; i < 500; ++i) expect(down.send(i, long_enough), "room for an item");
  expect(sum.get(long_enough) == 124'750, "items to there, in order");
  const auto awaited = manta::remote<awaits_some>.with(at(node))(down, 200);
  for (int i = 0; i < 200; ++i) expect(down.send(i, long_enough), "room for an item");
  expect(awaited.get(long_enough) == 19'900, "to a coroutine");
  const auto room = manta::remote<awaits_room>.with(at(node))(up, 200);
  for (int i = 0; i < 200; ++i) in_order = in_order && up.receive(long_enough) == i;
  expect(in_order, "from a coroutine");
  room.get(long_enough);
}

void check_looks(const std::string& node) {
  const ints one(1);
  const std::string said = manta::remote<looks_at>.with(at(node))(one).get(long_enough);
  expect(said ==
             "0/1 sent full 7 none none sent full closed was yes channel_closed 9 "
             "channel_closed",
         said);
  expect(one.is_closed() && one.size() == 0, "it is this one");
  const ints a(1);
  const ints b(1);
  const auto chosen = manta::remote<selects>.with(at(node))(a, b);
  a.send(1);
  b.send(2);
  const std::string found = chosen.get(long_enough);
  expect(found == "a1b2 none none" || found == "b2a1 none none", found);
  expect(a.size() == 1 && a.receive() == 0 && a.try_send(1), "the select has sent nothing");
}

// Who waits there is told, or taken back.
void check_waits(const std::string& node) {
  const ints one(1);
  const std::string key = node + ".waits";
  auto closed = manta::remote<takes_one>.with(at(node))(one, key + "1");
  auto awaits = manta::remote<awaits_one>.with(at(node))(one, key + "2");
  expect(comes(key + "1") && comes(key + "2"), "they wait");
  one.close();
  expect(closed.get(long_enough) == "none" && awaits.get(long_enough) == "none", "closed");
  const ints other(2);
  auto stopped = manta::remote<takes_one>.with(at(node))(other, key + "3");
  auto dropped = manta::remote<awaits_one>.with(at(node))(other, key + "4");
  expect(comes(key + "3") && comes(key + "4"), "they wait, too");
  manta::cancel(stopped);
  manta::cancel(dropped);
  static_cast<void>(stopped.try_get(long_enough));
  static_cast<void>(dropped.try_get(long_enough));
  other.send(3);
  other.send(4);
  const auto next = manta::remote<takes_one>.with(at(node))(other, std::string());
  expect(next.get(long_enough) == "3", "what was cancelled takes nothing");
  expect(other.receive(long_enough) == 4, "and has nothing");
}

void check_actors(const std::string& node) {
  const ints one(4);
  auto made = manta::spawn<thing_keeper>.with({.where = manta::on_node(node)})(one);
  manta::remote<&thing_keeper::sends>(made, 5).get(long_enough);
  expect(one.receive(long_enough) == 5, "an actor sends to what its constructor got");
  const ints second(4);
  manta::remote<&thing_keeper::keep>(made, second).get(long_enough);
  const auto came = manta::remote<&thing_keeper::receives>(made);
  second.send(6);
  expect(came.get(long_enough) == 6, "and receives from what a call brought");
  expect(manta::remote<&thing_keeper::gives>(made).get(long_enough) == second,
         "it comes back as itself");
}

// How fast one task sends when it waits for nothing but the answers.
void check_rate_of_items(const std::string& node) {
  constexpr int count = 2000;
  const ints one(count);
  const auto start = std::chrono::steady_clock::now();
  manta::remote<sends_some>.with(at(node))(one, 0, count).get(long_enough);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  expect(one.size() == count, "all are there");
  std::printf("%d sends, %.1f us each\n", count, 1e6 * took.count() / count);
}

// An item that looks at another channel as it is read, which can't be where both are elsewhere.
struct curious {
  ints other;
  std::string seen;
  template <class Archive>
  void save(Archive& archive) const {
    archive(other);
  }
  template <class Archive>
  void load(Archive& archive) {
    archive(other);
    seen = outcome_of([&] { return std::to_string(other.size()); });
  }
};
std::string reads_curious(const manta::channel<curious>& from) { return from.receive().seen; }

void check_curious(const std::string& node) {
  const manta::channel<curious> one(1);
  one.send({ints(1), {}});
  const auto seen = manta::remote<reads_curious>.with(at(node))(one);
  expect(seen.get(long_enough) == "unsupported", "where it would wait for itself");
}

// Has a channel whose items tell when they go.
struct thing_holder {
  void keep(const manta::channel<manta::actor<counter>>& one) { kept = one; }
  void lets_go() { kept = {}; }
  manta::channel<manta::actor<counter>> kept;
};

// It lives as long as anybody has a handle, wherever.
void check_end(const std::string& node) {
  const std::string note = node + ".gone";
  auto there = manta::spawn<thing_holder>.with({.where = manta::on_node(node)})();
  {
    const manta::channel<manta::actor<counter>> one(1);
    one.send(one_at(manta::this_task::node(), 0, note));
    manta::remote<&thing_holder::keep>(there, one).get(long_enough);
  }
  std::this_thread::sleep_for(20ms);  // no event ends this: nothing may happen meanwhile
  expect(!manta::kv::get<int>(note).get().has_value(), "it is kept from there");
  manta::remote<&thing_holder::lets_go>(there).get(long_enough);
  expect(comes(note), "and goes with its last handle");
}

// ---- semaphores and barriers

// How many are in is told in the order in which they come and go.
void enters(const manta::semaphore& by, const ints& told, int times) {
  for (int i = 0; i < times; ++i) {
    const manta::permit held = by.acquire();
    told.send(1);
    told.send(-1);
  }
}
manta::coroutine<void> enters_as_coroutine(manta::semaphore by, ints told, int times) {
  for (int i = 0; i < times; ++i) {
    const manta::permit held = co_await by.async_acquire();
    co_await told.async_send(1);
    co_await told.async_send(-1);
  }
}
std::string tries_permits(const manta::semaphore& of) {
  std::string out = std::to_string(of.available()) + "/" + std::to_string(of.total());
  {
    const auto two = of.try_acquire(2);
    out += two.has_value() ? " got" : " none";
    out += of.try_acquire().has_value() ? " got" : " none";
    out += of.acquire(1, 1ms).has_value() ? " got" : " none";
    out += " " + std::to_string(of.available());
  }
  out += " " + std::to_string(of.available());
  out += " " + outcome_of([&] { return std::to_string(of.acquire(3).count()); });
  return out;
}
long waits_for_permits(const manta::semaphore& of, const std::string& began) {
  manta::kv::put(began, 1).get();
  return static_cast<long>(of.acquire(2).count());
}

void check_semaphore(const std::string& node, const std::string& other) {
  const manta::semaphore two(2);
  const std::string said = manta::remote<tries_permits>.with(at(node))(two).get(long_enough);
  expect(said == "2/2 got none none 0 2 invalid_argument", said);
  {
    const manta::permit one = two.acquire();
    const std::string key = node + ".permits";
    auto waits = manta::remote<waits_for_permits>.with(at(node))(two, key);
    expect(comes(key), "it waits");
    manta::cancel(waits);
    static_cast<void>(waits.try_get(long_enough));
    expect(two.acquire(1, long_enough).has_value(), "what was cancelled has none");
  }
  const ints told(4);
  const int times = 50;
  std::vector<manta::future<void>> all;
  for (const std::string& where : {node, other, manta::this_task::node()}) {
    all.push_back(manta::remote<enters>.with(at(where))(two, told, times));
    all.push_back(manta::remote<enters_as_coroutine>.with(at(where))(two, told, times));
  }
  int inside = 0;
  int most = 0;
  for (int i = 0; i < 2 * times * 6; ++i) {
    inside += told.receive(long_enough).value_or(100);
    most = std::max(most, inside);
  }
  for (const auto& one : all) one.get(long_enough);
  expect(most == 2 && inside == 0, "at most two at a time: " + std::to_string(most));
  expect(two.acquire(2, long_enough).has_value(), "all are back");
}

// The rounds that it completed.
int meets_rounds(const manta::barrier& at, int rounds) {
  int completed = 0;
  for (int i = 0; i < rounds; ++i) {
    const manta::barrier_arrival was = at.arrive_and_wait();
    if (was.generation != static_cast<std::uint64_t>(i)) return -1000;
    if (was.is_last) ++completed;
  }
  return completed;
}
int arrives_late(const manta::barrier& at, const std::string& began) {
  manta::kv::put(began, 1).get();
  at.arrive_and_wait();
  return 1;
}

void check_barrier(const std::string& node, const std::string& other) {
  const manta::barrier three(3);
  std::vector<manta::future<int>> all;
  for (const std::string& where : {node, other, manta::this_task::node()}) {
    all.push_back(manta::remote<meets_rounds>.with(at(where))(three, 40));
  }
  int completed = 0;
  for (const auto& one : all) completed += one.get(long_enough);
  expect(completed == 40, "each round has one last: " + std::to_string(completed));
  const manta::barrier two(2);
  const std::string key = node + ".late";
  auto gone = manta::remote<arrives_late>.with(at(node))(two, key);
  expect(comes(key), "it arrives");
  manta::cancel(gone);
  static_cast<void>(gone.try_get(long_enough));
  const auto first = manta::remote<meets_rounds>.with(at(other))(two, 1);
  const auto second = manta::remote<meets_rounds>.with(at(node))(two, 1);
  expect(first.get(long_enough) + second.get(long_enough) == 1, "an arrival is taken back");
}

// ---- handles that go on

struct kit {
  ints numbers;
  manta::semaphore permits;
  manta::barrier meeting;
  bool operator==(const kit& of) const { return numbers == of.numbers; }
};
kit makes_kit() { return {ints(2), manta::semaphore(2), manta::barrier(2)}; }
bool is_kit(const kit& of) {
  return of.numbers.capacity() == 2 && of.permits.available() == 2 && of.meeting.parties() == 2;
}
// From a second node to a third.
void passes_on(const kit& one, const std::string& node) {
  manta::remote<sends_some>.with(at(node))(one.numbers, 0, 100).get(long_enough);
}
manta::stream<kit> yields_kits(int n) {
  for (int i = 0; i < n; ++i) {
    kit one = makes_kit();
    one.numbers.send(i);
    co_yield std::move(one);
  }
}
// Answers what is asked, into the channel that comes with it.
struct request {
  int number = 0;
  ints answer;
};
void serves(const manta::channel<request>& from) {
  for (request& one : from) one.answer.send(one.number * one.number);
}

void check_handles(const std::string& node, const std::string& other) {
  const kit made = manta::remote<makes_kit>.with(at(node))().get(long_enough);
  expect(is_kit(made), "what a task returns");
  expect(manta::remote<is_kit>.with(at(node))(made).get(long_enough), "back at its home");
  expect(manta::remote<is_kit>.with(at(other))(made).get(long_enough), "in a third node");
  const manta::options apart{.isolation = manta::isolation_mode::processes};
  expect(manta::remote<is_kit>.with(apart)(made).get(long_enough), "in an isolated worker");
  for (const kit& one : {made, makes_kit()}) {
    const auto passed = manta::remote<passes_on>.with(at(node))(one, other);
    bool in_order = true;
    for (int i = 0; i < 100; ++i) in_order = in_order && one.numbers.receive(long_enough) == i;
    expect(in_order, "passed on");
    passed.get(long_enough);
  }
  // At its home, by a future whose value nobody here reads.
  auto unread = manta::remote<makes_kit>.with(at(node))();
  expect(manta::remote<is_kit>.with(at(other))(unread).get(long_enough), "of a future");
  int seen = 0;
  for (auto& item : manta::remote<yields_kits>.with(at(node))(20)) {
    if (item.get().numbers.receive(long_enough) == seen) ++seen;
  }
  expect(seen == 20, "items of a stream");
  const manta::channel<request> requests(2);
  const auto first = manta::remote<serves>.with(at(node))(requests);
  const auto second = manta::remote<serves>.with(at(other))(requests);
  const ints answers(2);
  long sum = 0;
  for (int i = 0; i < 50; ++i) {
    requests.send({i, answers});
    sum += answers.receive(long_enough).value_or(-1'000'000);
  }
  requests.close();
  first.get(long_enough);
  second.get(long_enough);
  expect(sum == 40'425, "channels in items: " + std::to_string(sum));
}

}  // namespace

int semaphores(const manta::runtime& rt) {
  const auto all = others(rt);
  check_semaphore(all[0].name, all[1].name);
  check_barrier(all[0].name, all[1].name);
  return say("semaphores");
}

int passed_things(const manta::runtime& rt) {
  const auto all = others(rt);
  check_handles(all[0].name, all[1].name);
  check_handles(all[1].name, all[0].name);
  return say("passed-things");
}

namespace {

// Holds what it got, and does not go on: to sleep is its work.
void holds_permits(const manta::semaphore& of, const std::string& began) {
  const manta::permit held = of.acquire(2);
  manta::kv::put(began, 1).get();
  while (!manta::this_task::is_cancelled()) std::this_thread::sleep_for(1ms);
}

template <class F>
std::string loss_of(F&& f) {
  try {
    f();
    return "nothing";
  } catch (const manta::node_lost& e) {
    return e.what();
  } catch (const manta::exception& e) {
    return std::string("another one: ") + e.what();
  }
}
std::string loses_item(const ints& from, const std::string& began) {
  manta::kv::put(began, 1).get();
  return loss_of([&] { static_cast<void>(from.receive()); });
}
std::string loses_permit(const manta::semaphore& from, const std::string& began) {
  manta::kv::put(began, 1).get();
  return loss_of([&] { static_cast<void>(from.acquire(2)); });
}
std::string loses_round(const manta::barrier& at, const std::string& began) {
  manta::kv::put(began, 1).get();
  return loss_of([&] { at.arrive_and_wait(); });
}
manta::coroutine<std::string> loses_item_as_coroutine(ints from, std::string began) {
  co_await manta::kv::put(began, 1);
  try {
    static_cast<void>(co_await from.async_receive());
    co_return "nothing";
  } catch (const manta::node_lost& e) {
    co_return e.what();
  }
}

}  // namespace

// Their home is lost.
int lost_homes(const manta::runtime& rt) {
  const std::string lost = others(rt)[1].name;
  const std::string third = others(rt)[2].name;
  const kit made = manta::remote<makes_kit>.with(at(lost))().get(long_enough);
  const auto held = made.permits.acquire();
  std::vector<manta::future<std::string>> all;
  int last = 0;
  const auto key = [&] { return "lost" + std::to_string(last++); };
  for (const std::string& where : {third, manta::this_task::node()}) {
    all.push_back(manta::remote<loses_item>.with(at(where))(made.numbers, key()));
    all.push_back(manta::remote<loses_item_as_coroutine>.with(at(where))(made.numbers, key()));
    all.push_back(manta::remote<loses_permit>.with(at(where))(made.permits, key()));
  }
  all.push_back(manta::remote<loses_round>.with(at(third))(made.meeting, key()));
  for (int i = 0; i < last; ++i) expect(comes("lost" + std::to_string(i)), "they wait");
  std::this_thread::sleep_for(50ms);  // of the fault: what was asked has come when it strikes
  say_pids(rt);
  for (const auto& one : all) {
    const std::string why = one.get(long_enough);
    expect(has(why, lost) || has(why, "has left"), "what waits: " + why);
  }
  const auto fails = [&](const std::string& why, const char* what) {
    expect(has(why, lost), what + (": " + why));
  };
  fails(loss_of([&] { made.numbers.send(1); }), "send");
  fails(loss_of([&] { static_cast<void>(made.numbers.try_receive()); }), "try_receive");
  fails(loss_of([&] { static_cast<void>(made.numbers.size()); }), "size");
  fails(loss_of([&] { made.numbers.close(); }), "close");
  fails(loss_of([&] { static_cast<void>(made.permits.try_acquire()); }), "try_acquire");
  fails(loss_of([&] { static_cast<void>(made.permits.acquire()); }), "acquire");
  fails(loss_of([&] { made.meeting.arrive_and_wait(); }), "arrive_and_wait");
  return say("lost-homes");
}

// Who uses them is lost.
int lost_users(const manta::runtime& rt) {
  const std::string lost = others(rt)[1].name;
  const kit mine = makes_kit();
  const auto receives = manta::remote<takes_one>.with(at(lost))(mine.numbers, std::string("r"));
  const auto holds = manta::remote<holds_permits>.with(at(lost))(mine.permits, std::string("h"));
  const auto arrives = manta::remote<arrives_late>.with(at(lost))(mine.meeting, std::string("a"));
  const auto third =
      manta::remote<waits_for_permits>.with(at(others(rt)[2].name))(mine.permits, std::string("t"));
  const std::string note = "lost.item";
  {
    auto there = manta::spawn<thing_holder>.with({.where = manta::on_node(lost)})();
    const manta::channel<manta::actor<counter>> one(1);
    one.send(one_at(manta::this_task::node(), 0, note));
    manta::remote<&thing_holder::keep>(there, one).get(long_enough);
    expect(comes("r") && comes("h") && comes("a") && comes("t"), "they wait");
    std::this_thread::sleep_for(50ms);  // of the fault: what was asked has come when it strikes
    say_pids(rt);
    static_cast<void>(receives.try_get(long_enough));
    static_cast<void>(holds.try_get(long_enough));
    static_cast<void>(arrives.try_get(long_enough));
  }
  expect(third.get(long_enough) == 2, "permits go back to who waits");
  mine.numbers.send(1);
  expect(mine.numbers.receive(long_enough) == 1, "it takes nothing");
  const auto first =
      manta::remote<meets_rounds>.with(at(manta::this_task::node()))(mine.meeting, 1);
  const auto second = manta::remote<meets_rounds>.with(at(others(rt)[0].name))(mine.meeting, 1);
  expect(first.get(long_enough) + second.get(long_enough) == 1, "its arrival is taken back");
  expect(mine.permits.acquire(2, long_enough).has_value(),
         "all permits are here: " + std::to_string(mine.permits.available()));
  expect(comes(note), "what only it had goes with it");
  return say("lost-users");
}

int channels(const manta::runtime& rt) {
  for (const manta::node_info& one : others(rt)) {
    check_order(one.name);
    check_looks(one.name);
    check_waits(one.name);
    check_actors(one.name);
    check_end(one.name);
    check_curious(one.name);
  }
  check_rate_of_items(others(rt)[0].name);
  return say("channels");
}

}  // namespace settling
