// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <catch2/catch.hpp>

#include <manta/manta.hpp>

#include "isolation/support.hpp"

// Actors that are made anew when their process dies, and calls that come meanwhile: what had begun
// fails, all else runs once, in its caller's order.
//
// A death is known to the node when the zygote tells it. The cases stop the zygote to have all the
// time they want between the two, in which calls go where nobody is.

namespace test::restart {

namespace {

using namespace std::chrono_literals;

// In shared memory.
constexpr std::size_t life_pid = 0;     // the process of the latest life
constexpr std::size_t begun = 1;        // calls that wait, and have begun
constexpr std::size_t go_on = 2;        // lets them go
constexpr std::size_t disorder = 3;     // calls that came before one that its caller made earlier
constexpr std::size_t deaths = 4;       // asked for by calls
constexpr std::size_t last_of = 100;    // by caller: the number of its call that ran last
constexpr std::size_t runs_of = 200;    // by caller: how many ran
constexpr std::size_t by_number = 300;  // by number: how often a call ran

int driver = 0;  // the process of the test, for what it forks

// Ends the worker that reads it.
struct poison {
  bool is_deadly = false;
  template <class Archive>
  void save(Archive& out) const {
    out(is_deadly);
  }
  template <class Archive>
  void load(Archive& in) {
    in(is_deadly);
    if (is_deadly && getpid() != driver) kill(getpid(), SIGKILL);
  }
};

int given_later(int n) {
  comes_true([] { return shared(go_on) != 0; });
  return n;
}

struct keeper {
  std::vector<int> seen;
  explicit keeper(int first) : seen{first} { shared(life_pid) = getpid(); }

