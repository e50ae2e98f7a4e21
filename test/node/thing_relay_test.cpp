// SPDX-License-Identifier: Apache-2.0
// What a node asks another one about channels, for its isolated workers and for itself, where this
// test is that other one: what leaves, what waits, and what is given up. With real ones it is
// test/cluster's.
#include "node/thing_relay.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <manta/channel.hpp>
#include <manta/select.hpp>

#include <catch2/catch.hpp>

#include "exec/support.hpp"
#include "node/far_thing.hpp"
#include "node/node_things.hpp"
#include "node/trip.hpp"
#include "node/workbench.hpp"

namespace manta_test::thing_relay_test {
namespace {

using namespace std::chrono_literals;
using manta::node::shared_thing;
using manta::node::thing_answer;
using manta::node::thing_op;
using manta::node::workbench;
using texts = manta::channel<std::string>;
namespace node = manta::node;
namespace wire = manta::wire;

constexpr std::uint64_t home_number = 9;
constexpr std::size_t mib = std::size_t{1} << 20U;

struct asked {
  thing_op op{};
  std::uint64_t value = 0;
  std::uint64_t number = 0;  // by which it is answered
  std::uint64_t thing = 0;
};

wire::frame_buffer frame_of(workbench& on) {
  wire::frame_buffer out;
  std::byte* to = out.reset(on.writer.size_bytes()).data();
  for (const auto piece : on.writer.pieces()) to = std::ranges::copy(piece, to).out;
  return out;
}

// Two channels of another node, which answers when the test says so.
class played_home {
 public:
  played_home() = default;
  ~played_home() {
    lose();
    settle();
    node::node_things::global().stop_answering();  // and its threads end
  }
  played_home(const played_home&) = delete;
  played_home& operator=(const played_home&) = delete;

  texts channel(std::uint64_t id) {
    const manta::spec::reference as{.what = {home_number, id},
                                    .owner = {},
                                    .type = manta::codec::type_hash<texts>,
                                    .kind = manta::spec::reference_kind::channel};
    return manta::detail::channel_access::make<std::string>(
        things_.view(as, manta::detail::channel_items<std::string>::known(), 1,
                     &manta::detail::channel_mirror<std::string>::make, {nullptr, false}));
  }
  /// What has come, of one kind.
  std::vector<asked> all(thing_op op) const {
    std::vector<asked> out;
    const std::lock_guard lock(mutex_);
    std::ranges::copy_if(came_, std::back_inserter(out),
                         [op](const asked& one) { return one.op == op; });
    return out;
  }
  std::size_t count(thing_op op) const { return all(op).size(); }
  /// It has happened (1), or is closed (2), or taken back (0).
  void answer(const asked& one, std::uint8_t state = 1) {
    const node::borrowed_workbench on;
    on->out.clear();
    manta::codec::write(on->out, thing_answer{state, 0});
    on->out.finish();
    node::write_answer(*on, {1, one.number}, "a test");
    say(one, *on);
  }
  void refuse(const asked& one) {
    const node::borrowed_workbench on;
    node::write_failure(*on, {1, 1}, {1, one.number}, {manta::errc::store_full, "none"});
    say(one, *on);
  }
  void lose() { asks_.end({manta::errc::node_lost, "it is lost"}); }
  /// Until what was to leave by now has.
  static void settle() {
    std::promise<void> done;
    node::node_things::global().do_aside(home_number, [&] { done.set_value(); });
    done.get_future().wait();
  }

 private:
  void say(const asked& one, workbench& what) {
    const wire::frame_buffer frame = frame_of(what);
    const node::borrowed_workbench on;
    const auto read = on->reader.read(frame.bytes());
    asks_.answer(one.number, std::get<wire::result_view>((*read).body));
  }
  static void send(void* self, workbench& written) noexcept {
    const wire::frame_buffer frame = frame_of(written);
    const node::borrowed_workbench on;
    const auto read = on->reader.read(frame.bytes());
    const auto& ask = std::get<wire::ask_view>((*read).body);
    manta::codec::in_archive in(ask.with);
    const auto question = manta::codec::read<node::thing_question>(in);
    auto* const home = static_cast<played_home*>(self);
    const std::lock_guard lock(home->mutex_);
    home->came_.push_back({static_cast<thing_op>(question.op), question.value,
                           (*read).head.request.low, question.low});
  }

  mutable std::mutex mutex_;
  std::vector<asked> came_;
  std::atomic<std::uint32_t> is_making_{0};
  node::worker_questions asks_{
      1, &played_home::send, this, is_making_, node::worker_questions::scope::none, 1};
  node::far_things things_{asks_, home_number};
};

// A worker, and what it was told under each number: a state, or the code of an error.
struct played_worker {
  explicit played_worker(played_home& at) : home(at) {}
  ~played_worker() { relay->end(); }
  played_worker(const played_worker&) = delete;
  played_worker& operator=(const played_worker&) = delete;

