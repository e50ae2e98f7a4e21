// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <manta/exec/channel_core.hpp>

#include "said_by.hpp"
#include "support.hpp"

// select: one of several sends and receives.

namespace select_test {

using namespace std::chrono_literals;
using test::said_by;

namespace {

using ints = manta::channel<int>;

std::string receives_either(const ints& a, const ints& b) {
  return said_by(
      [&] { manta::select(manta::on_receive(a, [](int) {}), manta::on_receive(b, [](int) {})); });
}
std::string sends_to_either(const ints& a, const ints& b, int value) {
  return said_by([&] { manta::select(manta::on_send(a, value), manta::on_send(b, value)); });
}
std::string sends_or_receives(const ints& to, int value, const ints& from) {
  std::string out;
  const std::string is = said_by([&] {
    manta::select(manta::on_send(to, value, [&] { out = "sent"; }),
                  manta::on_receive(from, [&](int item) { out = std::to_string(item); }));
  });
  return is == "done" ? out : is;
}

void produces(const ints& to, int first, int count) {
  for (int i = 0; i < count; ++i) to.send(first + i);
  to.close();
}
// Receives from either, and passes on by a select with a second target that is full.
int passes_on(const std::vector<ints>& from, const ints& full, const ints& out, bool is_hasty) {
  int moved = 0;
  const auto forward = [&](int item) {
    manta::select(manta::on_send(full, item), manta::on_send(out, item));
    ++moved;
  };
  static_cast<void>(said_by([&] {
    for (;;) {
      const auto limit = is_hasty ? manta::duration(20us) : manta::duration(test::patience);
      manta::select(limit, manta::on_receive(from[0], forward),
                    manta::on_receive(from[1], forward));
    }
  }));
  return moved;
}

struct moves {
  std::vector<int> sent;
  std::vector<int> got;
};
// Sends numbers nobody else does, or receives; both ways, or by select.
moves moves_at_random(const std::vector<ints>& channels, unsigned seed, int first, bool closes) {
  std::mt19937 random(seed);
  moves out;
  for (int step = 0; step < 300; ++step) {
    const auto& c = channels[random() % 3];
    const auto& d = channels[random() % 3];
    const manta::duration limit = random() % 3 * 20us;
    const int value = first + step;
    const auto sent = [&] { out.sent.push_back(value); };
    const auto got = [&](int item) { out.got.push_back(item); };
    static_cast<void>(said_by([&] {
      switch (random() % 4) {
        case 0:
          if (c.send(value, limit)) sent();
          break;
        case 1:
          if (const auto item = c.receive(limit)) got(*item);
          break;
        case 2:
          manta::select(limit, manta::on_receive(c, got), manta::on_receive(d, got));
          break;
        default:
          manta::select(limit, manta::on_send(c, value, sent), manta::on_receive(d, got));
      }
    }));
    if (step == 290 && closes) channels[random() % 3].close();
  }
  return out;
}

}  // namespace

TEST_CASE("select takes the one case that can happen", "[select][stays:local]") {
  const ints numbers(1);
  const manta::channel<std::string> texts(1);
  int number = 0;
  std::string text;
  const auto one = [&](manta::duration limit) {
    return manta::select(limit, manta::on_receive(numbers, [&](int n) { number = n; }),
                         manta::on_receive(texts, [&](std::string s) { text = std::move(s); }));
  };
  CHECK_FALSE(one(0s));
  CHECK_FALSE(one(1ms));
  texts.send("word");
  CHECK(one(0s).value() == 1);
  CHECK(text == "word");
  numbers.send(5);
  CHECK(one(test::patience).value() == 0);
  CHECK(number == 5);

  numbers.send(6);
  bool was_sent = false;
  const auto chosen = manta::select(manta::on_send(numbers, 7),
                                    manta::on_send(texts, "more", [&] { was_sent = true; }));
  CHECK(chosen == 1);
  CHECK(was_sent);
  CHECK(numbers.size() == 1);
  CHECK(texts.receive() == "more");
}

TEST_CASE("select is fair to cases that can always happen", "[select][stays:local]") {
  const ints a(1);
  const ints b(1);
  const ints c(1);
  std::vector<int> taken(3);
  const auto count = [&taken](int which) {
    return [&taken, which](int) { ++taken[static_cast<std::size_t>(which)]; };
  };
  for (int i = 0; i < 300; ++i) {
    for (const auto& each : {a, b, c}) each.try_send(i);
    manta::select(manta::on_receive(a, count(0)), manta::on_receive(b, count(1)),
                  manta::on_receive(c, count(2)));
  }
  CHECK(taken == std::vector<int>{100, 100, 100});
}

TEST_CASE("select passes over closed channels and ends typed when all are", "[select][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const ints a(1);
  const ints b(1);
  int got = 0;
  const auto one = [a, b, &got] {
    manta::select(manta::on_receive(a, [&got](int n) { got = n; }),
                  manta::on_receive(b, [&got](int n) { got = n; }));
  };
  a.close();
  b.send(3);
  one();
  CHECK(got == 3);
  // Closed while it waits: first one, which changes nothing, then the other.
  const ints c(1);
  const auto waiting = manta::remote<receives_either>(b, c);
  c.close();
  CHECK_FALSE(manta::wait_any(1ms, waiting));
  b.close();
  CHECK(waiting.get(test::patience) == "channel_closed");
  CHECK_THROWS_AS(one(), manta::channel_closed);
  CHECK_THROWS_AS(manta::select(0s, manta::on_send(b, 1)), manta::channel_closed);
}

TEST_CASE("select may name a channel twice, as source and as target", "[select][stays:local]") {
  const ints c(1);
  int received = 0;
  int sent = 0;
  for (int i = 0; i < 10; ++i) {
    manta::select(manta::on_receive(c, [&](int) { ++received; }),
                  manta::on_send(c, i, [&] { ++sent; }));
  }
  CHECK(sent == 5);
  CHECK(received == 5);
}

TEST_CASE("a send that waits as one of several cases is sent once, or not at all",
          "[select][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const ints full(1);
  const ints other(1);
  full.send(0);
  SECTION("there is room at last") {
    const auto waits = manta::remote<sends_or_receives>(full, 1, other);
    CHECK_FALSE(manta::wait_any(5ms, waits));
    CHECK(full.receive(test::patience) == 0);
    CHECK(waits.get(test::patience) == "sent");
    CHECK(full.receive(test::patience) == 1);
  }
  SECTION("another case happens") {
    const auto waits = manta::remote<sends_or_receives>(full, 1, other);
    CHECK_FALSE(manta::wait_any(5ms, waits));
    other.send(5);
    CHECK(waits.get(test::patience) == "5");
    CHECK(full.receive(test::patience) == 0);
    CHECK(full.send(2, test::patience));  // the room is nobody else's
    CHECK(full.receive(test::patience) == 2);
  }
  SECTION("it is closed, and then the other one, too") {
    const auto waits = manta::remote<sends_or_receives>(full, 1, other);
    full.close();
    CHECK_FALSE(manta::wait_any(5ms, waits));
    other.close();
    CHECK(waits.get(test::patience) == "channel_closed");
    CHECK(full.next() == 0);
    CHECK(full.next() == std::nullopt);
  }
  SECTION("both cases at once, many times") {
    other.send(0);
    for (int i = 1; i <= 200; ++i) {
      const auto waits = manta::remote<sends_to_either>(full, other, i);
      const auto frees = [](const ints& of) { return of.receive(test::patience).value_or(-1); };
      auto first = std::async(std::launch::async, [&] { return frees(full); });
      CHECK(frees(other) >= 0);
      CHECK(first.get() >= 0);
      CHECK(waits.get(test::patience) == "done");
      CHECK(full.size() + other.size() == 1);
      // What was kept for the other case may be free only after the result is here.
      CHECK((full.size() == 0 ? full : other).send(0, test::patience));
    }
  }
  SECTION("it is cancelled") {
    const auto waits = manta::remote<sends_or_receives>(full, 1, other);
    if (manta::wait_any(5ms, waits)) FAIL("it waits for nothing");
    manta::cancel(waits);
    static_cast<void>(waits.try_get(test::patience));
    CHECK(full.receive(test::patience) == 0);
    CHECK(full.send(2, test::patience));
    CHECK(full.receive(test::patience) == 2);
  }
}

namespace {

struct listener : manta::exec::waiter {
  int told = 0;
  listener() {
    fire = [](manta::exec::waiter* w) noexcept { ++static_cast<listener*>(w)->told; };
  }
};
// To receive, or for room.
struct wanted {
  listener told;
  manta::exec::wish_group group;
  manta::exec::wish want;
  int value = 0;
  explicit wanted(void (*take)(void*, void*)) {
    group.tell = &told;
    want.group = &group;
    want.move = take;
    want.value = &value;
    want.is_send = take == nullptr;
  }
};

}  // namespace

// What other processes use it for, where every step can be seen.
TEST_CASE("room is kept for an item, filled and freed", "[channel][stays:local]") {
  std::deque<int> items;
  manta::exec::channel_core core(1, &items);
  constexpr auto take = [](void* from, void* to) {
    auto& all = *static_cast<std::deque<int>*>(from);
    *static_cast<int*>(to) = all.front();
    all.pop_front();
  };
  constexpr auto put = [](void* to, void* from) {
    static_cast<std::deque<int>*>(to)->push_back(*static_cast<int*>(from));
  };
  const auto has_room = [&](int value) {
    return core.attempt({.move = put, .value = &value, .is_send = true}) ==
           manta::exec::wish_state::met;
  };
  wanted first(nullptr);
  wanted second(nullptr);
  wanted receives(take);
  CHECK(core.enlist(first.want));
  CHECK_FALSE(core.enlist(second.want));
  CHECK_FALSE(core.enlist(receives.want));
  CHECK(core.size() == 0);
  CHECK_FALSE(has_room(1));
  int value = 5;
  SECTION("filled: for who waits, and the next one has room") {
    core.fill_room(put, &value);
    CHECK((receives.value == 5 && receives.told.told == 1));
    CHECK((second.told.told == 1 && core.size() == 0 && !has_room(1)));
    core.free_room();
    CHECK(has_room(1));
  }
  SECTION("freed: the next one has it") {
    core.free_room();
    CHECK((receives.told.told == 0 && second.told.told == 1));
    core.fill_room(put, &value);
    CHECK((receives.value == 5 && receives.told.told == 1 && has_room(1)));
  }
  SECTION("moving the item throws: it is freed") {
    const auto bites = [](void*, void*) { throw std::runtime_error("bitten"); };
    CHECK_THROWS_WITH(core.fill_room(bites, &value), "bitten");
    CHECK((receives.told.told == 0 && second.told.told == 1));
    core.free_room();
    CHECK((has_room(6) && receives.value == 6));
  }
  SECTION("closed: receivers wait for what comes of it") {
    core.close();
    CHECK(second.want.state == manta::exec::wish_state::closed);
    wanted late(take);
    CHECK_FALSE(core.enlist(late.want));
    CHECK(core.attempt({.move = take, .value = &value}) == manta::exec::wish_state::open);
    CHECK((receives.told.told == 0 && late.told.told == 0));
    const bool is_filled = GENERATE(false, true);
    is_filled ? core.fill_room(put, &value) : core.free_room();
    CHECK((receives.told.told == 1 && late.told.told == 1));
    CHECK((receives.want.state == manta::exec::wish_state::met) == is_filled);
    CHECK(late.want.state == manta::exec::wish_state::closed);
    CHECK(core.attempt({.move = take, .value = &value}) == manta::exec::wish_state::closed);
  }
}

TEST_CASE("of the cases of many selects at once each item takes exactly one",
          "[select][anywhere]") {
  // Two channels served by different threads at the same time: a select that both serve would lose
  // an item, one that neither does would hang.
  const manta::runtime rt(test::workers(4));
  constexpr int each = 1500;
  const std::vector<ints> from{ints(1), ints(2)};
  const ints out(3);
  const auto pa = manta::remote<produces>(from[0], 0, each);
  const auto pb = manta::remote<produces>(from[1], each, each);
  const ints full(1);
  full.send(-1);
  std::vector<manta::future<int>> selectors;
  for (int s = 0; s < 3; ++s) {
    selectors.push_back(manta::remote<passes_on>(from, full, out, s == 0));
  }
  std::vector<int> seen(2 * each);
  for (int i = 0; i < 2 * each; ++i) {
    const auto item = out.receive(test::patience);
    REQUIRE(item);
    ++seen[static_cast<std::size_t>(*item)];
  }
  int moved = 0;
  for (auto& s : selectors) moved += s.get(test::patience);
  CHECK(moved == 2 * each);
  CHECK_FALSE(out.try_receive());
  CHECK(full.size() == 1);
  CHECK(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
}

TEST_CASE("random sends, receives, selects and a close lose and double nothing",
          "[select][anywhere]") {
  const manta::runtime rt(test::workers(4));
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  for (int round = 0; round < 20; ++round) {
    std::vector<ints> channels;
    for (std::size_t k = 1; k <= 3; ++k) channels.emplace_back(k);
    std::vector<manta::future<moves>> workers;
    for (unsigned w = 0; w < 4; ++w) {
      workers.push_back(manta::remote<moves_at_random>(channels,
                                                       seed + 4 * static_cast<unsigned>(round) + w,
                                                       static_cast<int>(w) * 300, w == 0));
    }
    std::vector<int> sent;
    std::vector<int> got;
    for (auto& w : workers) {
      const moves& m = w.get(test::patience);
      sent.insert(sent.end(), m.sent.begin(), m.sent.end());
      got.insert(got.end(), m.got.begin(), m.got.end());
    }
    for (const auto& c : channels) {
      c.close();
      for (int& item : c) got.push_back(item);
    }
    std::sort(sent.begin(), sent.end());
    std::sort(got.begin(), got.end());
    CHECK(sent == got);
  }
}

}  // namespace select_test