  int add(int n) {
    seen.push_back(n);
    return static_cast<int>(seen.size());
  }
  std::vector<int> all() const { return seen; }
  int pid() const { return getpid(); }
  // The caller's calls come in their order, and none of them twice, whatever life they run in.
  int note(int caller, int number) {
    const auto of = static_cast<std::size_t>(caller);
    if (shared(last_of + of).exchange(number) >= number) ++shared(disorder);
    ++shared(runs_of + of);
    return number;
  }
  int counts(int number) { return ++shared(by_number + static_cast<std::size_t>(number)); }
  int waits(int number) {
    ++shared(by_number + static_cast<std::size_t>(number));
    ++shared(begun);
    comes_true([] { return shared(go_on) != 0; });
    return number;
  }
  int dies_when_told(int signal) {
    comes_true([] { return shared(go_on) != 0; });
    ++shared(deaths);
    std::signal(signal, SIG_DFL);  // the framework would tell of it
    kill(getpid(), signal);
    return 0;
  }
  int takes(const poison& what) { return what.is_deadly ? 1 : 0; }
  manta::future<int> delegates(int number) {
    ++shared(by_number + static_cast<std::size_t>(number));
    return manta::remote<given_later>(number);
  }
};

// Has another actor, and can't be made a second time.
struct owner {
  manta::actor<keeper> of;
  explicit owner(manta::actor<keeper> mine) : of(std::move(mine)) {}
  int asks() { return manta::remote<&keeper::pid>(of).get(); }
};
struct once_only {
  template <class Archive>
  void save(Archive& /*out*/) const {}
  template <class Archive>
  void load(Archive& /*in*/) {
    if (getpid() != driver && shared(life_pid).exchange(getpid()) != 0) {
      throw std::runtime_error("is read once");
    }
  }
};
struct single {
  explicit single(once_only /*unused*/) {}
  int pid() { return getpid(); }
};

manta::actor<keeper> restarted(int times) {
  return manta::spawn<keeper>.with({.max_restarts = times})(0);
}

// The process has run nothing more when this returns; the node may not know.
void end_process(pid_t pid) {
  kill(pid, SIGKILL);
  const std::string name = "/proc/" + std::to_string(pid) + "/stat";
  for (char state = 0; state != 'Z';) {
    std::FILE* const file = std::fopen(name.c_str(), "re");
    if (file == nullptr) break;
    if (std::fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 0;
    std::fclose(file);
  }
}

int end_life(const manta::actor<keeper>& a) {
  const int pid = manta::remote<&keeper::pid>(a).get();
  end_process(pid);
  return pid;
}

// The actor's process has died, and the node does not hear of it while this lives.
class unheard_death {
 public:
  explicit unheard_death(const manta::actor<keeper>& a)
      : pid_(manta::remote<&keeper::pid>(a).get()), zygote_(children_of(getpid()).at(0)) {
    kill(zygote_, SIGSTOP);
    end_process(pid_);
  }
  ~unheard_death() { kill(zygote_, SIGCONT); }
  unheard_death(const unheard_death&) = delete;
  unheard_death& operator=(const unheard_death&) = delete;
  int pid() const { return pid_; }

 private:
  pid_t pid_;
  pid_t zygote_;
};

// Between two calls of who calls all the time: so calls find each step of a death and a restart,
// and no more of them pile up meanwhile than can be looked at.
void pass_time() {
  const auto end = std::chrono::steady_clock::now() + (is_sanitized ? 200us : 10us);
  while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

}  // namespace

TEST_CASE("a restarted actor begins anew, with the calls that had not begun", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const auto a = restarted(1);
  CHECK(manta::remote<&keeper::add>(a, -1).get() == 2);
  const auto dies = manta::remote<&keeper::dies_when_told>(a, SIGABRT);
  std::vector<manta::future<int>> behind;
  const auto call = [&] {
    behind.push_back(manta::remote<&keeper::add>(a, static_cast<int>(behind.size())));
  };
  for (int i = 0; i < 100; ++i) call();
  numbers[go_on] = 1;
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!dies.is_ready() && std::chrono::steady_clock::now() < end) {
    call();
    pass_time();
  }
  for (int i = 0; i < 100; ++i) call();
  CHECK_THROWS_AS(dies.get(), manta::actor_lost);
  bool is_in_order = true;
  for (std::size_t i = 0; i < behind.size(); ++i) {
    is_in_order = is_in_order && behind[i].get() == static_cast<int>(i) + 2;
  }
  CHECK(is_in_order);
  const std::vector<int> all = manta::remote<&keeper::all>(a).get();
  REQUIRE(all.size() == behind.size() + 1);
  CHECK(all.back() == static_cast<int>(behind.size()) - 1);
  CHECK_THROWS_AS(manta::remote<&keeper::dies_when_told>(a, SIGSEGV).get(), manta::actor_lost);
  CHECK(manta::monitor(a).get().reason == manta::end_reason::process_lost);
  CHECK(numbers[deaths] == 2);
}

TEST_CASE("an idle actor's death costs none of the calls that follow it", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  constexpr int lives = 10;
  const auto a = restarted(lives);
  for (int i = 0; i < lives; ++i) {
    const int pid = end_life(a);
    std::vector<manta::future<int>> after;
    for (int n = 0; n < 10; ++n) after.push_back(manta::remote<&keeper::add>(a, n));
    for (int n = 0; n < 10; ++n) CHECK(after[static_cast<std::size_t>(n)].get() == n + 2);
    CHECK(numbers[life_pid] != pid);
  }
}

namespace {

// What became of one caller's calls.
struct tally {
  int made = 0;
  int ran = 0;
  int lost = 0;
  int other = 0;

