// SPDX-License-Identifier: Apache-2.0
#include "wire/courier.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "wire/faulty_link.hpp"
#include "wire/link_support.hpp"

namespace {

using namespace std::chrono_literals;
using manta::errc;
using manta_test::bytes;
using manta_test::dice;
using manta_test::fault_counts;
using manta_test::fault_map;
using manta_test::faulty_link;
using manta_test::happens;
using manta_test::link_ptr;
using manta_test::message;
using manta_test::number_of;
using manta_test::run_seed;
using manta_test::scaled;
using manta_test::socket_house;
using manta_test::someone;
using wire_courier = manta::wire::courier;
namespace wire = manta::wire;
namespace base = manta::base;

constexpr base::id name_a{10, 1};
constexpr base::id name_b{20, 1};

// Some are so long that they are kept where they are until they have left, some of them so long
// that they stay in the frame in which they come.
std::size_t length_of(std::uint64_t number, bool some_are_long) {
  if (!some_are_long || number % 5 != 0) return 8 + number % 300;
  const std::size_t least = number % 20 == 0 ? std::size_t{200} << 10U : std::size_t{16} << 10U;
  return least + 8 * (number % 3000);
}

// One side of a conversation: asks for 0, 1, 2 and so on, and answers each number with the next.
class talker final : private wire_courier::visitor {
 public:
  talker(const base::id& self, const base::id& peer, std::function<link_ptr()> dial = {},
         bool some_are_long = false)
      : self_(self),
        some_are_long_(some_are_long),
        courier_(settings(self, peer, std::move(dial)), *this) {}

  wire_courier& courier() { return courier_; }

  /// False: no room for it now.
  bool ask() {
    const std::uint64_t number = asked_;
    const bytes what = message(number, length_of(number, some_are_long_));
    const std::span<const std::byte> piece(what);
    if (!courier_.request({self_.high, number + 1}, {&piece, 1}, piece.size())) return false;
    ++asked_;
    return true;
  }
  std::uint64_t asked() const { return asked_; }
  std::uint64_t handled() const {
    const std::lock_guard lock(mutex_);
    return handled_;
  }
  std::size_t answers() const {
    const std::lock_guard lock(mutex_);
    return answers_.size();
  }
  /// What was not as it has to be: something twice, out of order, or another's answer.
  int wrong() const {
    const std::lock_guard lock(mutex_);
    return wrong_;
  }

 private:
  static wire_courier::settings settings(const base::id& self, const base::id& peer,
                                         std::function<link_ptr()> dial) {
    wire_courier::settings how;
    how.self = self;
    how.peer = peer;
    how.out.requests = 64;
    how.out.first_wait = 2ms;
    how.out.longest_wait = 20ms;
    how.in.requests = 64;
    how.dial = std::move(dial);
    return how;
  }
  void on_request(const wire::arrival& came) override {
    bytes answer;
    {
      const std::lock_guard lock(mutex_);
      const std::uint64_t number = number_of(came.message);
      const bytes expected = message(handled_, length_of(handled_, some_are_long_));
      if (!std::ranges::equal(came.message, expected)) ++wrong_;
      handled_ = number + 1;
      if (!std::ranges::equal(kept_bytes_, kept_copy_)) ++wrong_;
      if (number % 5 == 0) {
        kept_ = std::move(*came.memory);
        kept_bytes_ = came.message;
        kept_copy_ = expected;
      }
      answer = message(number + 1);
    }
    courier_.answer(came, std::move(answer));
  }
  void on_answer(const base::id& request, std::span<const std::byte> answer) override {
    const std::lock_guard lock(mutex_);
    if (number_of(answer) != request.low) ++wrong_;
    if (!answers_.insert(request.low).second) ++wrong_;
  }