  void ask(std::uint64_t number, const texts& of, thing_op op, std::uint64_t value = 0,
           const std::string& item = {}) {
    only_ask(number, of, op, value, item);
    played_home::settle();
  }
  /// What it wants of its home may not have left then.
  void only_ask(std::uint64_t number, const texts& of, thing_op op, std::uint64_t value = 0,
                const std::string& item = {}) {
    const shared_thing thing{.owner = manta::detail::channel_access::owner(of),
                             .core = &manta::detail::channel_access::state(of).core,
                             .items = manta::detail::channel_items<std::string>::known(),
                             .kind = manta::spec::reference_kind::channel,
                             .type = 0,
                             .id = {}};
    manta::codec::out_archive out;
    const manta::spec::parcel_view view = manta::codec::encode(out, item);
    manta::codec::in_archive in(view);
    relay->ask(number, thing, {0, 0, static_cast<std::uint8_t>(op), value}, in);
  }
  void send(std::uint64_t number, const texts& to, std::size_t size = mib) {
    ask(number, to, thing_op::send, 0, std::string(size, 'x'));
  }
  std::string told(std::uint64_t number) const {
    const std::lock_guard lock(mutex);
    const auto found = answers.find(number);
    return found == answers.end() ? "nothing" : found->second;
  }
  node::worker_things::told hear(std::uint64_t number, const node::worker_things::writer& write) {
    if (is_gone) return node::worker_things::told::no;
    const node::borrowed_workbench on;
    on->out.clear();
    write(*on);
    on->out.finish();
    manta::codec::in_archive in(on->out.view());
    const auto said = manta::codec::read<thing_answer>(in);
    const std::lock_guard lock(mutex);
    answers[number] = "state " + std::to_string(said.state);
    return node::worker_things::told::yes;
  }

  played_home& home;
  std::atomic<bool> is_gone{false};
  mutable std::mutex mutex;
  std::map<std::uint64_t, std::string> answers;
  std::shared_ptr<node::thing_relay> relay = std::make_shared<node::thing_relay>(
      [this](std::uint64_t number, const node::worker_things::writer& write, bool /*may_wait*/) {
        return hear(number, write);
      },
      [this](std::uint64_t number, const manta::error& why) {
        const std::lock_guard lock(mutex);
        answers[number] = manta::to_string(why.code());
      });
};

// How often that room was given up.
std::ptrdiff_t freed(const played_home& at, const asked& kept) {
  return std::ranges::count(at.all(thing_op::free_room), kept.number, &asked::value);
}

// 32 MiB of them; one of 1 MiB and a little more is behind the last.
constexpr std::size_t that_leave = node::most_asked_bytes / mib;

// A worker whose sends, 1 to 40, have not all left.
struct crowded {
  crowded() {
    for (std::uint64_t i = 1; i <= 40; ++i) worker.send(i, one);
    left = home.all(thing_op::send);
    REQUIRE(left.size() == that_leave);
  }
  /// Each that is open has the relay.
  bool comes_to_questions(std::size_t count) const {
    return happens([&] { return static_cast<std::size_t>(worker.relay.use_count()) - 1 == count; });
  }

