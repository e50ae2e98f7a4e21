// SPDX-License-Identifier: Apache-2.0
// What another node asks of this one's channels, semaphores and barriers when it is no honest one:
// two of them in this process, over a unix socket. What honest ones do is test/cluster's.
#include "node/node_things.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include <manta/barrier.hpp>
#include <manta/channel.hpp>
#include <manta/semaphore.hpp>

#include "node/facts_line.hpp"
#include "node/trip.hpp"
#include "node/workbench.hpp"
#include "wire/error_record.hpp"
#include "wire/link_support.hpp"

namespace manta_test::node_things_test {
namespace {

using namespace std::chrono_literals;
using manta::base::id;
using manta::node::node_things;
using manta::node::peers;
using manta::node::thing_op;
namespace spec = manta::spec;

// What was answered under each number: the code of an error, or the state of what happened.
class answers {
 public:
  void put(std::span<const std::byte> message) {
    const manta::node::borrowed_workbench on;
    const auto read = on->reader.read(message);
    if (!read) return;
    const auto* const came = std::get_if<wire::result_view>(&read->body);
    if (came == nullptr) return;
    std::string what = "no value";
    if (const auto* const failure = std::get_if<wire::error_view>(&came->outcome)) {
      what = manta::to_string(wire::to_error(*failure).code());
    } else if (const auto* const value = std::get_if<spec::parcel_view>(&came->outcome)) {
      manta::codec::in_archive in(*value);
      const auto said = manta::codec::read<manta::node::thing_answer>(in);
      what = "state " + std::to_string(said.state) + ", " + std::to_string(said.value);
    }
    const std::lock_guard lock(mutex_);
    all_.emplace(read->head.request.low, what);  // who asked has taken the first one
  }
  // Waits for it: for long, it may be behind all questions that fit.
  std::string of(std::uint64_t number) const {
    const auto limit = std::chrono::steady_clock::now() + 100s;
    while (std::chrono::steady_clock::now() < limit) {
      {
        const std::lock_guard lock(mutex_);
        const auto found = all_.find(number);
        if (found != all_.end()) return found->second;
      }
      std::this_thread::yield();
    }
    return "nothing";
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::string> all_;
};

// Gives questions to the things of this process, and answers to who waits for them.
class things_ear final : public peers::visitor {
 public:
  explicit things_ear(answers* to) : to_(to) {}
  void on_begin(peers& /*by*/) override {}
  void on_joined(peers& /*by*/, const spec::node_member& /*one*/) override {}
  manta::base::deadline on_turn(peers& /*by*/, manta::base::time_point /*now*/) override {
    return std::nullopt;
  }
  void on_message(peers& /*by*/, std::uint64_t from, const id& about,
                  const peers::kept_message& message) override {
    if (to_ != nullptr) return to_->put(message.bytes);
    if (peers::topic_of(about) != peers::thing) return;
    node_things::global().on_question(from, message, nullptr);
  }
  void on_gone(peers& /*by*/, std::uint64_t /*node*/, const std::string& /*why*/) override {}
  void on_news(peers& /*by*/) override {}

 private:
  answers* const to_;
};

spec::node_member things_member(std::uint64_t number, const std::string& path) {
  spec::node_member out;
  out.who.name = "rank-" + std::to_string(number);
  out.who.address = "unix:" + path;
  out.who.workers = 1;
  out.process = {number, 1};
  out.epoch = number;
  return out;
}

class things_node {
 public:
  things_node(std::uint64_t number, std::string path, answers* to)
      : path_(std::move(path)),
        number_(number),
        ear_(to),
        loop_(*wire::loop::start({})),
        others_(std::make_unique<peers>(*loop_,
                                        peers::settings{.self = {number, 1},
                                                        .cluster =
                                                            [] {
                                                              return id{7, 7};
                                                            }},
                                        ear_)) {
    auto opened = wire::socket_listener::open(
        *loop_, {.path = path_}, someone(number),
        [this](link_ptr from, const wire::greeting& by) { others_->accept(std::move(from), by); });
    if (!opened) FAIL(opened.error().message());
    listener_ = *std::move(opened);
    on_loop([this] { others_->begin(number_); });
  }
  ~things_node() {
    listener_.reset();
    others_.reset();
  }
  things_node(const things_node&) = delete;
  things_node& operator=(const things_node&) = delete;

  void sees(const things_node& other) {
    on_loop([&] { others_->see(things_member(other.number_, other.path_)); });
  }
  // The head says that it is a member no more.
  void sees_end_of(const things_node& other) {
    on_loop([&] {
      spec::node_member is = things_member(other.number_, other.path_);
      is.is = spec::node_state::ended;
      others_->see(is);
    });
  }
  void on_loop(const std::function<void()>& what) {
    std::promise<void> done;
    loop_->post([&] {
      what();
      done.set_value();
    });
    done.get_future().wait();
  }
  peers& others() { return *others_; }