  const base::id self_;
  const bool some_are_long_;
  mutable std::mutex mutex_;
  wire::frame_buffer kept_;  // a message that outlives its call, with its bytes, which stay
  std::span<const std::byte> kept_bytes_;
  bytes kept_copy_;
  std::uint64_t asked_ = 0;
  std::uint64_t handled_ = 0;
  std::set<std::uint64_t> answers_;
  int wrong_ = 0;
  wire_courier courier_;
};

void pump(talker& a, talker& b) {
  a.courier().pump(base::now());
  b.courier().pump(base::now());
}

// Both ask `count` times, and all of it arrives.
bool talk(talker& a, talker& b, std::uint64_t count) {
  return happens([&] {
    for (talker* const one : {&a, &b}) {
      for (int i = 0; i < 5 && one->asked() < count && one->ask(); ++i) continue;
    }
    pump(a, b);
    return a.answers() == count && b.answers() == count;
  });
}

void check_all(const talker& a, const talker& b, std::uint64_t count) {
  CHECK(a.wrong() == 0);
  CHECK(b.wrong() == 0);
  CHECK(a.handled() == count);
  CHECK(b.handled() == count);
}

// Two rings, whose links ask nobody.
struct rings {
  wire::ring_memory to_a{*wire::ring_memory::make(16384)};
  wire::ring_memory to_b{*wire::ring_memory::make(16384)};
};

// A ring's link that counts what is sent.
class counted_link final : public wire::link {
 public:
  counted_link(const wire::ring_memory& in, const wire::ring_memory& out, int& sent)
      : ring_(in, out, -1), sent_(sent) {}
  manta::result<void> send(std::span<const std::span<const std::byte>> pieces,
                           std::size_t size) override {
    ++sent_;
    return ring_.send(pieces, size);
  }
  got take(wire::frame_buffer& to) override { return ring_.take(to); }
  bool wait(std::chrono::nanoseconds time) override { return ring_.wait(time); }
  void on_arrival(std::function<void()> tell) override { ring_.on_arrival(std::move(tell)); }
  void close() override { ring_.close(); }
  wire::link_state state() const override { return ring_.state(); }

 private:
  wire::ring_link ring_;
  int& sent_;
};

// Answers each request at once, with nothing, and counts the answers that it gets.
class assenting final : public wire_courier::visitor {
 public:
  void on_request(const wire::arrival& came) override { by_->answer(came, {}); }
  void on_answer(const base::id&, std::span<const std::byte>) override { ++answers_; }
  wire_courier* by_ = nullptr;
  int answers_ = 0;
};

// Two that assent to what they are asked; the second's answers wait.
struct patient_pair {
  explicit patient_pair(std::chrono::nanoseconds wait)
      : a({.self = name_a, .peer = name_b}, at_a),
        b({.self = name_b, .peer = name_a, .answers_wait = wait}, at_b) {
    at_a.by_ = &a;
    at_b.by_ = &b;
    a.attach(std::make_unique<wire::ring_link>(memory.to_a, memory.to_b, -1));
    b.attach(std::make_unique<counted_link>(memory.to_b, memory.to_a, sent));
  }
  static bool ask(wire_courier& by, std::size_t size = 8) {
    const bytes what = message(1, size);
    const std::span<const std::byte> piece(what);
    static std::uint64_t last = 0;
    return static_cast<bool>(by.request({1, ++last}, {&piece, 1}, piece.size()));
  }

  rings memory;
  int sent = 0;  // by the second
  assenting at_a;
  assenting at_b;
  wire_courier a;
  wire_courier b;
};

constexpr fault_map all_faults{.lose = 12, .repeat = 9, .delay = 7};

}  // namespace

// Lost, repeated and late, requests as well as answers: each could be handled twice, not at all, or
// before the one in front of it.
TEST_CASE("over rings that lose, repeat and delay all is handled once, in order",
          "[wire][courier]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  const auto faults = std::make_shared<faulty_link::record>();
  rings memory;
  const auto end = [&](const wire::ring_memory& in, const wire::ring_memory& out,
                       std::uint64_t salt) {
    return std::make_unique<faulty_link>(std::make_unique<wire::ring_link>(in, out, -1), all_faults,
                                         seed + salt, faults);
  };
  talker a(name_a, name_b);
  talker b(name_b, name_a);
  a.courier().attach(end(memory.to_a, memory.to_b, 1));
  b.courier().attach(end(memory.to_b, memory.to_a, 2));
  const auto count = static_cast<std::uint64_t>(scaled(1000));
  CHECK(talk(a, b, count));
  check_all(a, b, count);
  CHECK(faults->counts.lost > scaled(60));
  CHECK(faults->counts.repeated > scaled(60));
  CHECK(faults->counts.delayed > scaled(60));
}