  played_home home;
  played_worker worker{home};
  texts one = home.channel(1);
  std::vector<asked> left;
};

TEST_CASE_METHOD(
    crowded, "what workers send to a channel elsewhere leaves until that is much, and then in turn",
    "[node]") {
  SECTION("one for each that is answered, whatever the answer is") {
    home.answer(left[0]);
    home.refuse(left[1]);
    home.answer(left[2], 2);
    home.settle();
    CHECK(worker.told(1) == "state 1");
    CHECK(worker.told(2) == "store_full");
    CHECK(worker.told(3) == "state 2");
    CHECK(home.count(thing_op::send) == that_leave + 3);
  }
  SECTION("one that is taken back does not leave, or gives its bytes back when that is answered") {
    worker.ask(0, one, thing_op::withdraw, 40);
    CHECK(worker.told(40) == "state 0");
    CHECK(home.count(thing_op::withdraw) == 0);
    worker.ask(0, one, thing_op::withdraw, 5);
    REQUIRE(home.count(thing_op::withdraw) == 1);
    CHECK(home.all(thing_op::withdraw)[0].value == left[4].number);
    home.answer(left[4], 0);
    home.settle();
    CHECK(worker.told(5) == "state 0");
    CHECK(home.count(thing_op::send) == that_leave + 1);
    for (const asked& each : left) home.answer(each);
    home.settle();
    CHECK(home.count(thing_op::send) == 39);
  }
  SECTION("not those to another channel, and small ones as others") {
    const texts other = home.channel(2);
    worker.send(41, other);
    CHECK(home.all(thing_op::send).back().thing == 2);
    worker.send(42, one, 1);
    CHECK(home.count(thing_op::send) == that_leave + 1);
  }
  SECTION("who wants room waits for its turn, as if it had an item") {
    worker.ask(41, one, thing_op::keep_room);
    CHECK(home.count(thing_op::keep_room) == 0);
    for (std::size_t i = 0; i < 8; ++i) home.answer(left[i]);
    home.settle();
    CHECK(home.count(thing_op::send) == 40);
    CHECK(home.count(thing_op::keep_room) == 0);
    home.answer(left[8]);
    home.settle();
    CHECK(home.count(thing_op::keep_room) == 1);
    worker.ask(42, one, thing_op::keep_room);
    CHECK(home.count(thing_op::keep_room) == 2);
  }
}

TEST_CASE_METHOD(crowded, "what is held to be sent elsewhere goes with its worker, or its home",
                 "[node]") {
  SECTION("none of a worker that has ended, and those of others then") {
    played_worker other(home);
    other.send(1, one);
    worker.relay->end();
    home.settle();
    CHECK(home.count(thing_op::withdraw) == that_leave);
    for (const asked& each : left) home.answer(each, 0);
    home.settle();
    CHECK(home.count(thing_op::send) == that_leave + 1);
    home.answer(home.all(thing_op::send).back());
    CHECK(other.told(1) == "state 1");
  }
  SECTION("all are told when their home is lost") {
    home.lose();
    home.settle();
    CHECK(happens([&] { return worker.told(40) == "node_lost"; }));
    for (std::uint64_t i = 1; i <= 40; ++i) CHECK(worker.told(i) == "node_lost");
    CHECK_FALSE(worker.relay->is_waiting());
  }
}

// Nothing leaves for the home as long as this lives.
struct busy_line {
  busy_line() {
    node::node_things::global().do_aside(home_number,
                                         [until = end.get_future().share()] { until.wait(); });
  }
  ~busy_line() { end.set_value(); }
  busy_line(const busy_line&) = delete;
  busy_line& operator=(const busy_line&) = delete;

