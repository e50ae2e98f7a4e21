// SPDX-License-Identifier: Apache-2.0
// What another node asks of this one's channels, semaphores and barriers when it is no honest one:
// two of them in this process, over a unix socket. What honest ones do is test/cluster's.
#include "node/node_things.hpp"

#include <cstdint>
#include <future>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "node/facts_line.hpp"
#include "node/hostile_node.hpp"

namespace manta_test::node_things_test {
namespace {

TEST_CASE("a node that asks nonsense of channels, semaphores and barriers is told so", "[node]") {
  hostile_case c;
  CHECK(c.answer_of(c.of_numbers, thing_op::look) == "state 0, 0");
  SECTION("what is unknown") {
    for (const id& of : {id{0, 0}, id{c.of_numbers.high, 99}, id{c.of_numbers.high + 1, 1}}) {
      CHECK(c.answer_of(of, thing_op::look) == "object_lost");
    }
    for (const int op : {16, 17, 255}) {
      CHECK(c.came.of(c.ask(c.of_numbers, static_cast<std::uint8_t>(op))) == nonsense);
    }
  }
  SECTION("what another kind of thing does") {
    CHECK(c.answer_of(c.of_numbers, thing_op::acquire, 1) == nonsense);
    CHECK(c.answer_of(c.of_numbers, thing_op::arrive) == nonsense);
    CHECK(c.answer_of(c.of_permits, thing_op::receive) == nonsense);
    CHECK(c.answer_of(c.of_meeting, thing_op::look) == nonsense);
  }
  SECTION("permits that there are not") {
    CHECK(c.answer_of(c.of_permits, thing_op::acquire, 0) == nonsense);
    CHECK(c.answer_of(c.of_permits, thing_op::acquire, 4) == nonsense);
    CHECK(c.answer_of(c.of_permits, thing_op::try_acquire, UINT64_MAX) == nonsense);
    CHECK(c.answer_of(c.of_permits, thing_op::release, 1) == nonsense);
    CHECK(c.answer_of(c.of_permits, thing_op::acquire, 2) == "state 1, 0");
    CHECK(c.answer_of(c.of_permits, thing_op::release, 3) == nonsense);
    CHECK(c.permits.available() == 1);
  }
  SECTION("items that are none") {
    CHECK(c.answer_of(c.of_numbers, thing_op::send) == nonsense);
    CHECK(c.answer_of(c.of_numbers, thing_op::try_send, 0, "12") == nonsense);
    CHECK(c.answer_of(c.of_texts, thing_op::send, 0, std::string(8, '\xff')) == nonsense);
    CHECK(c.answer_of(c.of_texts, thing_op::restore, 0, "\x7f") == nonsense);
    CHECK(c.numbers.size() + c.texts.size() == 0);
  }
  SECTION("two of one number") {
    const std::uint64_t first = c.ask(c.of_numbers, thing_op::receive);
    c.ask(c.of_numbers, static_cast<std::uint8_t>(thing_op::receive), 0, {}, first);
    CHECK(c.came.of(first) == nonsense);
  }
  SECTION("no question about a thing") {
    const manta::node::borrowed_workbench on;
    on->out.clear();
    on->out.finish();
    const std::uint64_t number = ++c.last;
    manta::node::write_question(*on, {1, number}, wire::question::jobs, "a test");
    c.send(*on);
    CHECK(c.came.of(number) == nonsense);
  }
  c.ask(c.of_numbers, thing_op::withdraw, 77);  // of none: not answered
  CHECK(c.answer_of(c.of_permits, thing_op::available).starts_with("state 0, "));
}

TEST_CASE("a node that waits for too many things at once is told so, and is forgotten", "[node]") {
  hostile_case c;
  constexpr std::size_t most = manta::node::worker_things::most_open;
  std::uint64_t first = 0;
  for (std::size_t i = 0; i < most; ++i) {
    const std::uint64_t number = c.ask(c.of_numbers, thing_op::receive);
    if (i == 0) first = number;
  }
  CHECK(c.answer_of(c.of_permits, thing_op::acquire, 1) == "store_full");
  c.numbers.send(5);
  CHECK(c.came.of(first) == "state 1, 0");
  const std::uint64_t arrival = c.ask(c.of_meeting, thing_op::arrive);
  CHECK(c.answer_of(c.of_permits, thing_op::try_acquire, 3) == "store_full");
  c.lose_guest();
  CHECK(c.came.of(arrival) == "node_lost");
  // Nobody waits any more.
  c.numbers.send(6);
  CHECK(c.numbers.receive(30s) == 6);
}

TEST_CASE("a lost node's permits are given back, and what is met meanwhile is not lost", "[node]") {
  hostile_case c;
  CHECK(c.answer_of(c.of_permits, thing_op::acquire, 3) == "state 1, 0");
  const std::uint64_t waits = c.ask(c.of_permits, thing_op::acquire, 1);
  CHECK(c.answer_of(c.of_permits, thing_op::available) == "state 0, 0");
  c.lose_guest();
  CHECK(c.came.of(waits) == "node_lost");
  CHECK(c.permits.acquire(3, 30s).has_value());
}

TEST_CASE("who has a handle of one thing can't count to another one", "[node]") {
  hostile_case c;
  const id all[] = {c.of_numbers, c.of_texts, c.of_permits, c.of_meeting};
  for (const id& one : all) {
    for (std::uint64_t by = 1; by <= 8; ++by) {
      CHECK(c.answer_of({one.high, one.low + by}, thing_op::look) == "object_lost");
      CHECK(c.answer_of({one.high, one.low - by}, thing_op::look) == "object_lost");
      CHECK(c.answer_of({one.high, by}, thing_op::look) == "object_lost");
    }
  }
}

TEST_CASE("items that a lost node did not get are the oldest again, in their order", "[node]") {
  hostile_case c;
  for (int i = 0; i < 3; ++i) c.ask(c.of_numbers, thing_op::receive);
  CHECK(c.answer_of(c.of_numbers, thing_op::look) == "state 0, 0");  // they are listed
  std::promise<void> goes_on;
  manta::node::facts_line::of_things().add([&] { goes_on.get_future().wait(); });
  for (int i = 1; i <= 5; ++i) c.numbers.send(i);
  c.home.sees_end_of(c.guest);
  goes_on.set_value();
  CHECK(happens([&] { return c.numbers.size() == 5; }));  // two were not taken
  for (int i = 1; i <= 5; ++i) CHECK(c.numbers.receive(30s) == i);
}

// A node that takes nothing of what goes to it, until it goes on.
class stopped_loop {
 public:
  explicit stopped_loop(things_node& of)
      : waits_([this, &of] {
          of.on_loop([this] {
            has_stopped_.set_value();
            end_.get_future().wait();
          });
        }) {
    has_stopped_.get_future().wait();
  }
  ~stopped_loop() { goes_on(); }
  stopped_loop(const stopped_loop&) = delete;
  stopped_loop& operator=(const stopped_loop&) = delete;
  void goes_on() {
    if (!waits_.joinable()) return;
    end_.set_value();
    waits_.join();
  }

