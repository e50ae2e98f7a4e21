// SPDX-License-Identifier: Apache-2.0
// Futures inside of values that go to isolated workers and come from them: each is the future that
// it was, its value is there when somebody looks, and nothing of it stays.
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "isolation/support.hpp"
#include "node/future_names.hpp"
#include "node/worker_pool.hpp"

namespace future_test {

namespace {

using namespace std::chrono_literals;
using manta::future;
using test::comes_true;
using test::isolated;
using test::shared;
using test::shared_numbers;
using test::square;

struct box {
  std::string label;
  future<int> inside;
};
struct twins {
  future<int> left;
  future<int> right;
};

// Ids of futures that somebody has.
std::size_t known_futures() { return manta::node::future_names::global().size(); }
bool all_are_back() {
  return comes_true([] { return known_futures() == 0; });
}

int opened(const box& b) { return b.inside.get(); }
int given(future<int> f) { return f.get(); }
future<int> delegated(future<int> f) { return f; }
int late(int n) {
  ++shared(0);
  comes_true([] { return shared(1) != 0; });
  return n;
}
int throws(const std::string& text) { throw std::out_of_range(text); }

box boxed_call(int n) { return {"call", manta::remote<square>(n)}; }
box boxed_put(int n) { return {"put", manta::put(n)}; }
box boxed_late(int n) { return {"late", manta::remote<late>(n)}; }
box boxed_old(int n) {
  const future<int> f = manta::remote<square>(n);
  f.get();
  return {"old", f};
}
box boxed_async(int n) {
  return {"async", manta::async([n] { return late(n); })};
}
box boxed_dependent(int n) { return {"dependent", manta::remote<square>(manta::remote<late>(n))}; }
box boxed_failure() { return {"failure", manta::remote<throws>("nine")}; }
box same_box(box b) { return b; }

}  // namespace

TEST_CASE("a future inside of an argument has its value in the worker", "[isolation][future]") {
  const shared_numbers numbers;
  {
    const manta::runtime rt(isolated());
    CHECK(manta::remote<opened>(box{"put", manta::put(3)}).get() == 3);
    CHECK(manta::remote<opened>(box{"call", manta::remote<square>(3)}).get() == 9);
    CHECK(manta::remote<given>(manta::remote<square>(4)).get() == 16);
    CHECK(manta::remote<delegated>(manta::remote<square>(5)).get() == 25);
    const future<int> pending = manta::remote<late>(7);
    const future<int> waits = manta::remote<opened>(box{"late", pending});
    REQUIRE(comes_true([&] { return numbers[0] == 1; }));
    CHECK_FALSE(waits.is_ready());
    numbers[1] = 1;
    CHECK(waits.get() == 7);
    CHECK(all_are_back());
  }
  CHECK(known_futures() == 0);
}

TEST_CASE("a future inside of a result has its value in the driver", "[isolation][future]") {
  const shared_numbers numbers;
  {
    const manta::runtime rt(isolated());
    CHECK(manta::remote<boxed_put>(3).get().inside.get() == 3);
    CHECK(manta::remote<boxed_call>(3).get().inside.get() == 9);
    CHECK(manta::remote<boxed_old>(4).get().inside.get() == 16);
    const box b = manta::remote<boxed_late>(7).get();
    REQUIRE(comes_true([&] { return numbers[0] == 1; }));
    CHECK_FALSE(b.inside.is_ready());
    CHECK_THROWS_AS(b.inside.get(1ms), manta::timed_out);
    numbers[1] = 1;
    CHECK(b.inside.get() == 7);
    CHECK(b.inside.is_ready());
  }
  CHECK(known_futures() == 0);
}

TEST_CASE("what a worker makes itself comes when it is there", "[isolation][future]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  for (const auto make : {+[] { return manta::remote<boxed_async>(5).get(); },
                          +[] { return manta::remote<boxed_dependent>(5).get(); }}) {
    numbers[0] = 0;
    numbers[1] = 0;
    const box b = make();
    REQUIRE(comes_true([&] { return numbers[0] == 1; }));
    CHECK_FALSE(b.inside.is_ready());
    numbers[1] = 1;
    CHECK(b.inside.get() == (b.label == "async" ? 5 : 25));
  }
}