  void count(const manta::future<int>& f) {
    const auto got = f.try_get();
    const bool is_lost = !got && got.error().code() == manta::errc::actor_lost &&
                         got.error().message().find("signal 9") != std::string::npos;
    ++(got ? ran : is_lost ? lost : other);
  }
};

// Calls all the time, whoever lives, and now and then waits until nothing is left to be done.
void call_until(const std::atomic<bool>& is_over, const manta::actor<keeper>& a, int caller,
                tally& mine) {
  const std::size_t longest = is_sanitized ? 500 : 5000;
  std::vector<manta::future<int>> some;
  while (!is_over) {
    some.push_back(manta::remote<&keeper::note>(a, caller, ++mine.made));
    pass_time();
    if (some.size() < longest) continue;
    for (const auto& f : some) mine.count(f);
    some.clear();
  }
  for (const auto& f : some) mine.count(f);
}

}  // namespace

TEST_CASE("a storm of deaths costs what ran, and no caller its order", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  constexpr int callers = 3;
  const int kills = is_sanitized ? 5 : 20;
  const auto a = restarted(kills);
  std::atomic<bool> is_over{false};
  std::vector<tally> had(callers);
  std::vector<std::thread> calling;
  for (int c = 0; c < callers; ++c) {
    calling.emplace_back([&, c] { call_until(is_over, a, c, had[static_cast<std::size_t>(c)]); });
  }
  int died = 0;
  for (; died < kills; ++died) {
    // Each life has its turn: one that has not begun yet would spend a restart for nothing.
    const int before = numbers[runs_of];
    if (!comes_true([&] { return numbers[runs_of] > before + died % 7; })) break;
    const int pid = numbers[life_pid];
    kill(pid, SIGKILL);
    if (!comes_true([&] { return numbers[life_pid] != pid; })) break;
  }
  is_over = true;
  for (std::thread& one : calling) one.join();
  CHECK(died == kills);
  CHECK(numbers[disorder] == 0);
  int lost = 0;
  for (int c = 0; c < callers; ++c) {
    const tally& mine = had[static_cast<std::size_t>(c)];
    const int runs = numbers[runs_of + static_cast<std::size_t>(c)];
    INFO("caller " << c << ": " << mine.made << " made, " << mine.ran << " ran, " << mine.lost
                   << " lost, " << runs << " seen there");
    CHECK(mine.other == 0);
    CHECK(mine.ran + mine.lost == mine.made);
    CHECK(runs >= mine.ran);
    CHECK(runs <= mine.made);
    lost += mine.lost;
  }
  CHECK(lost <= kills);  // one call runs at a time
  CHECK(manta::remote<&keeper::pid>(a).get() == numbers[life_pid]);
}

namespace {

int call_without_pause(const manta::actor<keeper>& a) {
  int number = 2;
  for (; shared(go_on) == 0; ++number) {
    static_cast<void>(manta::remote<&keeper::note>(a, 0, number));
  }
  return number;
}

}  // namespace

// What could break: calls come faster than those of the last life are sent again, which then has no
// end, and nobody hears of the next death.
TEST_CASE("who calls without a pause holds no restart up", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const bool by_workers = GENERATE(false, true);
  CAPTURE(by_workers);
  const auto a = restarted(2);
  manta::remote<&keeper::note>(a, 0, 1).get();
  int pid = numbers[life_pid];
  kill(pid, SIGKILL);
  std::thread calling;
  std::vector<manta::future<int>> in_workers;
  if (by_workers) {
    for (int i = 0; i < 4; ++i) in_workers.push_back(manta::remote<call_without_pause>(a));
  } else {
    calling = std::thread([&] { call_without_pause(a); });
  }
  REQUIRE(comes_true([&] { return numbers[life_pid] != pid; }));
  pid = numbers[life_pid];
  kill(pid, SIGKILL);
  const bool is_heard = comes_true([&] { return numbers[life_pid] != pid; }, 20s);
  numbers[go_on] = 1;
  if (calling.joinable()) calling.join();
  for (const auto& one : in_workers) CHECK(one.get(patience) > 1);
  CHECK(is_heard);
  CHECK(manta::remote<&keeper::pid>(a).get() == numbers[life_pid]);
  if (!by_workers) CHECK(numbers[disorder] == 0);  // there the numbers are those of four
}

TEST_CASE("calls that had begun are not run again, one at a time or several", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  SECTION("what stands for another task's result has begun, too") {
    const auto a = restarted(1);
    const auto stands = manta::remote<&keeper::delegates>(a, 0);
    const auto runs = manta::remote<&keeper::waits>(a, 1);
    const auto waits = manta::remote<&keeper::counts>(a, 2);
    REQUIRE(comes_true([&] { return numbers[begun] == 1; }));
    kill(numbers[life_pid], SIGKILL);
    CHECK(waits.get() == 1);
    numbers[go_on] = 1;
    CHECK_THROWS_AS(stands.get(), manta::actor_lost);
    CHECK_THROWS_AS(runs.get(), manta::actor_lost);
    CHECK(numbers[by_number] == 1);
    CHECK(numbers[by_number + 1] == 1);
  }
  SECTION("several at a time") {
    const auto a = manta::spawn<keeper>.with({.max_restarts = 1, .max_concurrency = 2})(0);
    const auto one = manta::remote<&keeper::waits>(a, 0);
    const auto two = manta::remote<&keeper::waits>(a, 1);
    std::vector<manta::future<int>> waiting;
    for (int i = 2; i < 10; ++i) waiting.push_back(manta::remote<&keeper::counts>(a, i));
    REQUIRE(comes_true([&] { return numbers[begun] == 2; }));
    kill(numbers[life_pid], SIGKILL);
    CHECK_THROWS_AS(one.get(), manta::actor_lost);
    CHECK_THROWS_AS(two.get(), manta::actor_lost);
    for (const auto& f : waiting) CHECK(f.get() == 1);
    CHECK(numbers[by_number] == 1);
  }
}

TEST_CASE("a call whose arguments end the worker that reads them costs one life", "[isolation]") {
  driver = getpid();
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const auto a = restarted(1);
  CHECK(manta::remote<&keeper::takes>(a, poison{false}).get() == 0);
  const auto deadly = manta::remote<&keeper::takes>(a, poison{true});
  const auto behind = manta::remote<&keeper::add>(a, 1);
  CHECK_THROWS_AS(deadly.get(), manta::actor_lost);
  CHECK(behind.get() == 2);
}

TEST_CASE("an actor that is let go while it is dead lives on for its last calls", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  auto a = restarted(1);
  const auto end = manta::monitor(a);
  manta::future<int> last;
  SECTION("retired") {
    const unheard_death now(a);
    for (int i = 0; i < 100; ++i) last = manta::remote<&keeper::add>(a, i);
    manta::retire(a);
    CHECK_THROWS_AS(manta::remote<&keeper::add>(a, 2).get(), manta::actor_lost);
  }
  SECTION("without handles") {
    const unheard_death now(a);
    for (int i = 0; i < 100; ++i) last = manta::remote<&keeper::add>(a, i);
    a = {};
  }
  CHECK(last.get() == 101);
  CHECK(end.get(patience).reason == manta::end_reason::ended);
}

TEST_CASE("an actor that is let go without calls is not made anew", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  auto a = restarted(1);
  const auto end = manta::monitor(a);
  {
    const unheard_death now(a);
    a = {};
  }
  CHECK(end.get(patience).reason == manta::end_reason::ended);
}

TEST_CASE("an actor that is killed while it is dead stays dead", "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const auto a = restarted(5);
  std::vector<manta::future<int>> waiting;
  int pid = 0;
  {
    const unheard_death now(a);
    pid = now.pid();
    for (int i = 0; i < 10; ++i) waiting.push_back(manta::remote<&keeper::counts>(a, i));
    manta::kill(a);
  }
  for (const auto& f : waiting) CHECK_THROWS_AS(f.get(), manta::actor_lost);
  CHECK(manta::monitor(a).get(patience).reason == manta::end_reason::killed);
  CHECK(numbers[life_pid] == pid);
  CHECK(numbers[by_number] == 0);
}

TEST_CASE("calls of a dead actor can be cancelled, have deadlines and fill its mailbox",
          "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<keeper>.with(
      {.max_restarts = 1, .mailbox_cap = 3, .on_full = manta::full_policy::refuse})(0);
  manta::future<int> first;
  manta::future<int> cancelled;
  manta::future<int> late;
  manta::future<int> last;
  {
    const unheard_death now(a);
    first = manta::remote<&keeper::counts>(a, 0);
    cancelled = manta::remote<&keeper::counts>(a, 1);
    late = manta::remote<&keeper::counts>.with({.timeout = 50ms})(a, 2);
    last = manta::remote<&keeper::counts>(a, 3);
    CHECK_THROWS_AS(manta::remote<&keeper::counts>(a, 4), manta::mailbox_full);
    manta::cancel(cancelled);
    CHECK_THROWS_AS(late.get(), manta::timed_out);
  }
  CHECK(first.get() == 1);
  CHECK_THROWS_AS(cancelled.get(), manta::cancelled);
  CHECK(last.get() == 1);
  CHECK(numbers[by_number + 1] == 0);
  CHECK(numbers[by_number + 2] == 0);
  for (int i = 5; i < 20; ++i) CHECK(manta::remote<&keeper::counts>(a, i).get() == 1);
}

// What could break: an end that comes in one of the steps of a death and a restart finds neither
// the old life nor the new one, and somebody waits for ever. Each round ends it a little later.
TEST_CASE("an end at any moment of a restart is an end", "[isolation]") {
  enum class how : int { killed, retired, dropped, runtime_ended };
  const shared_numbers numbers;
  const int rounds = is_sanitized ? 30 : 60;
  for (int round = 0; round < rounds; ++round) {
    const auto way = static_cast<how>(round % 4);
    std::vector<manta::future<int>> waiting;
    manta::future<manta::actor_end> end;
    {
      const manta::runtime rt(isolated(1));
      auto a = restarted(1);
      end = manta::monitor(a);
      end_life(a);
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(200) * round;
      int made = 0;
      do {
        waiting.push_back(manta::remote<&keeper::add>(a, ++made));
      } while (std::chrono::steady_clock::now() < until && made < 2000);
      if (way == how::killed) manta::kill(a);
      if (way == how::retired) manta::retire(a);
      a = {};
      if (way != how::runtime_ended) {
        const bool was_killed = way == how::killed;
        CHECK(end.get(patience).reason ==
              (was_killed ? manta::end_reason::killed : manta::end_reason::ended));
      }
    }
    int last = 1;
    for (const auto& f : waiting) {
      REQUIRE(f.is_ready());
      const auto got = f.try_get();
      if (way == how::retired || way == how::dropped) REQUIRE(got.has_value());
      if (got) {
        REQUIRE(*got == last + 1);
        last = *got;
      } else {
        const manta::errc code = got.error().code();
        REQUIRE((code == manta::errc::actor_lost || code == manta::errc::cancelled));
      }
    }
  }
}

// The message that would make it anew holds a handle, which may be the last one.
TEST_CASE("an actor with max_restarts that owns another one ends, and so does that one",
          "[isolation]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  for (int i = 0; i < 20; ++i) {
    auto inner = restarted(0);
    const auto end = manta::monitor(inner);
    auto outer = manta::spawn<owner>.with({.max_restarts = 1})(inner);
    CHECK(manta::remote<&owner::asks>(outer).get() == numbers[life_pid]);
    inner = {};
    outer = {};
    CHECK(end.get(patience).reason == manta::end_reason::ended);
  }
}

TEST_CASE("an actor whose message can't be read in its next life is lost, and says so",
          "[isolation]") {
  const shared_numbers numbers;
  driver = getpid();
  const manta::runtime rt(isolated());
  const auto a = manta::spawn<single>.with({.max_restarts = 3})(once_only{});
  const auto end = manta::monitor(a);
  end_process(manta::remote<&single::pid>(a).get());
  const auto how = end.get(patience);
  CHECK(how.reason == manta::end_reason::constructor_failed);
  CHECK(how.message.find("is read once") != std::string::npos);
  CHECK_THROWS_AS(manta::remote<&single::pid>(a).get(patience), manta::actor_lost);
}

}  // namespace test::restart