 private:
  std::promise<void> has_stopped_;
  std::promise<void> end_;
  std::thread waits_;
};

TEST_CASE("a slow node that is to get large items does not hold up the others", "[node]") {
  hostile_case c;
  things_node other(3, (c.at.path() / "c" / "s").string(), &c.came);
  c.home.sees(other);
  other.sees(c.home);
  std::vector<std::uint64_t> asked;
  for (int i = 0; i < 3; ++i) asked.push_back(c.ask(c.of_texts, thing_op::receive));
  CHECK(c.answer_of(c.of_texts, thing_op::look) == "state 0, 0");  // they are listed
  stopped_loop stands(c.guest);
  for (int i = 0; i < 3; ++i) c.texts.send(std::string(std::size_t{40} << 20U, 'x'));
  c.speaks = &other;
  for (int i = 0; i < 20; ++i) {
    CHECK(c.answer_of(c.of_permits, thing_op::available) == "state 0, 3");
  }
  // Who takes back what waits to be said to it is answered by that.
  for (const std::uint64_t one : asked) c.takes_back(c.of_texts, one);
  CHECK(c.answer_of(c.of_permits, thing_op::available) == "state 0, 3");
  stands.goes_on();
  for (const std::uint64_t one : asked) CHECK(c.came.of(one) == "state 1, 0");
  CHECK(c.texts.size() == 0);
}

TEST_CASE("what waits to be said to a slow node goes back when that is lost", "[node]") {
  hostile_case c;
  for (int i = 0; i < 3; ++i) c.ask(c.of_texts, thing_op::receive);
  CHECK(c.answer_of(c.of_texts, thing_op::look) == "state 0, 0");
  stopped_loop stands(c.guest);
  for (const char is : {'a', 'b', 'c', 'd'}) {
    c.texts.send(std::string(std::size_t{40} << 20U, is));
  }
  c.home.sees_end_of(c.guest);
  c.lose_guest();
  // Not even the first one has left as a whole.
  CHECK(happens([&] { return c.texts.size() == 4; }));
  std::string left;
  for (int i = 0; i < 4; ++i) left += c.texts.receive(30s).value_or("-").front();
  CHECK(left == "abcd");
}

TEST_CASE("a node that waits with too many bytes is told so, and forgotten with its end",
          "[node]") {
  hostile_case c;
  for (int i = 0; i < 4; ++i) c.texts.send("full");
  constexpr std::size_t most = manta::node::worker_things::most_open_bytes;
  constexpr std::size_t each = std::size_t{30} << 20U;
  std::vector<std::uint64_t> waiting;
  for (std::size_t sum = 0; sum + each < most; sum += each) {
    waiting.push_back(c.send_text(c.of_texts, std::string(each, 'x')));
  }
  const std::uint64_t refused = c.send_text(c.of_texts, std::string(each, 'y'));
  CHECK(c.came.of(refused) == "store_full");
  CHECK(c.answer_of(c.of_permits, thing_op::try_acquire, 1) == "state 1, 0");  // what is small goes
  CHECK(c.texts.receive() == "full");
  CHECK(c.came.of(waiting.front()) == "state 1, 0");
  const std::uint64_t again = c.send_text(c.of_texts, std::string(each, 'z'));  // there is room
  CHECK(c.answer_of(c.of_texts, thing_op::look) == "state 0, 4");
  c.lose_guest();
  CHECK(c.came.of(again) == "node_lost");
}

// Of four places three have an item, and one is kept for the guest's.
struct kept_case : hostile_case {
  kept_case() {
    for (const char* const one : {"1", "2", "3"}) texts.send(one);
    CHECK(came.of(kept = ask(of_texts, thing_op::keep_room)) == "state 1, 0");
    CHECK_FALSE(has_room());
  }
  bool has_room() { return texts.try_send(std::string("none")); }
  std::string fill(std::uint64_t by) {
    return came.of(send_text(of_texts, "late", thing_op::fill_room, by));
  }
  std::uint64_t kept = 0;
};

TEST_CASE("room that is kept for a node's item is filled, freed, or free with its end", "[node]") {
  kept_case c;
  SECTION("filled, once") {
    CHECK(c.fill(c.kept) == "state 1, 0");
    CHECK(c.fill(c.kept) == "node_lost");
    c.ask(c.of_texts, thing_op::free_room, c.kept);  // of none: not answered
    CHECK(c.answer_of(c.of_texts, thing_op::look) == "state 0, 4");
  }
  SECTION("freed, and who waits behind it goes on") {
    const std::uint64_t behind = c.send_text(c.of_texts, "behind");
    CHECK(c.answer_of(c.of_texts, thing_op::look) == "state 0, 3");
    c.ask(c.of_texts, thing_op::free_room, c.kept);
    CHECK(c.came.of(behind) == "state 1, 0");
    CHECK(c.fill(c.kept) == "node_lost");
  }
  SECTION("not filled, by nonsense, and by who has none") {
    CHECK(c.fill(c.ask(c.of_numbers, thing_op::receive)) == "node_lost");
    CHECK(c.answer_of(c.of_numbers, thing_op::fill_room, c.kept, "1234") == "node_lost");
    CHECK(c.answer_of(c.of_texts, thing_op::fill_room, c.kept, "\x7f") == nonsense);
    CHECK(c.has_room());
  }
  SECTION("free with the end of its node, which may not have heard of it") {
    std::promise<void> goes_on;
    CHECK(c.texts.receive(30s) == "1");
    CHECK(c.answer_of(c.of_texts, thing_op::keep_room) == "state 1, 0");
    c.ask(c.of_texts, thing_op::keep_room);
    CHECK(c.answer_of(c.of_texts, thing_op::look) == "state 0, 2");  // it is listed
    manta::node::facts_line::of_things().add([&] { goes_on.get_future().wait(); });
    c.lose_guest();
    CHECK(c.texts.receive(30s) == "2");  // is kept for the third before that is ended
    goes_on.set_value();
    CHECK(happens([&] { return c.has_room() && c.texts.size() == 4; }));
  }
  SECTION("freed by who has given its home up, and hears of no room") {
    const std::uint64_t waits = c.ask(c.of_texts, thing_op::keep_room);
    const std::uint64_t is_met = c.ask(c.of_texts, thing_op::keep_room);
    CHECK(c.answer_of(c.of_texts, thing_op::look) == "state 0, 3");  // they are listed
    c.ask(c.of_texts, thing_op::free_room, waits);
    CHECK(c.answer_of(c.of_texts, thing_op::look) == "state 0, 3");
    std::promise<void> goes_on;
    manta::node::facts_line::of_things().add([&] { goes_on.get_future().wait(); });
    c.takes_back(c.of_texts, is_met, thing_op::free_room);
    CHECK(c.texts.receive(30s) == "1");  // is kept for it, which is told behind that
    goes_on.set_value();
    CHECK(happens([&] { return c.has_room(); }));
    CHECK(c.fill(c.kept) == "state 1, 0");
    CHECK(c.texts.size() == 4);
  }
  SECTION("taken back: what waits at once, what is kept by who has it") {
    c.takes_back(c.of_texts, c.kept);
    const std::uint64_t second = c.ask(c.of_texts, thing_op::keep_room);
    CHECK(c.answer_of(c.of_texts, thing_op::look) == "state 0, 3");
    c.takes_back(c.of_texts, second);
    CHECK(c.came.of(second) == "state 0, 0");
    CHECK(c.fill(c.kept) == "state 1, 0");
  }
}

TEST_CASE("room that is kept is told of when its channel has been closed", "[node]") {
  kept_case c;
  c.texts.close();
  for (const char* const one : {"1", "2", "3"}) CHECK(c.texts.receive(30s) == one);
  CHECK_FALSE(c.texts.try_receive().has_value());  // not known yet
  auto last = std::async(std::launch::async, [&] { return c.texts.next(); });
  SECTION("an item comes of it") {
    CHECK(c.fill(c.kept) == "state 1, 0");
    CHECK(last.get() == "late");
    CHECK(c.answer_of(c.of_texts, thing_op::keep_room) == "state 2, 0");
  }
  SECTION("none comes, since its node ends") {
    c.lose_guest();
    CHECK(last.get() == std::nullopt);
  }
}

TEST_CASE("a node that has given this one up and asks again begins anew", "[node]") {
  hostile_case c;
  const auto asks = [&](std::uint64_t number, const id& of, thing_op op, std::uint64_t value) {
    return c.came.of(c.ask(of, static_cast<std::uint8_t>(op), value, {}, number));
  };
  CHECK(asks(in_life(1, 1), c.of_permits, thing_op::acquire, 3) == "state 1, 0");
  c.ask(c.of_permits, static_cast<std::uint8_t>(thing_op::acquire), 1, {}, in_life(1, 2));
  CHECK(asks(in_life(1, 3), c.of_permits, thing_op::available, 0) == "state 0, 0");  // it is listed
  SECTION("what it had is given back as it asks") {
    CHECK(asks(in_life(2, 1), c.of_permits, thing_op::acquire, 2) == "state 1, 0");
    CHECK(c.came.of(in_life(1, 2)) == "node_lost");
    CHECK(asks(in_life(1, 4), c.of_permits, thing_op::available, 0) == "node_lost");
    CHECK(c.permits.available() == 1);
  }
  SECTION("one that was given up here, and does not know, is as a new one") {
    c.lose_guest();
    CHECK(c.came.of(in_life(1, 2)) == "node_lost");
    CHECK(asks(in_life(1, 4), c.of_permits, thing_op::acquire, 3) == "state 1, 0");
    CHECK(c.permits.available() == 0);
  }
  SECTION("what was answered stays taken until it asks, or ends") {
    CHECK(asks(in_life(1, 4), c.of_permits, thing_op::available, 0) == "state 0, 0");
    CHECK_FALSE(c.permits.try_acquire().has_value());
    c.lose_guest();
    CHECK(c.permits.acquire(3, 30s).has_value());
  }
}

TEST_CASE("questions about things whose bytes are at random harm nobody", "[node]") {
  hostile_case c;
  std::mt19937_64 random(Catch::rngSeed());
  for (int i = 0; i < 3000; ++i) {
    const id of[] = {c.of_numbers, c.of_texts, c.of_permits, c.of_meeting};
    std::string behind(random() % 24, '\0');
    for (char& one : behind) one = static_cast<char>(random());
    c.ask(of[random() % 4], static_cast<std::uint8_t>(random() % 19), random() % 5, behind);
  }
  CHECK(c.answer_of(c.of_meeting, thing_op::look) == nonsense);  // all have come
  c.lose_guest();
  CHECK(c.permits.acquire(3, 30s).has_value());
  CHECK(c.answer_of(c.of_meeting, thing_op::look) == nonsense);
}

}  // namespace
}  // namespace manta_test::node_things_test