namespace {

// The call has ended, and this worker has not heard of it when its future leaves.
box boxed_unheard(int n) {
  const future<int> f = manta::remote<square>(n);
  comes_true([] { return shared(1) != 0; });
  return {"unheard", f};
}

}  // namespace

TEST_CASE("a call that was answered before its future left has its value", "[isolation][future]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  for (int round = 1; round <= 20; ++round) {
    numbers[1] = 0;
    const future<box> made = manta::remote<boxed_unheard>(round);
    const auto done = static_cast<std::uint64_t>(2 * round - 1);
    REQUIRE(comes_true([&] { return rt.stats().tasks_run >= done; }));
    numbers[1] = 1;
    CHECK(made.get().inside.get(test::patience) == round * round);
  }
}

namespace {

int relayed(box b, int depth) {
  if (depth == 0) return b.inside.get();
  return manta::remote<relayed>(std::move(b), depth - 1).get();
}
int relays_own(int n) { return manta::remote<opened>(boxed_call(n)).get(); }
int relays_late(int n) { return manta::remote<opened>(boxed_dependent(n)).get(); }

}  // namespace

TEST_CASE("a worker passes futures on to others through its node", "[isolation][future]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  CHECK(manta::remote<relayed>(box{"", manta::remote<square>(6)}, 5).get() == 36);
  CHECK(manta::remote<relays_own>(6).get() == 36);
  numbers[1] = 1;
  CHECK(manta::remote<relays_late>(6).get() == 36);
  const future<int> six = manta::remote<square>(6);
  const box back = manta::remote<same_box>(box{"back", six}).get();
  CHECK(back.inside == six);
}

namespace {

bool are_same(const twins& t) { return t.left == t.right && t.left.get() == t.right.get(); }
twins made_twins(int n) {
  const future<int> f = manta::remote<square>(n);
  return {f, f};
}
twins made_own_twins(int n) {
  const future<int> f = manta::put(n);
  return {f, f};
}

}  // namespace

TEST_CASE("a future that is twice in a value is the same one there", "[isolation][future]") {
  const manta::runtime rt(isolated());
  const future<int> nine = manta::remote<square>(3);
  CHECK(manta::remote<are_same>(twins{nine, nine}).get());
  CHECK_FALSE(manta::remote<are_same>(twins{nine, manta::put(9)}).get());
  const twins made = manta::remote<made_twins>(3).get();
  CHECK(made.left == made.right);
  CHECK(made.left.get() == 9);
  const twins own = manta::remote<made_own_twins>(3).get();
  CHECK(own.left == own.right);
  CHECK(own.right.get() == 3);
  CHECK(manta::remote<are_same>(own).get());
}

