// SPDX-License-Identifier: Apache-2.0
// Futures inside of values when many are there at once, when processes die that have them, and when
// a worker names what it was never given.
#include <chrono>
#include <csignal>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "isolation/support.hpp"
#include "node/actor_names.hpp"
#include "node/future_names.hpp"
#include "node/worker_questions.hpp"

namespace future_fault_test {

namespace {

using namespace std::chrono_literals;
using manta::future;
using test::comes_true;
using test::isolated;
using test::shared;
using test::shared_numbers;
using test::square;

struct box {
  future<int> inside;
};
struct many {
  std::vector<future<int>> all;
};

std::size_t known_futures() { return manta::node::future_names::global().size(); }
bool all_are_back() {
  return comes_true([] { return known_futures() == 0; });
}
int opened(const box& b) { return b.inside.get(); }
int same(int n) { return n; }
many made_many(int n) {
  many out;
  for (int i = 0; i < n; ++i) out.all.push_back(manta::remote<same>(i));
  return out;
}
long long sum_of(const many& m) {
  long long sum = 0;
  for (const auto& one : m.all) sum += one.get();
  return sum;
}
long long sum_to(long long n) { return n * (n - 1) / 2; }

}  // namespace

TEST_CASE("a result full of futures whose calls still run ends", "[isolation][future]") {
  {
    const manta::runtime rt(isolated());
    const std::size_t before = test::children_of(getpid()).size();
    const int count = manta_test::scaled(40'000);
    const many made = manta::remote<made_many>(count).get();
    CHECK(sum_of(made) == sum_to(count));
    CHECK(test::children_of(getpid()).size() <= before + 16);
  }
  CHECK(known_futures() == 0);
}

TEST_CASE("an argument full of futures whose calls still run ends", "[isolation][future]") {
  const manta::runtime rt(isolated());
  const int count = manta_test::scaled(10'000);
  CHECK(manta::remote<sum_of>(made_many(count)).get() == sum_to(count));
  const many made = manta::remote<made_many>(2000).get();
  std::vector<future<long long>> sums;
  for (int i = 0; i < 8; ++i) sums.push_back(manta::remote<sum_of>(made));
  for (const auto& one : sums) CHECK(one.get() == sum_to(2000));
}

namespace {

int counted_workers() {
  int most = shared(0);
  const int now = static_cast<int>(test::children_of(getppid()).size());
  while (most < now && !shared(0).compare_exchange_weak(most, now)) {
  }
  return now;
}
int chained(box next, int depth) {
  counted_workers();
  if (depth == 0) return next.inside.get() + 1;
  return manta::remote<chained>(box{manta::remote<opened>(std::move(next))}, depth - 1).get() + 1;
}

}  // namespace

TEST_CASE("a chain of tasks that wait for each other's futures has few workers",
          "[isolation][future]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  CHECK(manta::remote<chained>(box{manta::remote<same>(1)}, 50).get() == 52);
  CHECK(numbers[0] < 60);
}

TEST_CASE("many rounds leave nothing behind", "[isolation][future]") {
  const manta::runtime rt(isolated());
  const auto round = [](int i) {
    const many made = manta::remote<made_many>(2).get();
    return manta::remote<opened>(box{manta::put(i)}).get() + static_cast<int>(sum_of(made));
  };
  int wrong = 0;
  for (int i = 0; i < manta_test::scaled(4'000); ++i) wrong += round(i) == i + 1 ? 0 : 1;
  CHECK(wrong == 0);
  CHECK(all_are_back());
}

namespace {

// Runs long enough for its caller to die, the first time; and counts its runs.
int slow(int n) {
  ++shared(0);
  comes_true([] { return shared(1) != 0; });
  return n;
}
class keeper {
 public:
  void keep(box b) { kept_ = std::move(b); }
  int value() const { return kept_.inside.get(); }
  box copy() const { return kept_; }
  int pid() const { return getpid(); }

 private:
  box kept_;
};
enum class made_by { call, own };
// Gives the future away and dies; the second run does not.
int gives_and_dies(manta::actor<keeper> to, made_by how) {
  if (++shared(2) > 1) return 1;
  const box made{how == made_by::call ? manta::remote<slow>(7)
                                      : manta::remote<slow>(manta::remote<slow>(7))};
  manta::remote<&keeper::keep>(to, made).get();
  raise(SIGKILL);
  return 0;
}

}  // namespace

TEST_CASE("a call goes on whose caller was killed after it gave the future away",
          "[isolation][future]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  {
    const auto a = manta::spawn<keeper>();
    CHECK(manta::remote<gives_and_dies>(a, made_by::call).get() == 1);
    const future<int> value = manta::remote<&keeper::value>(a);
    numbers[1] = 1;
    CHECK(value.get() == 7);
    CHECK(manta::remote<&keeper::copy>(a).get().inside.get() == 7);
  }
  CHECK(all_are_back());
}

namespace {

// Gives away the future of a call that has not begun, and dies.
int gives_queued_and_dies(manta::actor<keeper> to) {
  if (++shared(2) > 1) return 1;
  const box made{manta::remote<same>.with({.resources = {{"key", 1}}})(8)};
  manta::remote<&keeper::keep>(to, made).get();
  raise(SIGKILL);
  return 0;
}

}  // namespace

TEST_CASE("a call that had not begun when its caller was killed runs for who has its future",
          "[isolation][future]") {
  const shared_numbers numbers;
  manta::config c = isolated();
  c.resources = manta::resource_list{{"key", 1}};
  const manta::runtime rt(c);
  const future<int> holds = manta::remote<slow>.with({.resources = {{"key", 1}}})(1);
  REQUIRE(comes_true([&] { return numbers[0] == 1; }));
  const auto a = manta::spawn<keeper>();
  CHECK(manta::remote<gives_queued_and_dies>(a).get() == 1);
  numbers[1] = 1;
  CHECK(holds.get() == 1);
  CHECK(manta::remote<&keeper::value>(a).get() == 8);
}

namespace {

int queues_and_dies() {
  const future<int> queued = manta::remote<same>.with({.resources = {{"key", 1}}})(8);
  if (++shared(2) == 1) raise(SIGKILL);
  return queued.get();
}

}  // namespace

TEST_CASE("a call that waits for resources when its caller is killed is made anew",
          "[isolation][future]") {
  const shared_numbers numbers;
  manta::config c = isolated();
  c.resources = manta::resource_list{{"key", 1}};
  const manta::runtime rt(c);
  const future<int> holds = manta::remote<slow>.with({.resources = {{"key", 1}}})(1);
  REQUIRE(comes_true([&] { return numbers[0] == 1; }));
  const future<int> again = manta::remote<queues_and_dies>();
  REQUIRE(comes_true([&] { return numbers[2] == 2; }));
  numbers[1] = 1;
  CHECK(holds.get() == 1);
  CHECK(again.get() == 8);
}

TEST_CASE("what a killed worker owed fails with its loss", "[isolation][future]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  {
    const auto a = manta::spawn<keeper>();
    CHECK(manta::remote<gives_and_dies>(a, made_by::own).get() == 1);
    numbers[1] = 1;
    CHECK_THROWS_AS(manta::remote<&keeper::value>(a).get(), manta::worker_lost);
    CHECK_THROWS_AS(manta::remote<&keeper::copy>(a).get().inside.get(), manta::worker_lost);
  }
  CHECK(all_are_back());
}

namespace {

int dies_once(int n) {
  if (++shared(0) == 1) raise(SIGKILL);
  return n;
}
box boxed_fatal(int n) { return {manta::remote<dies_once>(n)}; }
// The call may run right here, above this task.
box waits_for_fatal(manta::actor<keeper> to, int n) {
  const box made = boxed_fatal(n);
  manta::remote<&keeper::keep>(to, made).get();
  made.inside.get();
  return made;
}
int dies_with(const box& b) {
  const int value = b.inside.get();
  if (++shared(0) == 1) raise(SIGKILL);
  return value;
}

}  // namespace

TEST_CASE("a call behind a future that left runs again when its worker dies",
          "[isolation][future]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  CHECK(manta::remote<boxed_fatal>(4).get().inside.get() == 4);
  CHECK(numbers[0] == 2);
  numbers[0] = 0;
  const auto a = manta::spawn<keeper>();
  CHECK(manta::remote<waits_for_fatal>(a, 5).get().inside.get() == 5);
  CHECK(manta::remote<&keeper::value>(a).get() == 5);
}

TEST_CASE("a task whose worker dies has its futures again", "[isolation][future]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  CHECK(manta::remote<dies_with>(box{manta::remote<same>(6)}).get() == 6);
  numbers[0] = 0;
  CHECK(manta::remote<dies_with>(manta::remote<made_many>(1).get().all[0].is_ready()
                                     ? box{manta::put(8)}
                                     : box{manta::put(8)})
            .get() == 8);
  {
    const auto a = manta::spawn<keeper>();
    manta::remote<&keeper::keep>(a, box{manta::put(9)}).get();
    kill(manta::remote<&keeper::pid>(a).get(), SIGKILL);
  }
  CHECK(all_are_back());
}

namespace {

// A future with an id that nobody gave to this worker.
future<int> forged(std::uint64_t number) {
  manta::spec::reference made;
  made.what = {manta::node::future_mark, number};
  made.kind = manta::spec::reference_kind::future;
  const manta::node::arrived_handles came(
      {&made, 1}, {}, [](void*, const manta::base::id&) {}, nullptr);
  manta::exec::job* const j = manta::node::borrow_future(
      made.what, manta::codec::type_hash<future<int>>, manta::detail::make_far<int>);
  return manta::detail::access::make<int>(j);
}
box forged_result(std::uint64_t number) { return {forged(number)}; }
int forged_argument(std::uint64_t number) {
  return manta::remote<opened>(box{forged(number)}).get();
}
int forged_question(std::uint64_t number) { return forged(number).get(); }

// A future that was given to this worker, as one of another type.
struct text_box {
  future<std::string> inside;
};
text_box disguised(const box& b) {
  manta::exec::job* const j = manta::detail::access::job(b.inside);
  j->hold();
  return {manta::detail::access::make<std::string>(j)};
}

template <auto F, class T>
std::string end_of(T number) {
  try {
    static_cast<void>(manta::remote<F>.with({.max_retries = 0})(number).get());
    return "none";
  } catch (const manta::worker_lost& e) {
    return e.what();
  }
}

}  // namespace

TEST_CASE("a worker that names a future it was never given is ended", "[isolation][future]") {
  const manta::runtime rt(isolated());
  const future<int> other = manta::remote<same>(1);
  const auto says = [](const std::string& text) {
    CAPTURE(text);
    // It lets go of what it has forged as its call ends: the words of that may come first.
    CHECK((text.find("a future that it was never given") != std::string::npos ||
           text.find("handles given back that it has not") != std::string::npos));
    CHECK(text.find('\n') == std::string::npos);
  };
  for (const std::uint64_t number : {std::uint64_t{1}, std::uint64_t{1} << 40U}) {
    says(end_of<forged_result>(number));
    says(end_of<forged_argument>(number));
    says(end_of<forged_question>(number));
  }
  says(end_of<disguised>(box{other}));
  CHECK(manta::remote<opened>(box{other}).get() == 1);
  CHECK(all_are_back());
}

}  // namespace future_fault_test
