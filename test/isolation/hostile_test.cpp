// SPDX-License-Identifier: Apache-2.0
// Workers that send what no worker sends: each is ended with one line that says what it was, and
// nothing else happens.
#include <array>
#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

#include <manta/codec/codec.hpp>

#include "exec/support.hpp"
#include "isolation/support.hpp"
#include "node/worker_monitors.hpp"
#include "node/worker_order.hpp"
#include "node/worker_questions.hpp"
#include "node/worker_streams.hpp"
#include "node/worker_things.hpp"

namespace hostile_test {

namespace {

using Catch::Matchers::Contains;
using manta::base::id;
using manta::node::thing_op;
using manta::node::thing_question;
using manta::node::workbench;
using manta::node::worker_order;
using manta::node::worker_questions;
using manta::wire::question;
using test::comes_true;
using test::isolated;
using test::shared;
using test::shared_numbers;
using test::square;

// Numbers of what is under way, and of requests: the sender's are among the first ones.
constexpr std::uint64_t first_numbers = 64;

template <class View>
void say(std::uint64_t number, const View& what) {
  worker_questions::here()->tell([&](workbench& on, const id& request) {
    on.references.clear();
    const auto written = on.writer.write({{request.high, number}, 1, 0}, what);
    if (!written) throw std::logic_error(written.error().message());
  });
}
// Whatever number the sender's own has.
template <class View>
void say_as_all(const View& what, std::uint64_t mark = 0) {
  for (std::uint64_t n = 1; n <= first_numbers; ++n) say(n | mark, what);
}
// It is ended meanwhile.
int waits() {
  comes_true([] { return false; });
  return 0;
}
// The same: two threads of the node may take a call and what is said of it in the other order, and
// of a call that is not there anything is taken for late.
template <class View>
int says_until_ended(const View& what, std::uint64_t mark = 0) {
  for (;;) {
    say_as_all(what, mark);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}
manta::stream<int> endless() {
  for (int i = 0;; ++i) co_yield i;
}

// The name of a handle, here or in a worker.
struct name {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  id as_id() const { return {high, low}; }
};
template <class Handle>
name name_of(const Handle& of) {
  const manta::node::borrowed_workbench on;
  on->out.clear();
  manta::codec::write(on->out, of);
  on->out.finish();
  manta::node::write_question(*on, {1, 1}, question::thing, "a handle");
  const id found = on->references.at(0).what;
  return {found.high, found.low};
}

template <auto F, class... A>
std::string end_of(const A&... with) {
  const auto f = manta::remote<F>.with(
      {.isolation = manta::isolation_mode::processes, .max_retries = 0})(with...);
  const auto got = f.try_get(test::patience);
  if (got) return "it came back";
  const std::string code(to_string(got.error().code()));
  return code + ": " + got.error().message();
}
// One line, with what it was.
void check_end(const std::string& text, const std::string& what) {
  CHECK_THAT(text, Contains("worker_lost") && Contains(what));
  CHECK(text.find('\n') == std::string::npos);
}

}  // namespace

namespace {

int sends_items_of_a_task() {
  say_as_all(manta::wire::item_view{});
  return waits();
}
manta::stream<int> sends_too_many_items() {
  co_yield 1;
  shared(0) = getpid();
  for (int i = 0; i < 5000; ++i) say_as_all(manta::wire::item_view{});
  waits();
}
// Goes on when its caller's worker has died.
int waits_for_test() {
  comes_true([] { return shared(1) != 0; });
  return 0;
}
int sends_flow_of_a_call() {
  const auto child = manta::remote<waits_for_test>();
  return says_until_ended(manta::wire::flow_view{1, 1});
}
int sends_flow_from_the_future() {
  auto child = manta::remote<endless>();
  return says_until_ended(manta::wire::flow_view{std::uint64_t{1} << 40U, 1},
                          manta::node::stream_mark);
}

}  // namespace

TEST_CASE("a worker that sends nonsense about generators is ended", "[isolation][hostile]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  check_end(end_of<sends_items_of_a_task>(), "an item of no generator");
  check_end(end_of<sends_flow_of_a_call>(), "news of a generator");
  numbers[1] = 1;
  check_end(end_of<sends_flow_from_the_future>(), "news of a generator");
  {
    auto items = manta::remote<sends_too_many_items>();
    REQUIRE(items.next()->get() == 1);
    // It goes while nobody reads. What came had no value of the item's type, and is bounded; what
    // its ring still holds is taken as room is made.
    REQUIRE(comes_true([&] { return numbers[0] != 0 && kill(numbers[0], 0) != 0; }));
    std::string text;
    int n = 0;
    for (auto next = items.next(); next && n < 1000; next = items.next(), ++n) {
      text = next->try_get(test::patience).error().message();
    }
    CHECK(n < 1000);
    CHECK_THAT(text, Contains("more of them than it may send"));
  }
  CHECK(manta::remote<square>(5).get() == 25);
}

namespace {

// A question about what was lent, or not, as no library would ask it.
int asks(const name& of, int op, std::uint64_t value) {
  const thing_question asked{of.high, of.low, static_cast<std::uint8_t>(op), value};
  static_cast<void>(
      worker_questions::here()->ask_now<manta::node::thing_answer>(question::thing, asked));
  return waits();
}
int asks_channel(const manta::channel<int>& c, int op, std::uint64_t value) {
  return asks(name_of(c), op, value);
}
int asks_semaphore(const manta::semaphore& s, int op, std::uint64_t value) {
  return asks(name_of(s), op, value);
}
int asks_barrier(const manta::barrier& b, int op, std::uint64_t value) {
  return asks(name_of(b), op, value);
}
int op_of(thing_op what) { return static_cast<int>(what); }

int names_a_channel(const name& of) {
  manta::spec::reference named;
  named.what = of.as_id();
  named.kind = manta::spec::reference_kind::channel;
  manta::wire::ask_view asked{question::thing, {}};
  asked.with.references = {&named, 1};
  say(1, asked);
  return waits();
}

}  // namespace

TEST_CASE("a worker that asks nonsense of channels, semaphores and barriers is ended",
          "[isolation][hostile]") {
  const manta::runtime rt(isolated());
  const manta::channel<int> c(2);
  const manta::semaphore s(3);
  const manta::barrier b(2);
  const std::string senseless = "a question that makes no sense";
  // One that was never given to a worker.
  const manta::channel<int> own(2);
  check_end(end_of<asks>(name_of(own), op_of(thing_op::close), 0), senseless);
  check_end(end_of<names_a_channel>(name_of(own)), "channels that it was never given");
  CHECK_FALSE(own.is_closed());
  check_end(end_of<asks>(name{~0ULL, 1}, op_of(thing_op::look), 0), senseless);
  for (const int op : {op_of(thing_op::free_room) + 1, 99, 255}) {
    check_end(end_of<asks_channel>(c, op, 0), senseless);
    check_end(end_of<asks_barrier>(b, op, 0), senseless);
    check_end(end_of<asks_semaphore>(s, op, 0), senseless);
  }
  for (const thing_op op :
       {thing_op::acquire, thing_op::release, thing_op::available, thing_op::arrive}) {
    check_end(end_of<asks_channel>(c, op_of(op), 1), senseless);
  }
  for (const thing_op op :
       {thing_op::send, thing_op::receive, thing_op::close, thing_op::look, thing_op::arrive}) {
    check_end(end_of<asks_semaphore>(s, op_of(op), 1), senseless);
    if (op != thing_op::arrive) check_end(end_of<asks_barrier>(b, op_of(op), 1), senseless);
  }
  // Permits that there never are, and those that it has not; an item without bytes.
  check_end(end_of<asks_semaphore>(s, op_of(thing_op::acquire), 0), senseless);
  check_end(end_of<asks_semaphore>(s, op_of(thing_op::acquire), 4), senseless);
  check_end(end_of<asks_semaphore>(s, op_of(thing_op::release), 0), senseless);
  check_end(end_of<asks_semaphore>(s, op_of(thing_op::release), 2), senseless);
  check_end(end_of<asks_channel>(c, op_of(thing_op::restore), 0), senseless);
  CHECK(s.available() == 3);
  CHECK(c.size() == 0);
  CHECK_FALSE(c.is_closed());
  CHECK(manta::remote<square>(5).get() == 25);
}

namespace {

// As many waits as a worker may have, then one of each kind.
std::vector<std::string> waits_too_often(const manta::barrier& b, const manta::semaphore& s,
                                         const manta::channel<int>& c) {
  const name of = name_of(b);
  const thing_question arrives{of.high, of.low, static_cast<std::uint8_t>(thing_op::arrive), 0};
  for (std::size_t i = 0; i < manta::node::worker_things::most_open; ++i) {
    worker_questions::here()->ask_raw(question::thing, arrives, [](const auto&) {});
  }
  std::vector<std::string> said;
  const auto note = [&said](auto&& what) {
    try {
      what();
      said.emplace_back("it went on");
    } catch (const manta::store_full& full) {
      said.emplace_back(full.what());
    }
  };
  note([&] { static_cast<void>(s.acquire()); });
  note([&] { b.arrive_and_wait(); });
  note([&] { c.send(1); });
  return said;
}

}  // namespace

TEST_CASE("a worker that waits for too many things at once is told so", "[isolation][hostile]") {
  const manta::runtime rt(isolated());
  const manta::barrier b(1'000'000);
  const manta::semaphore s(3);
  const manta::channel<int> c(2);
  const std::vector<std::string> said = manta::remote<waits_too_often>(b, s, c).get(test::patience);
  CHECK(said.size() == 3);
  for (const std::string& text : said) CHECK_THAT(text, Contains("waits for 65536 sends"));
  CHECK(s.available() == 3);
  CHECK(c.size() == 0);
}

namespace {

struct tally {
  int n = 0;
  int add(int x) { return n += x; }
};

int calls_unlent(const name& of) {
  manta::wire::call_view call;
  call.actor = of.as_id();
  call.caller = {1, 1};
  call.call_number = 1;
  call.method = {1, 1};
  say(1, call);
  return waits();
}
int ends_unlent(const name& of) {
  say(1, manta::wire::actor_end_view{of.as_id(), manta::end_reason::killed, {}});
  return waits();
}
int spawns_as_another(const name& as, bool reserves) {
  manta::wire::spawn_view spawn;
  spawn.actor = as.as_id();
  spawn.function = {1, 1};
  spawn.type_name = "tally";
  spawn.reserves = reserves;
  manta::wire::options_view options;
  options.name = "taken";
  spawn.options = &options;
  say(1, spawn);
  return waits();
}
int monitors_unlent(const name& of) {
  const manta::node::end_question asked{of.high, of.low};
  worker_questions::here()->ask_raw(question::actor_end, asked, [](const auto& /*came*/) {});
  return waits();
}
int gives_back_unlent(const name& of) {
  const manta::wire::reference_change gone{
      of.as_id(), {1, 1}, 1, manta::wire::change_kind::release};
  say(1, manta::wire::changes_view{{&gone, 1}});
  return waits();
}
int adds_handles(const manta::actor<tally>& to) {
  const manta::wire::reference_change more{
      name_of(to).as_id(), {1, 1}, 1, manta::wire::change_kind::add};
  say(1, manta::wire::changes_view{{&more, 1}});
  return waits();
}
int puts() {
  manta::wire::put_view put;
  put.object = {1, 1};
  put.owner = {1, 1};
  say(1, put);
  return waits();
}
// A task of a function that is none, or is a method: refused as any call that can't be made.
int calls_no_function(std::uint64_t module, std::uint64_t offset) {
  manta::wire::task_view task;
  task.id = {1, 1};
  task.function = {module, offset};
  say(1, task);
  return 7;
}

void check_actors() {
  const auto a = manta::spawn<tally>();
  CHECK(manta::remote<&tally::add>(a, 2).get() == 2);
  const name of = name_of(a);
  check_end(end_of<calls_unlent>(of), "an actor that it was never given");
  check_end(end_of<ends_unlent>(of), "an actor that it was never given");
  check_end(end_of<spawns_as_another>(of, true), "an actor that is not its own");
  check_end(end_of<monitors_unlent>(of), "a question that makes no sense");
  check_end(end_of<monitors_unlent>(name{~0ULL, 1}), "a question that makes no sense");
  check_end(end_of<gives_back_unlent>(of), "handles given back that it has not");
  check_end(end_of<adds_handles>(a), "handles given back that it has not");
  check_end(end_of<puts>(), "a message that no worker sends");
  CHECK(end_of<calls_no_function>(std::uint64_t{1}, std::uint64_t{2}) == "it came back");
  CHECK(end_of<calls_no_function>(~std::uint64_t{0}, ~std::uint64_t{0}) == "it came back");
  CHECK(manta::remote<&tally::add>(a, 3).get() == 5);
  CHECK(manta::remote<square>(5).get() == 25);
}

}  // namespace

TEST_CASE("a worker that sends nonsense about actors and calls is ended", "[isolation][hostile]") {
  SECTION("where all calls are isolated") {
    const manta::runtime rt(isolated());
    check_actors();
  }
  SECTION("where few are, and the rest is the node's") {
    manta::config c = isolated();
    c.isolation = manta::isolation_mode::threads;
    const manta::runtime rt(c);
    check_actors();
  }
}

namespace {

// Every question there is, with bytes that are no question's.
int asks_bytes(int what, std::uint64_t seed, std::uint64_t size) {
  manta_test::dice roll(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& one : bytes) one = static_cast<std::byte>(roll.next());
  manta::wire::ask_view asked{static_cast<question>(what), {}};
  asked.with.head = bytes;
  say(1, asked);
  return 7;
}

}  // namespace

TEST_CASE("questions whose bytes are at random end their worker at most", "[isolation][hostile]") {
  const manta::runtime rt(isolated());
  const std::uint64_t seed = manta_test::run_seed();
  CAPTURE(seed);
  manta_test::dice roll(seed);
  const int rounds = test::is_sanitized ? 3 : 20;
  for (int round = 0; round < rounds; ++round) {
    for (int what = 0; what <= static_cast<int>(question::actor_end); ++what) {
      const std::uint64_t size = roll.below(200);
      CAPTURE(round, what, size);
      const std::string text = end_of<asks_bytes>(what, roll.next(), size);
      if (text != "it came back") CHECK_THAT(text, Contains("worker_lost"));
    }
  }
  CHECK(manta::remote<square>(5).get() == 25);
}

namespace {

// The socket beside the rings: the only one of its kind here.
int order_socket() {
  for (int fd = 3; fd < 1000; ++fd) {
    int kind = 0;
    socklen_t size = sizeof kind;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &size) == 0 && kind == SOCK_SEQPACKET) return fd;
  }
  return -1;
}
bool orders(std::uint64_t what, std::uint64_t number, std::uint64_t value, int flags = 0) {
  worker_order said;
  said.what = static_cast<worker_order::kind>(what);
  said.number = number;
  said.value = value;
  return ::send(order_socket(), &said, sizeof said, MSG_NOSIGNAL | flags) > 0;
}
int orders_once(std::uint64_t what) {
  if (!orders(what, 1, 1)) return -1;
  return waits();
}
int floods(std::uint64_t what) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  std::uint64_t n = 0;
  while (std::chrono::steady_clock::now() < end) orders(what, ++n, std::uint64_t{1} << 60U, 0);
  return 7;
}

}  // namespace

