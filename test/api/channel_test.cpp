// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <manta/exec/cancellation.hpp>
#include <manta/exec/channel_core.hpp>

#include "said_by.hpp"
#include "support.hpp"

// channel<T>; select has select_test.cpp.

namespace channel_test {

using namespace std::chrono_literals;
using test::said_by;

namespace {

struct relay {
  long forward(manta::channel<int> from, manta::channel<int> to) {
    long sum = 0;
    for (int& i : from) {
      to.send(i);
      sum += i;
    }
    return sum;
  }
};

std::string receives(const manta::channel<int>& from, bool has_limit) {
  return said_by(
      [&] { static_cast<void>(has_limit ? from.receive(test::patience) : from.receive()); });
}
std::string sends_one(const manta::channel<int>& to) {
  return said_by([&] { to.send(1); });
}
bool is_at_end(const manta::channel<int>& from) { return !from.next(); }
std::string receives_either(const manta::channel<int>& a, const manta::channel<int>& b) {
  return said_by(
      [&] { manta::select(manta::on_receive(a, [](int) {}), manta::on_receive(b, [](int) {})); });
}
test::everywhere<test::common_gate> started;

// Moving it throws when told so.
struct touchy {
  int value = 0;
  bool bites = false;
  touchy(int v, bool b) : value(v), bites(b) {}
  touchy(const touchy&) = default;
  touchy(touchy&& other) : value(other.value), bites(other.bites) {
    if (bites) throw std::runtime_error("bitten");
  }
};

}  // namespace

TEST_CASE("a channel gives items in order and says when it is full or empty",
          "[channel][stays:local]") {
  const manta::channel<int> c(3);
  CHECK(c.capacity() == 3);
  CHECK_FALSE(c.try_receive());
  CHECK_FALSE(c.receive(1ms));
  c.send(1);
  CHECK(c.try_send(2));
  CHECK(c.send(3, 1s));
  CHECK_FALSE(c.try_send(4));
  CHECK_FALSE(c.send(4, 1ms));
  CHECK(c.size() == 3);
  CHECK(c.receive() == 1);
  CHECK(c.try_receive().value() == 2);
  CHECK(c.receive(1s).value() == 3);
  CHECK(c.size() == 0);
}

TEST_CASE("a channel's capacity and its handles are checked", "[channel][stays:refused]") {
  CHECK_THROWS_AS(manta::channel<int>(0), manta::invalid_argument);
  const auto said = test::message_of<manta::invalid_argument>(
      [] { const manta::channel<int> c(static_cast<std::size_t>(-1)); });
  CHECK(said.find("asked for a capacity of -1, allowed 1 to") != std::string::npos);
  const manta::channel<int> none;
  CHECK_FALSE(none.valid());
  CHECK_THROWS_AS(none.send(1), manta::invalid_argument);
  CHECK_THROWS_AS(none.close(), manta::invalid_argument);
  CHECK_THROWS_AS(manta::select(manta::on_receive(none, [](int) {})), manta::invalid_argument);
}

TEST_CASE("a closed channel gives what it has, then the typed end", "[channel][stays:local]") {
  const manta::channel<int> c(4);
  c.send(1);
  c.send(2);
  c.send(3);
  CHECK(c.close());
  CHECK_FALSE(c.close());
  CHECK(c.is_closed());
  CHECK_THROWS_AS(c.send(4), manta::channel_closed);
  CHECK_THROWS_AS(c.try_send(4), manta::channel_closed);
  CHECK_THROWS_AS(c.send(4, 1ms), manta::channel_closed);
  CHECK(c.receive() == 1);
  CHECK(c.next().value() == 2);
  CHECK(c.receive(0s).value() == 3);
  CHECK_THROWS_AS(c.receive(), manta::channel_closed);
  CHECK_THROWS_AS(c.receive(1ms), manta::channel_closed);
  CHECK_THROWS_AS(c.try_receive(), manta::channel_closed);
  CHECK_FALSE(c.next());
  int left = 0;
  for (int& i : c) left += i;
  CHECK(left == 0);
}

TEST_CASE("an item that was refused is still the caller's", "[channel][stays:local]") {
  const manta::channel<std::unique_ptr<int>> c(1);
  auto first = std::make_unique<int>(1);
  auto second = std::make_unique<int>(2);
  CHECK(c.try_send(std::move(first)));
  CHECK_FALSE(c.try_send(std::move(second)));
  CHECK_FALSE(c.send(std::move(second), 1ms));
  REQUIRE(second);
  CHECK(*c.receive() == 1);
  CHECK(c.send(std::move(second), 1s));
  CHECK(*c.receive() == 2);
}

TEST_CASE("closing wakes everybody who waits, typed", "[channel][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const manta::channel<int> empty(1);
  const manta::channel<int> full(1);
  full.send(0);
  // Tasks and threads alike; more tasks than workers, so their cores have to be lent.
  std::vector<manta::future<std::string>> waiting;
  for (int i = 0; i < 8; ++i) {
    waiting.push_back(manta::remote<receives>(empty, false));
    waiting.push_back(manta::remote<receives>(empty, true));
    waiting.push_back(manta::remote<sends_one>(full));
  }
  const auto ended = manta::remote<is_at_end>(empty);
  CHECK_FALSE(manta::wait_any(1ms, waiting[0], waiting[1], waiting[2]));
  CHECK(manta::async([] { return 5; }).get(test::patience) == 5);
  empty.close();
  full.close();
  for (auto& w : waiting) CHECK(w.get(test::patience) == "channel_closed");
  CHECK(ended.get(test::patience));
  CHECK(full.receive() == 0);
}

TEST_CASE("a task that waits for a channel ends when it is cancelled", "[channel][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const manta::channel<int> c(1);
  const manta::channel<int> other(1);
  const manta::channel<int> full(1);
  full.send(0);
  const auto stopped = [](auto&& begin) {
    started->shut();
    const manta::future<std::string> f = begin();
    started->wait();
    manta::exec::cancel_job(manta::detail::access::job(f), true);
    return f.get(test::patience);
  };
  constexpr auto receive = [](const manta::channel<int>& from, bool has_limit) {
    started->open();
    return receives(from, has_limit);
  };
  constexpr auto send = [](const manta::channel<int>& to) {
    started->open();
    return sends_one(to);
  };
  constexpr auto select = [](const manta::channel<int>& a, const manta::channel<int>& b) {
    started->open();
    return receives_either(a, b);
  };
  CHECK(stopped([&] { return manta::remote<receive>(c, false); }) == "cancelled");
  CHECK(stopped([&] { return manta::remote<receive>(c, true); }) == "cancelled");
  CHECK(stopped([&] { return manta::remote<send>(full); }) == "cancelled");
  CHECK(stopped([&] { return manta::remote<select>(c, other); }) == "cancelled");
  CHECK(stopped([&] {
          return manta::async([&] {
            started->open();
            return said_by(
                [&] { manta::select(manta::on_receive(c, [](int) {}), manta::on_send(full, 1)); });
          });
        }) == "cancelled");
  // Nobody is left in a list: the next item is for the next one who asks.
  c.send(5);
  CHECK(c.receive() == 5);
  CHECK(full.receive() == 0);
  CHECK_FALSE(full.try_receive());
}

TEST_CASE("tasks that wait for a channel end with the runtime", "[channel][anywhere]") {
  const manta::channel<int> c(1);
  std::vector<manta::future<std::string>> waiting;
  constexpr auto wait = [](const manta::channel<int>& from, int i) {
    started->arrive();
    return said_by([&] {
      if (i % 2 == 0) {
        static_cast<void>(from.receive());
      } else {
        manta::select(manta::on_receive(from, [](int) {}));
      }
    });
  };
  started->shut(20);
  {
    const manta::runtime rt(test::two_workers());
    for (int i = 0; i < 20; ++i) waiting.push_back(manta::remote<wait>(c, i));
    CHECK(started->wait());
  }
  for (const auto& w : waiting) CHECK(w.get(0s) == "cancelled");
  CHECK(c.try_send(1));
  CHECK(c.size() == 1);
}

TEST_CASE("many producers and consumers move each item once, in each producer's order",
          "[channel][anywhere]") {
  const manta::runtime rt(test::workers(4));
  constexpr int producers = 4;
  constexpr int consumers = 3;
  const int each = test::trips(5000);
  using items = std::vector<std::pair<int, int>>;
  constexpr auto produce = [](const manta::channel<std::pair<int, int>>& to, int p, int n) {
    for (int i = 0; i < n; ++i) to.send({p, i});
  };
  constexpr auto consume = [](const manta::channel<std::pair<int, int>>& from) {
    items got;
    for (auto& item : from) got.push_back(item);
    return got;
  };
  const manta::channel<std::pair<int, int>> c(16);
  std::vector<manta::future<void>> senders;
  for (int p = 0; p < producers; ++p) senders.push_back(manta::remote<produce>(c, p, each));
  std::vector<manta::future<items>> receivers;
  for (int r = 0; r < consumers; ++r) receivers.push_back(manta::remote<consume>(c));
  manta::get(senders);
  c.close();
  std::vector<int> seen(static_cast<std::size_t>(producers * each));
  bool in_order = true;
  for (auto& r : receivers) {
    std::vector<int> last(producers, -1);
    for (const auto& [p, i] : r.get()) {
      ++seen[static_cast<std::size_t>(p * each + i)];
      in_order &= i > last[static_cast<std::size_t>(p)];
      last[static_cast<std::size_t>(p)] = i;
    }
  }
  CHECK(in_order);
  CHECK(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
}

TEST_CASE("channels are passed into actors and tasks", "[channel][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const manta::channel<int> in(2);
  const manta::channel<int> out(2);
  const auto a = manta::spawn<relay>();
  const auto sum = manta::remote<&relay::forward>(a, in, out);
  long received = 0;
  for (int i = 1; i <= 100; ++i) {
    in.send(i);
    received += out.receive();
  }
  in.close();
  CHECK(received == 5050);
  CHECK(sum.get(test::patience) == 5050);
}

TEST_CASE("who waits longest is served first", "[channel][stays:local]") {
  // Two wishes are listed one after the other at the level below, where that can be seen.
  std::deque<int> items;
  manta::exec::channel_core core(1, &items);
  struct listener : manta::exec::waiter {
    int told = 0;
    listener() {
      fire = [](manta::exec::waiter* w) noexcept { ++static_cast<listener*>(w)->told; };
    }
  };
  const auto take = [](void* from, void* to) {
    auto& all = *static_cast<std::deque<int>*>(from);
    *static_cast<int*>(to) = all.front();
    all.pop_front();
  };
  const auto put = [](void* to, void* from) {
    static_cast<std::deque<int>*>(to)->push_back(*static_cast<int*>(from));
  };
  std::vector<listener> told(3);
  std::vector<manta::exec::wish_group> groups(3);
  std::vector<int> got(3);
  std::vector<manta::exec::wish> wishes(3);
  for (std::size_t i = 0; i < 3; ++i) {
    groups[i].tell = &told[i];
    wishes[i].move = take;
    wishes[i].value = &got[i];
    wishes[i].group = &groups[i];
    core.enlist(wishes[i]);
  }
  CHECK(core.withdraw(wishes[1]));
  CHECK_FALSE(core.withdraw(wishes[1]));
  for (int value : {7, 8}) {
    CHECK(core.attempt({.move = put, .value = &value, .is_send = true}) ==
          manta::exec::wish_state::met);
  }
  CHECK(got == std::vector<int>{7, 0, 8});
  CHECK(told[0].told == 1);
  CHECK(told[1].told == 0);
  CHECK(told[2].told == 1);
  CHECK_FALSE(core.withdraw(wishes[0]));
  CHECK(core.size() == 0);
}

TEST_CASE("an item that can't be moved arrives as an exception and is not lost",
          "[channel][stays:async]") {
  const manta::runtime rt(test::two_workers());
  const manta::channel<touchy> c(2);
  const touchy item(5, true);
  CHECK(c.try_send(item));  // copied
  CHECK_THROWS_WITH(c.receive(), "bitten");
  CHECK(c.size() == 1);
  CHECK_THROWS_WITH(c.send(item), "bitten");
  // One that is moved for a waiter by the sender: the waiter gets the exception.
  const manta::channel<touchy> d(1);
  const auto waiter = manta::async([d] {
    try {
      static_cast<void>(d.receive(test::patience));
    } catch (const std::runtime_error& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  });
  CHECK(d.try_send(item));
  CHECK(waiter.get(test::patience) == "bitten");
  CHECK(d.size() == 1);
}

TEST_CASE("a channel's items go with its last handle", "[channel][stays:local]") {
  const int before = test::tracked::alive;
  {
    const manta::channel<test::tracked> c(4);
    c.send(test::tracked(1));
    c.send(test::tracked(2));
    const auto copy = c;
    CHECK(copy == c);
    CHECK(test::tracked::alive == before + 2);
  }
  CHECK(test::tracked::alive == before);
}

TEST_CASE("a channel behaves as its model under random calls", "[channel][stays:local]") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    const std::size_t capacity = 1 + random() % 8;
    const manta::channel<int> c(capacity);
    std::deque<int> model;
    bool is_closed = false;
    bool agrees = true;
    for (int step = 0; step < 300; ++step) {
      const int value = static_cast<int>(random());
      std::string found;
      std::string wanted = "done";
      switch (random() % 40) {
        case 0:
          agrees &= c.close() == !is_closed;
          is_closed = true;
          break;
        case 1:
          agrees &= c.size() == model.size() && c.is_closed() == is_closed;
          break;
        default:
          if (random() % 2 == 0) {
            bool sent = false;
            found =
                said_by([&] { sent = random() % 2 == 0 ? c.try_send(value) : c.send(value, 0s); });
            if (is_closed) wanted = "channel_closed";
            agrees &= found == wanted && sent == (!is_closed && model.size() < capacity);
            if (sent) model.push_back(value);
          } else {
            std::optional<int> got;
            found = said_by([&] { got = random() % 2 == 0 ? c.try_receive() : c.receive(0s); });
            if (is_closed && model.empty()) wanted = "channel_closed";
            agrees &= found == wanted && got.has_value() == !model.empty();
            if (got) {
              agrees &= *got == model.front();
              model.pop_front();
            }
          }
      }
    }
    CHECK(agrees);
  }
}

}  // namespace channel_test