TEST_CASE("over sockets that lose, repeat, delay and end all is handled once, in order",
          "[wire][courier]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  fault_map map = all_faults;
  map.cut = 300;
  const auto faults = std::make_shared<faulty_link::record>();
  const auto loop = *wire::loop::start({0ns});
  manta_test::folder place;
  const std::string path = (place.path() / "sockets" / "a").string();
  std::uint64_t links = seed;
  const auto spoil = [&](link_ptr one) {
    return std::make_unique<faulty_link>(std::move(one), map, ++links, faults);
  };
  talker b(name_b, name_a, {}, true);
  auto listener = wire::socket_listener::open(
      *loop, {.path = path}, someone(1),
      [&](link_ptr one, const wire::greeting&) { b.courier().attach(spoil(std::move(one))); });
  REQUIRE(static_cast<bool>(listener));
  std::uint64_t dials = 0;
  talker a(
      name_a, name_b,
      [&]() -> link_ptr {
        ++dials;
        auto made = wire::connect(*loop, path, someone(2));
        if (!made) return nullptr;
        return std::make_unique<faulty_link>(*std::move(made), map, seed + 1000 * dials, faults);
      },
      true);
  const auto count = static_cast<std::uint64_t>(scaled(1000));
  CHECK(talk(a, b, count));
  (*std::move(listener)).reset();
  check_all(a, b, count);
  CHECK(dials > 3);
  CHECK(faults->counts.cuts > 3);
  CHECK(faults->counts.lost > scaled(60));
  CHECK(faults->counts.repeated > scaled(60));
  CHECK(faults->counts.delayed > scaled(60));
}

TEST_CASE("an answer that comes late is waited for, and given once", "[wire][courier]") {
  class slow final : public wire_courier::visitor {
   public:
    void on_request(const wire::arrival& came) override { came_.push_back(came); }
    void on_answer(const base::id&, std::span<const std::byte>) override {}
    std::vector<wire::arrival> came_;
  };
  class counting final : public wire_courier::visitor {
   public:
    void on_request(const wire::arrival&) override {}
    void on_answer(const base::id&, std::span<const std::byte> answer) override {
      got_.push_back(number_of(answer));
    }
    std::vector<std::uint64_t> got_;
  };
  rings memory;
  slow there;
  counting here;
  wire_courier a({.self = name_a, .peer = name_b}, here);
  wire_courier b({.self = name_b, .peer = name_a}, there);
  a.attach(std::make_unique<wire::ring_link>(memory.to_a, memory.to_b, -1));
  b.attach(std::make_unique<wire::ring_link>(memory.to_b, memory.to_a, -1));
  const bytes what = message(1);
  const std::span<const std::byte> piece(what);
  REQUIRE(a.request({1, 1}, {&piece, 1}, piece.size()));
  base::time_point now = base::now();
  for (int i = 0; i < 5; ++i) {  // is sent again each time, and handled once
    b.pump(now);
    REQUIRE(a.due().has_value());
    now += 10s;
    a.pump(now);
  }
  b.pump(now);
  REQUIRE(there.came_.size() == 1);
  CHECK(there.came_[0].head.request == base::id{1, 1});
  b.answer(there.came_[0], message(7));
  b.answer(there.came_[0], message(8));
  a.pump(now);
  CHECK(here.got_ == std::vector<std::uint64_t>{7});
  CHECK(a.unanswered() == 0);
  CHECK_FALSE(a.due().has_value());
}