TEST_CASE("a worker that gives orders that are none is ended, and floods of them hold up nobody",
          "[isolation][hostile]") {
  const manta::runtime rt(isolated());
  using kind = worker_order::kind;
  const auto number = [](kind what) { return static_cast<std::uint64_t>(what); };
  for (const std::uint64_t what : {number(kind::kill), number(kind::drop), number(kind::flow),
                                   std::uint64_t{99}, ~std::uint64_t{0}}) {
    check_end(end_of<orders_once>(what), "an order that no worker gives");
  }
  check_end(end_of<orders_once>(number(kind::segment)), "an array for which it was given no room");
  for (const kind what : {kind::stop, kind::end, kind::abandon, kind::room}) {
    const auto flood = manta::remote<floods>.with({.max_retries = 0})(number(what));
    for (int i = 0; i < 50; ++i) REQUIRE(manta::remote<square>(i).get(test::patience) == i * i);
    const auto got = flood.try_get(test::patience);
    if (!got) CHECK(got.error().code() == manta::errc::worker_lost);
  }
  CHECK(manta::remote<square>(5).get() == 25);
}

namespace {

// Writes over all that it shares with its node and may write: rings, the page, arrays of its own.
int scribbles(std::uint64_t seed, bool all) {
  manta_test::dice roll(seed);
  std::FILE* const file = std::fopen("/proc/self/maps", "re");
  std::array<char, 512> line{};
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> found;
  while (file != nullptr && std::fgets(line.data(), line.size(), file) != nullptr) {
    std::uintptr_t from = 0;
    std::uintptr_t to = 0;
    if (std::strstr(line.data(), "memfd:manta") == nullptr) continue;
    if (std::strstr(line.data(), "rw-s") == nullptr) continue;
    if (std::sscanf(line.data(), "%" SCNxPTR "-%" SCNxPTR, &from, &to) == 2) {
      found.emplace_back(from, to);
    }
  }
  if (file != nullptr) std::fclose(file);
  for (int i = 0; i < 4000; ++i) {
    const auto [from, to] = found.at(roll.below(found.size()));
    // The beginnings hold what both sides count.
    const std::size_t bytes = all ? to - from : 512;
    const std::uint64_t word = roll.one_in(2) ? roll.next() : roll.below(1 << 20U);
    std::memcpy(reinterpret_cast<void*>(from + roll.below(bytes / 8) * 8), &word, sizeof word);
  }
  return 7;
}

}  // namespace

TEST_CASE("a worker that writes at random over all that it shares harms itself only",
          "[isolation][hostile]") {
  constexpr std::chrono::seconds limit{1};
  const std::uint64_t seed = manta_test::run_seed();
  CAPTURE(seed);
  manta_test::dice roll(seed);
  const int rounds = test::is_sanitized ? 2 : 6;
  for (int round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const manta::runtime rt(isolated());
    const auto wild = manta::remote<scribbles>.with(
        {.max_retries = 0, .timeout = std::chrono::milliseconds(500)})(roll.next(), round % 2 == 0);
    std::vector<manta::future<int>> all;
    all.reserve(20);
    for (int i = 0; i < 20; ++i) {
      // What such a worker was given is its to spoil, and to keep for ever.
      all.push_back(manta::remote<square>.with({.max_retries = 50, .timeout = limit})(i));
    }
    for (const auto& one : all) CHECK(comes_true([&] { return one.is_ready(); }));
    CHECK(comes_true([&] { return wild.is_ready(); }));
  }
  const manta::runtime rt(isolated());
  for (int i = 0; i < 20; ++i) CHECK(manta::remote<square>(i).get() == i * i);
}

}  // namespace hostile_test