 private:
  const std::string path_;
  const std::uint64_t number_;
  things_ear ear_;
  std::unique_ptr<wire::loop> loop_;
  std::unique_ptr<peers> others_;
  std::unique_ptr<wire::socket_listener> listener_;
};

// A home and who asks it; three things of the home's, which are lent as long as this lives.
class hostile_case {
 public:
  hostile_case() {
    home.sees(guest);
    guest.sees(home);
    home.on_loop([this] { manta::node::far_handles::global().begin(home.others()); });
    node_things::global().open(home.others());
    on_->write_for(2);
    of_numbers = lend(numbers);
    of_texts = lend(texts);
    of_permits = lend(permits);
    of_meeting = lend(meeting);
  }
  ~hostile_case() {
    node_things::global().close();
    on_->lent.clear();
    node_things::global().stop_answering();
    manta::node::far_handles::global().close();
  }
  hostile_case(const hostile_case&) = delete;
  hostile_case& operator=(const hostile_case&) = delete;

  // Its number.
  std::uint64_t ask(const id& of, std::uint8_t op, std::uint64_t value = 0,
                    const std::string& behind = {}, std::uint64_t number = 0) {
    const manta::node::borrowed_workbench on;
    on->out.clear();
    manta::codec::write(on->out, manta::node::thing_question{of.high, of.low, op, value});
    for (const char c : behind) on->out.raw(static_cast<std::uint8_t>(c));
    on->out.finish();
    if (number == 0) number = ++last;
    manta::node::write_question(*on, {1, number}, wire::question::thing, "a test");
    send(*on);
    return number;
  }
  std::uint64_t ask(const id& of, thing_op op, std::uint64_t value = 0,
                    const std::string& behind = {}) {
    return ask(of, static_cast<std::uint8_t>(op), value, behind);
  }
  std::uint64_t send_text(const id& of, const std::string& item) {
    const manta::node::borrowed_workbench on;
    on->write_for(1);
    on->out.clear();
    const manta::node::thing_question asked{of.high, of.low,
                                            static_cast<std::uint8_t>(thing_op::send), 0};
    manta::codec::write(on->out, asked);
    manta::codec::write(on->out, item);
    on->out.finish();
    const std::uint64_t number = ++last;
    manta::node::write_question(*on, {1, number}, wire::question::thing, "a test");
    send(*on);
    return number;
  }
  std::string answer_of(const id& of, thing_op op, std::uint64_t value = 0,
                        const std::string& behind = {}) {
    return came.of(ask(of, op, value, behind));
  }
  void send(manta::node::workbench& on) {
    const auto is = speaks->others().send_when_room(1, {peers::thing, ++last}, on.writer.pieces(),
                                                    on.writer.size_bytes());
    if (!is) FAIL(is.error().message());
  }
  // As if it had come from the guest.
  void takes_back(const id& of, std::uint64_t number) {
    const manta::node::borrowed_workbench on;
    on->out.clear();
    const auto op = static_cast<std::uint8_t>(thing_op::withdraw);
    manta::codec::write(on->out, manta::node::thing_question{of.high, of.low, op, number});
    on->out.finish();
    manta::node::write_question(*on, {1, ++last}, wire::question::thing, "a test");
    const auto kept = std::make_shared<wire::frame_buffer>();
    kept->reset(on->writer.size_bytes());
    std::byte* to = kept->room().data();
    for (const auto piece : on->writer.pieces()) to = std::ranges::copy(piece, to).out;
    home.on_loop([&] { node_things::global().on_question(2, {kept, kept->bytes()}, nullptr); });
  }
  // The loop hears that the guest is gone.
  void lose_guest() {
    home.on_loop([] { node_things::global().on_gone(2); });
  }

  answers came;
  folder at;
  things_node home{1, (at.path() / "a" / "s").string(), nullptr};
  things_node guest{2, (at.path() / "b" / "s").string(), &came};
  things_node* speaks = &guest;
  manta::channel<int> numbers{4};
  manta::channel<std::string> texts{4};
  manta::semaphore permits{3};
  manta::barrier meeting{2};
  id of_numbers;
  id of_texts;
  id of_permits;
  id of_meeting;
  std::uint64_t last = 0;

 private:
  template <class H>
  id lend(const H& handle) {
    manta::codec::out_archive out;
    manta::codec::write(out, handle);
    const auto& thing =
        *reinterpret_cast<const manta::node::shared_thing*>(out.lent().front().as.local);
    return node_things::global().name(*on_, thing, "a test").id;
  }
  manta::node::borrowed_workbench on_;
};

constexpr const char* nonsense = "decode_failed";

// The number of a question of what asks in that life of its: worker_questions::life_of.
constexpr std::uint64_t in_life(std::uint64_t life, std::uint64_t number) {
  return life << 40U | number;
}

TEST_CASE("a node that asks nonsense of channels, semaphores and barriers is told so", "[node]") {
  hostile_case c;
  CHECK(c.answer_of(c.of_numbers, thing_op::look) == "state 0, 0");
  SECTION("what is unknown") {
    for (const id& of : {id{0, 0}, id{c.of_numbers.high, 99}, id{c.of_numbers.high + 1, 1}}) {
      CHECK(c.answer_of(of, thing_op::look) == "object_lost");
    }
    for (const int op : {13, 14, 255}) {
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
    c.ask(of[random() % 4], static_cast<std::uint8_t>(random() % 16), random() % 5, behind);
  }
  CHECK(c.answer_of(c.of_meeting, thing_op::look) == nonsense);  // all have come
  c.lose_guest();
  CHECK(c.permits.acquire(3, 30s).has_value());
  CHECK(c.answer_of(c.of_meeting, thing_op::look) == nonsense);
}

}  // namespace
}  // namespace manta_test::node_things_test