TEST_CASE("answers that say nothing wait for the next request, or their time", "[wire][courier]") {
  constexpr auto wait = 1ms;
  patient_pair two(wait);
  const base::time_point start = base::now();
  REQUIRE(patient_pair::ask(two.a));
  REQUIRE(patient_pair::ask(two.a));
  two.b.pump(start);
  CHECK(two.sent == 0);
  REQUIRE(two.b.due().has_value());
  const base::time_point due = *two.b.due();
  CHECK(due >= start + wait);

  SECTION("a request takes them along, before itself") {
    REQUIRE(patient_pair::ask(two.b));
    CHECK(two.sent == 3);
    CHECK(two.b.due() != due);
    two.a.pump(start);
    CHECK(two.at_a.answers_ == 2);
  }
  SECTION("they leave when it is time") {
    two.b.pump(due - 1ns);
    CHECK(two.sent == 0);
    two.b.pump(due);
    CHECK(two.sent == 2);
    CHECK_FALSE(two.b.due().has_value());
    two.a.pump(due);
    CHECK(two.at_a.answers_ == 2);
    CHECK(two.a.unanswered() == 0);
  }
  SECTION("on a new link they are asked for again") {
    rings next;
    int sent = 0;
    two.b.attach(std::make_unique<counted_link>(next.to_b, next.to_a, sent));
    two.b.pump(due);
    CHECK(two.sent + sent == 0);
    two.a.attach(std::make_unique<wire::ring_link>(next.to_a, next.to_b, -1));
    two.b.pump(due);
    CHECK(sent == 2);
    two.a.pump(due);
    CHECK(two.at_a.answers_ == 2);
  }
}

TEST_CASE("answers that wait are not many, nor to long messages", "[wire][courier]") {
  patient_pair two(1h);
  for (int i = 0; i < 63; ++i) REQUIRE(patient_pair::ask(two.a));
  two.b.pump(base::now());
  CHECK(two.sent == 0);
  REQUIRE(patient_pair::ask(two.a));
  two.b.pump(base::now());
  CHECK(two.sent == 64);
  for (int i = 0; i < 8; ++i) {
    REQUIRE(patient_pair::ask(two.a, std::size_t{8} << 10U));
    two.b.pump(base::now());
  }
  CHECK(two.sent == 64 + 8);
  two.a.pump(base::now());
  CHECK(two.at_a.answers_ == 64 + 8);
  CHECK(two.a.unanswered() == 0);
}

TEST_CASE("who was fenced is told so", "[wire][courier]") {
  class nobody final : public wire_courier::visitor {
    void on_request(const wire::arrival&) override {}
    void on_answer(const base::id&, std::span<const std::byte>) override {}
  } ignore;
  rings lives[2];  // a link of its own for each
  talker b(name_b, name_a);
  const bytes what = message(0, 8);
  const std::span<const std::byte> piece(what);
  for (const std::uint64_t epoch : {std::uint64_t{2}, std::uint64_t{1}}) {
    const rings& memory = lives[epoch - 1];
    b.courier().attach(std::make_unique<wire::ring_link>(memory.to_b, memory.to_a, -1));
    wire_courier one({.self = name_a, .epoch = epoch, .peer = name_b}, ignore);
    one.attach(std::make_unique<wire::ring_link>(memory.to_a, memory.to_b, -1));
    REQUIRE(one.request({1, epoch}, {&piece, 1}, piece.size()));
    b.courier().pump(base::now());
    one.pump(base::now());
    const auto again = one.request({1, 9}, {&piece, 1}, piece.size());
    CHECK(static_cast<bool>(again) == (epoch == 2));
    if (!again) CHECK(again.error().code() == errc::node_lost);
  }
  CHECK(b.handled() == 1);
  CHECK(b.wrong() == 0);
}

TEST_CASE("messages that no courier sends end their link", "[wire][courier]") {
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  dice roll(seed);
  int ended = 0;
  for (int i = 0; i < scaled(2000); ++i) {
    rings memory;
    talker b(name_b, name_a);
    b.courier().attach(std::make_unique<wire::ring_link>(memory.to_b, memory.to_a, -1));
    wire::ring_link raw(memory.to_a, memory.to_b, -1);
    bytes what(roll.below(100));
    for (std::byte& one : what) one = static_cast<std::byte>(roll.below(4));
    if (what.empty()) continue;
    REQUIRE(manta_test::send(raw, what));
    b.courier().pump(base::now());
    CHECK(b.handled() == 0);
    ended += b.courier().nonsense() > 0 ? 1 : 0;
  }
  CHECK(ended > scaled(1000));
}