  std::promise<void> end;
};

TEST_CASE_METHOD(crowded,
                 "what is held and taken back ends at once, whatever waits to leave for its home",
                 "[node]") {
  REQUIRE(comes_to_questions(40));
  std::optional<busy_line> line(std::in_place);
  SECTION("by its worker") {
    worker.only_ask(0, one, thing_op::withdraw, 40);
    CHECK(worker.told(40) == "state 0");
    CHECK(comes_to_questions(39));
    // One that has not come to the line stands behind what does.
    worker.only_ask(41, one, thing_op::send, 0, "item");
    worker.only_ask(0, one, thing_op::withdraw, 41);
    CHECK(worker.told(41) == "nothing");
    line.reset();
    played_home::settle();
    CHECK(worker.told(41) == "state 0");
  }
  SECTION("with its worker") {
    worker.relay->end();
    CHECK(comes_to_questions(that_leave));
  }
  line.reset();
  played_home::settle();
  CHECK(home.count(thing_op::send) == that_leave);
}

TEST_CASE("what a node and its workers send to a channel elsewhere is in one line", "[node]") {
  played_home home;
  played_worker worker(home);
  const texts one = home.channel(1);
  for (std::uint64_t i = 1; i <= that_leave + 1; ++i) worker.send(i, one);
  // It stands behind that one, and is taken back from there: its home would have to answer.
  auto ours = std::async(std::launch::async, [&] { return one.send(std::string("ours"), 1ms); });
  const bool has_ended = happens([&] { return ours.wait_for(0s) == std::future_status::ready; });
  if (!has_ended) home.lose();  // else it would not end
  REQUIRE(has_ended);
  CHECK_FALSE(ours.get());
  CHECK(home.count(thing_op::send) == that_leave);
  CHECK(home.count(thing_op::withdraw) == 0);
  home.answer(home.all(thing_op::send)[0]);
  home.settle();
  CHECK(home.count(thing_op::send) == that_leave + 1);
}

TEST_CASE("room that is kept for a worker's item is filled or freed, once", "[node]") {
  played_home home;
  played_worker worker(home);
  const texts one = home.channel(1);
  worker.ask(1, one, thing_op::keep_room);
  REQUIRE(home.count(thing_op::keep_room) == 1);
  const asked kept = home.all(thing_op::keep_room)[0];
  SECTION("by who has it") {
    home.answer(kept);
    CHECK(worker.told(1) == "state 1");
    SECTION("filled") {
      worker.ask(2, one, thing_op::fill_room, 1, "item");
      worker.ask(3, one, thing_op::fill_room, 1, "item");
      CHECK(worker.told(3) == "node_lost");
      REQUIRE(home.count(thing_op::fill_room) == 1);
      CHECK(home.all(thing_op::fill_room)[0].value == kept.number);
      home.answer(home.all(thing_op::fill_room)[0]);
      CHECK(worker.told(2) == "state 1");
      worker.ask(0, one, thing_op::free_room, 1);
      CHECK(freed(home, kept) == 0);
    }
    SECTION("not filled, since its home can't") {
      worker.ask(2, one, thing_op::fill_room, 1, "item");
      home.refuse(home.all(thing_op::fill_room).at(0));
      CHECK(worker.told(2) == "store_full");
      worker.ask(0, one, thing_op::free_room, 1);
      CHECK(freed(home, kept) == 1);
    }
    SECTION("freed") {
      worker.ask(0, one, thing_op::free_room, 1);
      worker.ask(0, one, thing_op::free_room, 1);
      CHECK(freed(home, kept) == 1);
      worker.ask(2, one, thing_op::fill_room, 1, "item");
      CHECK(worker.told(2) == "node_lost");
      CHECK(home.count(thing_op::fill_room) == 0);
    }
    CHECK_FALSE(worker.relay->is_waiting());
  }
  SECTION("with its worker's end") {
    home.answer(kept);
    worker.relay->end();
    home.settle();
    CHECK(freed(home, kept) == 1);
  }
  SECTION("when its worker has not heard of it") {
    worker.is_gone = true;
    home.answer(kept);
    home.settle();
    CHECK(freed(home, kept) == 1);
  }
  SECTION("when its worker has ended before") {
    worker.relay->end();
    home.settle();
    CHECK(home.count(thing_op::withdraw) == 1);
    home.answer(kept);  // it was met before that came
    home.settle();
    CHECK(freed(home, kept) == 1);
  }
  SECTION("when its home was given up, which may live") {
    home.lose();
    home.settle();
    CHECK(worker.told(1) == "node_lost");
    CHECK(freed(home, kept) == 1);
  }
}

TEST_CASE("of a select's rooms elsewhere one is filled and the others are freed, each once",
          "[node]") {
  played_home home;
  const texts a = home.channel(1);
  const texts b = home.channel(2);
  auto sends = std::async(std::launch::async, [&] {
    manta::select(manta::on_send(a, std::string("a")), manta::on_send(b, std::string("b")));
  });
  const struct end_of_home {
    ~end_of_home() { home.lose(); }  // whatever has failed, the select ends
    played_home& home;
  } at_end{home};
  for (std::size_t i = 0; i < 2; ++i) {  // it looks at both first
    REQUIRE(happens([&] { return home.count(thing_op::try_send) > i; }));
    home.answer(home.all(thing_op::try_send)[i], 0);
  }
  REQUIRE(happens([&] { return home.count(thing_op::keep_room) == 2; }));
  const std::vector<asked> kept = home.all(thing_op::keep_room);
  SECTION("both are there") {
    home.answer(kept[1]);
    home.answer(kept[0]);
    REQUIRE(happens([&] { return home.count(thing_op::fill_room) == 1; }));
    const asked filled = home.all(thing_op::fill_room)[0];
    CHECK(filled.value == kept[1].number);
    REQUIRE(home.count(thing_op::free_room) == 1);
    CHECK(home.all(thing_op::free_room)[0].value == kept[0].number);
    SECTION("and the item is put in") {
      home.answer(filled);
      sends.get();
      CHECK(home.count(thing_op::free_room) == 1);
    }
    SECTION("and the item can't be put in") {
      home.refuse(filled);
      CHECK_THROWS_AS(sends.get(), manta::store_full);
      CHECK(home.count(thing_op::free_room) == 2);
      CHECK(home.all(thing_op::free_room)[1].value == kept[1].number);
    }
    CHECK(home.count(thing_op::fill_room) == 1);
  }
  SECTION("their home is given up, which may live") {
    home.lose();
    CHECK_THROWS_AS(sends.get(), manta::node_lost);
    // It may be lost before a question has gone, and is told again then.
    for (const asked& one : kept) CHECK(freed(home, one) > 0);
    CHECK(home.count(thing_op::fill_room) == 0);
  }
}

}  // namespace
}  // namespace manta_test::thing_relay_test
