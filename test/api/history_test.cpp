// SPDX-License-Identifier: Apache-2.0
// manta::history: what runs leave in the control store.
#include <algorithm>
#include <atomic>
#include <future>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

#include "api/support.hpp"
#include "control/ask.hpp"
#include "control/rows.hpp"
#include "control/store.hpp"
#include "folder.hpp"
#include "node/journal.hpp"
#include "spill_support.hpp"

namespace history_test {

namespace {

using Catch::Matchers::Contains;
namespace history = manta::history;
using manta::event_kind;

int twice(int x) { return 2 * x; }
int fails(int x) {
  if (x >= 0) throw std::runtime_error("it was " + std::to_string(x));
  return x;
}
test::everywhere<std::atomic<int>> left_to_fail;
int fails_some_times() {
  if ((*left_to_fail)-- > 0) throw std::runtime_error("not yet");
  return 1;
}
struct counter {
  int sum = 0;
  int add(int n) { return sum += n; }
};
manta::coroutine<int> awaits(manta::future<int> of) { co_return co_await std::move(of) + 1; }

struct with_future {
  manta::future<int> inside;
};
with_future gives_future() { return {manta::remote<twice>(3)}; }

manta::config with(manta::event_mode events, std::string control = "memory") {
  manta::config out;
  out.workers = 2;
  out.control = std::move(control);
  out.events = events;
  return out;
}

std::size_t count(const std::vector<manta::event_record>& in, event_kind kind,
                  const std::string& name) {
  return static_cast<std::size_t>(std::ranges::count_if(
      in, [&](const auto& e) { return e.kind == kind && e.name.find(name) != std::string::npos; }));
}

}  // namespace

TEST_CASE("history: this job, its functions and its failures are there by default",
          "[history][anywhere]") {
  const manta::runtime rt;
  const auto jobs = history::jobs().get();
  REQUIRE(jobs.size() == 1);
  const manta::job_record& job = jobs[0];
  CHECK(job.id == history::this_job());
  CHECK_THAT(job.program, Contains("test_fault"));
  CHECK(job.pid == static_cast<std::uint32_t>(getpid()));
  CHECK(job.workers == static_cast<std::uint32_t>(rt.workers()));
  CHECK_FALSE(job.ended);
  const auto functions = history::functions(job.id).get();
  CHECK(std::ranges::any_of(functions, [](const std::string& name) {
    return name.find("twice(int)") != std::string::npos;
  }));
  CHECK(std::ranges::is_sorted(functions));
  CHECK(history::functions("no such job").get().empty());

  manta::remote<twice>(1).get();
  CHECK(history::events(job.id).get().empty());
  CHECK_THROWS(manta::remote<fails>(7).get());
  manta::options again;
  again.max_retries = 2;
  again.retry_exceptions = manta::any_exception();
  again.name = "three times";
  CHECK_THROWS(manta::remote<fails>.with(again)(8).get());
  const auto events = history::events(job.id).get();
  CHECK(count(events, event_kind::failure, "fails") == 1);
  CHECK(count(events, event_kind::retry, "three times") == 2);
  CHECK(count(events, event_kind::failure, "three times") == 1);
  CHECK(events.size() == 4);
  CHECK_THAT(events[0].text, Contains("it was 7"));
  CHECK(events[1].attempt == 0);
  CHECK(events[2].attempt == 1);
  CHECK(events[3].attempt == 2);
  CHECK(events[1].task == events[3].task);
}

TEST_CASE("history: every start and end, when asked", "[history][anywhere]") {
  const manta::runtime rt(with(manta::event_mode::all));
  const auto many = static_cast<std::size_t>(test::trips(5000));
  std::vector<manta::future<int>> all;
  for (std::size_t i = 0; i < many; ++i) all.push_back(manta::remote<twice>(1));
  for (auto& one : all) one.get();
  const auto actor = manta::spawn<counter>();
  for (int i = 0; i < 10; ++i) manta::remote<&counter::add>(actor, 1).get();
  manta::remote<awaits>(manta::remote<twice>(4)).get();
  const auto events = history::events(history::this_job(), 100000).get();
  for (const event_kind kind : {event_kind::start, event_kind::end}) {
    CHECK(count(events, kind, "twice") == many + 1);
    CHECK(count(events, kind, "add") == 10);
    CHECK(count(events, kind, "awaits") == 1);
  }
  CHECK(std::ranges::is_sorted(events, {}, &manta::event_record::at));
  CHECK(history::events(history::this_job(), 7).get().size() == 7);
}

TEST_CASE("history: each run has one start and one end, a retry or an end", "[history][anywhere]") {
  const manta::runtime rt(with(manta::event_mode::all));
  *left_to_fail = 2;
  manta::options again;
  again.max_retries = 5;
  again.retry_exceptions = manta::any_exception();
  manta::remote<fails_some_times>.with(again)().get();
  CHECK_THROWS(manta::remote<fails>(1).get());
  std::string told;
  for (const auto& e : history::events(history::this_job()).get()) {
    constexpr const char* kinds[] = {"start", "end", "retry", "failure"};
    told += kinds[static_cast<std::size_t>(e.kind)] + (' ' + std::to_string(e.attempt)) + ", ";
  }
  CHECK_THAT(told,
             Catch::Matchers::StartsWith("start 0, retry 0, start 1, retry 1, start 2, end 2, "));
}

// [nodes]: what a task of an isolated worker calls has no name of its function here. Where what a
// task elsewhere calls runs here it is told of here, too.
TEST_CASE("history: a future that came inside of a value is no run more", "[history][nodes]") {
  const manta::runtime rt(with(manta::event_mode::all));
  const with_future got = manta::remote<gives_future>().get();
  CHECK(got.inside.get() == 6);
  const auto events = history::events(history::this_job()).get();
  for (const event_kind kind : {event_kind::start, event_kind::end}) {
    CHECK(count(events, kind, "gives_future") == 1);
    CHECK(count(events, kind, "") == 1 + count(events, kind, "twice"));
  }
}

TEST_CASE("history: events can be left out", "[history][anywhere]") {
  const manta::runtime rt(with(manta::event_mode::none));
  CHECK_THROWS(manta::remote<fails>(7).get());
  CHECK(history::events(history::this_job()).get().empty());
}

TEST_CASE("history: actors with names, as long as they live", "[history][anywhere]") {
  const manta_test::folder where;
  {
    const manta::runtime rt(with(manta::event_mode::rare, where.store()));
    manta::actor_options named;
    named.name = "sums";
    named.name_space = "first";
    auto a = manta::spawn<counter>.with(named)();
    manta::remote<&counter::add>(a, 1).get();
    const auto actors = history::actors().get();
    REQUIRE(actors.size() == 1);
    CHECK(actors[0].name == "sums");
    CHECK(actors[0].name_space == "first");
    CHECK_THAT(actors[0].type, Contains("counter"));
    CHECK(actors[0].job == history::this_job());
    named.name = "other";
    auto b = manta::spawn<counter>.with(named)();
    CHECK(history::actors().get().size() == 2);
    // However long its name, it is where its name is in the order.
    named.name_space = "bb";
    named.name = std::string(1024, 'x');
    auto c = manta::spawn<counter>.with(named)();
    const auto in_order = history::actors().get();
    REQUIRE(in_order.size() == 3);
    CHECK(in_order[0].name_space == "bb");
    auto end_of_long = manta::monitor(c);
    manta::kill(c);
    end_of_long.get();
    auto end = manta::monitor(a);
    manta::kill(a);
    end.get();
    CHECK(history::actors().get().size() == 1);
  }
  const manta::runtime rt(with(manta::event_mode::rare, where.store()));
  CHECK(history::actors().get().empty());
}

TEST_CASE("history: a later run lists what earlier ones did", "[history][anywhere]") {
  const manta_test::folder where;
  std::vector<std::string> ids;
  for (int run = 0; run < 3; ++run) {
    const manta::runtime rt(with(manta::event_mode::rare, where.store()));
    ids.push_back(history::this_job());
    CHECK_THROWS(manta::remote<fails>(run).get());
  }
  const manta::runtime rt(with(manta::event_mode::rare, where.store()));
  const auto jobs = history::jobs().get();
  REQUIRE(jobs.size() == 4);
  for (std::size_t run = 0; run < 3; ++run) {
    CHECK(jobs[run].id == ids[run]);
    REQUIRE(jobs[run].ended);
    CHECK(*jobs[run].ended >= jobs[run].started);
    if (!test::in_nodes()) CHECK(jobs[run].tasks_run == 1);  // by this node
    const auto events = history::events(ids[run]).get();
    REQUIRE(events.size() == 1);
    CHECK_THAT(events[0].text, Contains("it was " + std::to_string(run)));
    CHECK_FALSE(history::functions(ids[run]).get().empty());
  }
  CHECK_FALSE(jobs[3].ended);
}

// Of one node: about what a journal takes at a time; others' answers are slower.
TEST_CASE("history: what is kept of a job is bounded, and what went is counted",
          "[history][one_node]") {
  const manta_test::folder where;
  constexpr std::size_t tasks = 150000;
  std::string id;
  {
    const manta::runtime rt(with(manta::event_mode::all, where.store()));
    id = history::this_job();
    for (std::size_t part = 0; part < 10; ++part) {
      std::vector<manta::future<int>> all;
      for (std::size_t i = 0; i < tasks / 10; ++i) all.push_back(manta::remote<twice>(1));
      for (auto& one : all) one.get();
      CHECK(history::events(id, 1).get().size() == 1);  // written so far
    }
  }
  const manta::runtime rt(with(manta::event_mode::rare, where.store()));
  const auto jobs = history::jobs().get();
  const std::size_t kept = history::events(id, 1000000).get().size();
  CHECK(kept <= 262144);
  CHECK(kept > 200000);
  CHECK(kept + jobs[0].events_dropped == 2 * tasks);
}

// Of one node: a list that is full is of one process, and so much would have to run in it.
TEST_CASE("history: events that a busy journal did not take are counted", "[history][one_node]") {
  // A thread's list drops its older half when it is full, of starts with their ends, too.
  const manta_test::folder where;
  constexpr std::size_t tasks = 200000;
  {
    std::promise<void> go_on;
    const manta::runtime rt(with(manta::event_mode::all, where.store()));
    REQUIRE(manta::node::journal::global().after_writing(
        [held = go_on.get_future().share()](manta::control::store&) { held.wait(); }));
    for (std::size_t part = 0; part < 10; ++part) {
      std::vector<manta::future<int>> all;
      for (std::size_t i = 0; i < tasks / 10; ++i) all.push_back(manta::remote<twice>(1));
      for (auto& one : all) one.get();
    }
    go_on.set_value();
  }
  const manta::runtime rt(with(manta::event_mode::rare, where.store()));
  const auto job = history::jobs().get().at(0);
  const std::size_t kept = history::events(job.id, 1000000).get().size();
  CHECK(job.events_dropped > 0);
  CHECK(kept + job.events_dropped == 2 * tasks);
}

namespace {

// What this process writes to its standard error until it is asked.
class own_errors {
 public:
  own_errors() : was_(dup(STDERR_FILENO)) {
    REQUIRE(pipe(ends_) == 0);
    dup2(ends_[1], STDERR_FILENO);
    close(ends_[1]);
  }
  own_errors(const own_errors&) = delete;
  own_errors& operator=(const own_errors&) = delete;
  ~own_errors() {
    give_back();
    close(ends_[0]);
  }
  std::string take() {
    give_back();
    std::string out;
    for (char one = 0; read(ends_[0], &one, 1) == 1;) out += one;
    return out;
  }