namespace {

struct shelf {
  std::vector<future<std::string>> texts;
  std::map<int, future<int>> numbers;
  std::optional<future<void>> done;
  future<double> none;
  future<std::vector<double>> large;
};
std::string repeated(const std::string& s, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += s;
  return out;
}
void nothing() { ++shared(5); }
std::string summary(const shelf& s) {
  std::string out;
  for (const auto& one : s.texts) out += one.get() + " ";
  for (const auto& [key, one] : s.numbers) out += std::to_string(key + one.get()) + " ";
  if (s.done) s.done->get();
  out += s.none.valid() ? "valid " : "empty ";
  return out + std::to_string(s.large.get().size());
}
shelf made_shelf() {
  return {{manta::remote<repeated>("ab", 2), manta::put("cd")},
          {{1, manta::remote<square>(2)}, {2, manta::put(3)}},
          manta::remote<nothing>(),
          {},
          manta::put(std::vector<double>(300'000, 1.5))};
}

}  // namespace

TEST_CASE("futures of any type are in values of any shape", "[isolation][future]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const std::string expected = "abab cd 5 5 empty 300000";
  CHECK(manta::remote<summary>(made_shelf()).get() == expected);
  const shelf made = manta::remote<made_shelf>().get();
  CHECK(summary(made) == expected);
  CHECK(manta::remote<summary>(made).get() == expected);
  CHECK(numbers[5] == 2);
}

namespace {

struct owner {
  future<std::unique_ptr<int>> inside;
};
std::unique_ptr<int> made_unique(int n) { return std::make_unique<int>(n); }
owner made_owner(int n) { return {manta::remote<made_unique>(n)}; }
int emptied(owner o) { return *std::move(o.inside).get(); }

}  // namespace

TEST_CASE("futures of what can only be moved are moved out where they arrive",
          "[isolation][future]") {
  const manta::runtime rt(isolated());
  owner made = manta::remote<made_owner>(4).get();
  CHECK(*made.inside.get() == 4);
  const std::unique_ptr<int> value = std::move(made.inside).get();
  CHECK(*value == 4);
  CHECK(manta::remote<emptied>(owner{manta::remote<made_unique>(5)}).get() == 5);
  CHECK(manta::remote<emptied>(manta::remote<made_owner>(6).get()).get() == 6);
}

namespace {

struct crate {
  future<box> inside;
};
crate made_crate(int n) { return {manta::remote<boxed_call>(n)}; }
crate put_crate(int n) { return {manta::put(box{"inner", manta::put(n)})}; }
int unpacked(const crate& c) { return c.inside.get().inside.get(); }
struct link {
  int value = 0;
  future<link> next;
};
link made_chain(int n) {
  link last{n, {}};
  for (int i = n - 1; i >= 0; --i) last = {i, manta::put(std::move(last))};
  return last;
}
int length_of(link at) {
  int n = 1;
  for (; at.next.valid(); ++n) at = link(at.next.get());
  return n;
}

}  // namespace

TEST_CASE("values of futures have futures inside, to any depth", "[isolation][future]") {
  {
    const manta::runtime rt(isolated());
    CHECK(unpacked(manta::remote<made_crate>(3).get()) == 9);
    CHECK(unpacked(manta::remote<put_crate>(3).get()) == 3);
    CHECK(manta::remote<unpacked>(manta::remote<made_crate>(3).get()).get() == 9);
    CHECK(manta::remote<unpacked>(crate{manta::remote<boxed_put>(8)}).get() == 8);
    CHECK(length_of(manta::remote<made_chain>(3000).get()) == 3001);
    CHECK(manta::remote<length_of>(made_chain(3000)).get() == 3001);
    CHECK(all_are_back());
  }
  CHECK(known_futures() == 0);
}

namespace {

class keeper {
 public:
  keeper() = default;
  explicit keeper(box first) : kept_(std::move(first)) {}
  void keep(box b) { kept_ = std::move(b); }
  int value() const { return kept_.inside.get(); }
  box copy() const { return kept_; }
  void drop() { kept_ = {}; }

 private:
  box kept_;
};
// Gives an actor the future of a call, and is gone before that ends.
void keeps_there(manta::actor<keeper> a, int n) {
  manta::remote<&keeper::keep>(a, boxed_late(n)).get();
}

}  // namespace

TEST_CASE("an actor keeps a future between its calls, whoever dropped it", "[isolation][future]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  {
    const auto a = manta::spawn<keeper>(box{"first", manta::remote<square>(3)});
    CHECK(manta::remote<&keeper::value>(a).get() == 9);
    future<int> pending = manta::remote<late>(5);
    manta::remote<&keeper::keep>(a, box{"second", pending}).get();
    const box back = manta::remote<&keeper::copy>(a).get();
    CHECK(back.inside == pending);
    pending = {};
    numbers[1] = 1;
    CHECK(back.inside.get() == 5);
    CHECK(manta::remote<&keeper::value>(a).get() == 5);
  }
  {
    numbers[0] = 0;
    numbers[1] = 0;
    const auto a = manta::spawn<keeper>();
    manta::remote<keeps_there>(a, 6).get();
    const box copy = manta::remote<&keeper::copy>(a).get();
    REQUIRE(comes_true([&] { return numbers[0] == 1; }));
    const future<int> there = manta::remote<&keeper::value>(a);
    numbers[1] = 1;
    CHECK(there.get() == 6);
    CHECK(copy.inside.get() == 6);
    manta::remote<&keeper::drop>(a).get();
  }
  CHECK(all_are_back());
}

namespace {

std::string error_of(const box& b) {
  try {
    b.inside.get();
    return "none";
  } catch (const std::out_of_range& e) {
    return std::string("out_of_range ") + e.what();
  } catch (const manta::exception& e) {
    return manta::to_string(e.code());
  }
}

}  // namespace

TEST_CASE("a future inside of a value that failed has its error", "[isolation][future]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  const box made = manta::remote<boxed_failure>().get();
  const std::string here = error_of(made);
  CAPTURE(here);
  CHECK(here == error_of({"", manta::remote<throws>("nine")}));
  const std::string there = manta::remote<error_of>(box{"", manta::remote<throws>("nine")}).get();
  CHECK(there == here);
  CHECK(manta::remote<error_of>(made).get() == here);
}

namespace {

// What can be done with a future that is not there, and then is.
std::string used_every_way(box b) {
  std::string out;
  const future<int>& f = b.inside;
  const auto say = [&out](bool is) { out += is ? 'y' : 'n'; };
  say(f.is_ready());
  try {
    f.get(0ms);
  } catch (const manta::timed_out&) {
    out += 't';
  }
  say(f.try_get(1ms).has_value());
  say(manta::wait(std::vector{f}, {.count = 1, .timeout = 1ms}).ready.empty());
  say(manta::wait_any(1ms, f).has_value());
  shared(1) = 1;
  say(manta::wait_any(f) == 0);
  say(f.is_ready());
  say(manta::wait(std::vector{f}).pending.empty());
  say(manta::remote<square>(f).get() == f.get() * f.get());
  for (auto& one : manta::as_completed(std::vector{f})) say(one.get() == f.get());
  return out;
}
// Looks whether it is there, and does nothing else.
int polled(const box& b) {
  shared(1) = 1;
  const bool is = comes_true([&] { return b.inside.is_ready(); });
  return is ? b.inside.get() : -1;
}
manta::coroutine<int> awaited(box b) {
  const int first = co_await b.inside;
  co_return first + co_await manta::remote<square>(2);
}

}  // namespace

TEST_CASE("a worker waits for a future that came in each way there is", "[isolation][future]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  CHECK(manta::remote<used_every_way>(box{"", manta::remote<late>(4)}).get() == "ntnynyyyyy");
  CHECK(manta::remote<awaited>(box{"", manta::remote<square>(3)}).get() == 13);
  numbers[1] = 0;
  CHECK(manta::remote<polled>(box{"", manta::remote<late>(5)}).get() == 5);
  numbers[1] = 0;
  const auto coming = manta::remote<awaited>(box{"", manta::remote<late>(3)});
  numbers[1] = 1;
  CHECK(coming.get() == 7);
}

namespace {

int ends_when_asked() {
  ++shared(0);
  const bool is = comes_true([] { return manta::this_task::is_cancelled(); });
  if (is) ++shared(2);
  manta::this_task::check();
  return 1;
}
box boxed_endless() { return {"", manta::remote<ends_when_asked>()}; }
std::string cancelled_there(const box& b) {
  comes_true([] { return shared(0) != 0; });
  const bool was = manta::cancel(b.inside);
  const std::string how = error_of(b);
  return how + (was && !manta::cancel(b.inside) ? " yes" : " no");
}

}  // namespace

TEST_CASE("a future is cancelled wherever it is", "[isolation][future]") {
  const shared_numbers numbers;
  const manta::runtime rt(isolated());
  CHECK(manta::remote<cancelled_there>(box{"", manta::remote<ends_when_asked>()}).get() ==
        "cancelled yes");
  CHECK(numbers[2] == 1);
  const box made = manta::remote<boxed_endless>().get();
  REQUIRE(comes_true([&] { return numbers[0] == 2; }));
  CHECK(manta::cancel(made.inside));
  CHECK_THROWS_AS(made.inside.get(), manta::cancelled);
  CHECK_FALSE(manta::cancel(made.inside));
  CHECK(numbers[2] == 2);
  CHECK_FALSE(manta::cancel(manta::remote<boxed_put>(1).get().inside));
}

}  // namespace future_test