 private:
  void give_back() {
    if (was_ < 0) return;
    dup2(was_, STDERR_FILENO);  // the pipe's last writer goes
    close(std::exchange(was_, -1));
  }
  int was_;
  int ends_[2] = {-1, -1};
};

}  // namespace

// It looks at what this process alone has written.
TEST_CASE("history: that its disk is full is said once, and what is lost is counted",
          "[history][one_node]") {
  const manta_test::folder where;
  constexpr std::uint64_t tasks = 5;
  std::string said;
  {
    const manta::runtime rt(with(manta::event_mode::all, where.store()));
    const auto wait_for_journal = [] {
      std::promise<void> written;
      REQUIRE(manta::node::journal::global().after_writing(
          [&written](manta::control::store&) { written.set_value(); }));
      written.get_future().wait();
    };
    manta::kv::put("before", 1).get();
    wait_for_journal();
    own_errors errors;
    {
      test::full_disk full(1000);
      for (std::uint64_t i = 0; i < tasks; ++i) {
        manta::remote<twice>(1).get();
        wait_for_journal();
      }
    }
    said = errors.take();
  }
  CHECK(std::ranges::count(said, '\n') == 1);
  CHECK_THAT(said, Contains("manta: control:"));
  const manta::runtime rt(with(manta::event_mode::rare, where.store()));
  const auto job = history::jobs().get().at(0);
  CHECK(job.events_dropped + history::events(job.id).get().size() == 2 * tasks);
  CHECK(job.events_dropped > 0);
}

TEST_CASE("history: only the last thousand jobs are kept, with their events",
          "[history][stays:local]") {
  namespace control = manta::control;
  const manta_test::folder where;
  {
    const auto store = *control::open_rocks_store({.path = where.store()});
    control::batch old;
    for (std::uint64_t i = 0; i < 1005; ++i) {
      const std::string id = control::digits(i);
      manta::job_record row;
      row.pid = static_cast<std::uint32_t>(i);
      using kind = control::change::kind;
      old.changes.push_back({kind::put, "job/" + id, control::to_bytes(row)});
      control::event_row event;
      event.name = "old";
      old.changes.push_back({kind::put, control::events_of(id) + control::digits(0),
                             control::to_bytes(std::span(&event, 1))});
    }
    // A named actor as versions before 0.1 had it.
    old.changes.push_back({control::change::kind::put, std::string("actor/space\0name", 16), "x"});
    // The jobs' list of functions, which is the first, and one that no job is of.
    for (const std::uint64_t hash : {0U, 77U}) {
      old.changes.push_back({control::change::kind::put, "functions/" + control::digits(hash),
                             control::to_bytes(std::vector<std::string>{"f()"})});
    }
    REQUIRE(control::commit_now(*store, std::move(old)));
  }
  {
    const manta::runtime rt(with(manta::event_mode::rare, where.store()));
    const auto jobs = history::jobs().get();
    REQUIRE(jobs.size() == 1000);
    CHECK(jobs[0].pid == 6);
    CHECK(history::events(control::digits(5)).get().empty());
    CHECK(history::events(control::digits(6)).get().size() == 1);
    CHECK(history::functions(control::digits(6)).get().size() == 1);
  }
  const auto store = *control::open_rocks_store({.path = where.store()});
  const auto lists = control::scan_all(*store, "functions/");
  REQUIRE(lists);
  REQUIRE(lists->size() == 2);  // that of the old jobs, and this program's
  CHECK((*lists)[0].key == "functions/" + control::digits(0));
  CHECK(control::scan_all(*store, "actor/")->empty());
}

}  // namespace history_test
