// SPDX-License-Identifier: Apache-2.0
// Small facts, asked and changed by tasks and methods of actors: names of actors, values under
// keys, the history. All of it is the same wherever they run.
#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "api/support.hpp"

namespace inside_test {

namespace {

using Catch::Matchers::Contains;
namespace kv = manta::kv;
namespace history = manta::history;

struct ledger {
  int sum = 0;
  explicit ledger(int first) : sum(first) {}
  int add(int n) { return sum += n; }
};
struct picky {
  explicit picky(int n) {
    if (n < 0) throw std::runtime_error("no room for " + std::to_string(n));
  }
  int one() { return 1; }
};

// What an attempt ended with: its answer, or the error's code and text.
struct outcome {
  int value = 0;
  int code = -1;
  std::string text;
};
template <class F>
outcome tried(F what) {
  try {
    return {what(), -1, {}};
  } catch (const manta::exception& e) {
    return {0, static_cast<int>(e.as_error().code()), e.what()};
  }
}
bool is(const outcome& got, manta::errc code) { return got.code == static_cast<int>(code); }

// ---- names

outcome finds(std::string name, std::string space, int n) {
  return tried([&] {
    const auto found = manta::find_actor<ledger>(name, space);
    return found ? manta::remote<&ledger::add>(*found, n).get() : -1;
  });
}
outcome finds_another(std::string name) {
  return tried([&] { return manta::find_actor<picky>(name) ? 1 : 0; });
}
outcome takes(std::string name, bool may_exist, int first) {
  return tried([&] {
    const auto mine = manta::spawn<ledger>.with({.name = name, .get_if_exists = may_exist})(first);
    return manta::remote<&ledger::add>(mine, 1).get();
  });
}
manta::actor<ledger> makes(std::string name, int first) {
  return manta::spawn<ledger>.with({.name = name, .name_space = "made", .mailbox_cap = 10})(first);
}
outcome takes_picky(std::string name, bool may_exist, int n) {
  return tried([&] {
    const auto mine = manta::spawn<picky>.with({.name = name, .get_if_exists = may_exist})(n);
    return manta::remote<&picky::one>(mine).get();
  });
}
bool is_same(std::string name, manta::actor<ledger> as) {
  return *manta::find_actor<ledger>(name) == as;
}
int one_more(std::string name) {
  const auto one = manta::spawn<ledger>.with({.name = name, .get_if_exists = true})(0);
  return manta::remote<&ledger::add>(one, 1).get();
}
// What an actor begins with, ready only when somebody has said that the name was asked for.
std::string key_of(int n) { return "late/" + std::to_string(n); }
int fails_late(int n) {
  const auto end = std::chrono::steady_clock::now() + test::patience;
  while (!kv::get<int>(key_of(n)).get()) {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error("nobody asked");
  }
  if (n < 0) throw std::runtime_error("nothing to begin with");
  return n;
}
outcome begins_late(std::string name, int n) {
  return tried([&] {
    auto first = manta::remote<fails_late>(n);
    const auto mine = manta::spawn<ledger>.with({.name = name})(first);
    const auto found = manta::find_actor<ledger>(name);
    kv::put(key_of(n), 1).get();
    if (!found || !(*found == mine)) return -1;
    return manta::remote<&ledger::add>(*found, 1).get();
  });
}
outcome kills_early(std::string name) {
  return tried([&] {
    auto first = manta::remote<fails_late>(5);
    const auto mine = manta::spawn<ledger>.with({.name = name})(first);
    manta::kill(mine);
    kv::put(key_of(5), 1).get();
    return manta::remote<&ledger::add>(mine, 1).get();
  });
}

struct head {
  manta::actor<ledger> own;
  int hires(std::string name) {
    own = manta::spawn<ledger>.with({.name = name})(40);
    return manta::remote<&ledger::add>(*manta::find_actor<ledger>(name), 2).get();
  }
  bool finds_itself() {
    return *manta::find_actor<head>("head") == manta::this_actor::handle<head>();
  }
};

bool comes_free(const std::string& name) {
  const auto end = std::chrono::steady_clock::now() + test::patience;
  while (manta::find_actor<ledger>(name)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace

TEST_CASE("inside: a task finds an actor by its name, and says what is wrong as the driver does",
          "[name][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<ledger>.with({.name = "books"})(1);
  const auto b = manta::spawn<ledger>.with({.name = "books", .name_space = "old"})(100);
  CHECK(manta::remote<finds>("books", "", 1).get().value == 2);
  CHECK(manta::remote<finds>("books", "old", 1).get().value == 101);
  CHECK(manta::remote<finds>("books", "new", 1).get().value == -1);
  CHECK(manta::remote<is_same>("books", a).get());
  CHECK_FALSE(manta::remote<is_same>("books", b).get());
  const outcome other = manta::remote<finds_another>("books").get();
  CHECK(is(other, manta::errc::invalid_argument));
  CHECK_THAT(other.text, Contains("ledger") && Contains("picky"));
  CHECK(manta::remote<&ledger::add>(a, 0).get() == 2);
}

TEST_CASE("inside: a name that a task takes is everybody's to find, and taken",
          "[name][anywhere]") {
  const manta::runtime rt(test::two_workers());
  auto made = manta::remote<makes>("one", 7).get();
  REQUIRE(manta::find_actor<ledger>("one", "made"));
  CHECK(*manta::find_actor<ledger>("one", "made") == made);
  CHECK(manta::remote<finds>("one", "made", 1).get().value == 8);
  CHECK_THROWS_AS(manta::remote<makes>("one", 7).get(), manta::name_taken);
  CHECK(manta::remote<&ledger::add>(made, 1).get() == 9);
  const auto here = manta::spawn<ledger>.with({.name = "here"})(0);
  const outcome taken = manta::remote<takes>("here", false, 5).get();
  CHECK(is(taken, manta::errc::name_taken));
  CHECK_THAT(taken.text, Contains("\"here\"") && Contains("ledger"));
  CHECK(manta::remote<takes>("here", true, 5).get().value == 1);  // the driver's own
  CHECK(manta::remote<takes>("mine", true, 5).get().value == 6);  // one of the task's
  CHECK(comes_free("mine"));
  CHECK(manta::remote<takes>("mine", false, 6).get().value == 7);
  CHECK(is(manta::remote<takes_picky>("here", true, 1).get(), manta::errc::invalid_argument));
}

// Types whose names are long, and alike until their ends.
template <class Long, int N>
struct tagged {
  int tag() { return N; }
};
TEST_CASE("inside: two types with long names that begin alike are two types", "[name][anywhere]") {
  using all = std::make_integer_sequence<int, 400>;
  const manta::runtime rt(test::two_workers());
  const auto first = manta::spawn<tagged<all, 1>>.with({.name = "long"})();
  CHECK(manta::remote<&tagged<all, 1>::tag>(*manta::find_actor<tagged<all, 1>>("long")).get() == 1);
  CHECK_THROWS_AS((manta::find_actor<tagged<all, 2>>("long")), manta::invalid_argument);
}

TEST_CASE("inside: many tasks that get or make one name get one actor", "[name][anywhere]") {
  const manta::runtime rt(test::workers(3));
  const auto keeps = manta::spawn<ledger>.with({.name = "all"})(0);
  std::vector<manta::future<int>> all;
  for (int i = 0; i < 60; ++i) all.push_back(manta::remote<one_more>("all"));
  std::vector<int> got = manta::get(all);
  std::ranges::sort(got);
  for (int i = 0; i < 60; ++i) CHECK(got[static_cast<std::size_t>(i)] == i + 1);
}

TEST_CASE("inside: a name is there before its actor can be made, and free when it never is",
          "[name][anywhere]") {
  const manta::runtime rt(test::two_workers());
  CHECK(manta::remote<begins_late>("late", 4).get().value == 5);
  CHECK(comes_free("late"));
  const outcome never = manta::remote<begins_late>("late", -4).get();
  CHECK(is(never, manta::errc::actor_lost));
  CHECK_THAT(never.text, Contains("nothing to begin with"));
  CHECK(comes_free("late"));
  CHECK(is(manta::remote<kills_early>("late").get(), manta::errc::actor_lost));
  CHECK(comes_free("late"));
  const outcome thrown = manta::remote<takes_picky>("late", false, -3).get();
  CHECK(is(thrown, manta::errc::actor_lost));
  CHECK_THAT(thrown.text, Contains("no room for -3"));
  CHECK(comes_free("late"));
  CHECK(manta::remote<begins_late>("late", 1).get().value == 2);
}

TEST_CASE("inside: an actor's method takes and finds names, its own, too", "[name][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<head>.with({.name = "head"})();
  CHECK(manta::remote<&head::hires>(a, "clerk").get() == 42);
  CHECK(manta::remote<&head::finds_itself>(a).get());
  CHECK(manta::remote<&ledger::add>(*manta::find_actor<ledger>("clerk"), 1).get() == 43);
  const auto actors = history::actors().get();
  CHECK(actors.size() == 2);
}

// ---- values under keys

namespace {

struct setup {
  std::string name;
  std::vector<double> rates;
  bool operator==(const setup&) const = default;
};

// Counts what it found as it should be.
int keeps_all(std::string at) {
  int right = 0;
  const setup s{"best", std::vector<double>(50000, 0.5)};
  const kv::revision first = kv::put(at + "/s", s).get();
  const auto found = kv::get<setup>(at + "/s").get();
  right += found && found->value == s && found->at == first && found->key == at + "/s" ? 1 : 0;
  right += !kv::get<setup>(at + "/none").get() ? 1 : 0;
  right += kv::cas(at + "/n", 0, 1).get() ? 1 : 0;
  right += !kv::cas(at + "/n", 0, 2).get() ? 1 : 0;
  for (int i = 10; i < 40; ++i) {
    static_cast<void>(kv::put(at + "/list/" + std::to_string(i), i));
  }
  kv::put(at + "/list/40", 40).get();
  const auto page = kv::list<int>(at + "/list/", {}, 20).get();
  const auto rest = kv::list<int>(at + "/list/", page.back().key).get();
  right += page.size() == 20 && page[0].value == 10 ? 1 : 0;
  right += rest.size() == 11 && rest.back().value == 40 ? 1 : 0;
  right += kv::erase(at + "/s", {.durable = true}).get() > first ? 1 : 0;
  right += !kv::get<setup>(at + "/s").get() ? 1 : 0;
  return right;
}
int counts_up(std::string key, int times) {
  int tries = 0;
  for (int done = 0; done < times;) {
    ++tries;
    const auto now = kv::get<int>(key).get();
    if (kv::cas(key, now ? now->at : 0, now ? now->value + 1 : 1).get()) ++done;
  }
  return tries;
}
outcome reads_wrongly(std::string key) {
  return tried([&] { return static_cast<int>(kv::get<int>(key).get()->at); });
}
outcome puts_much(std::string key) {
  return tried([&] {
    return static_cast<int>(kv::put(key, std::string(std::size_t{17} << 20U, 'x')).get());
  });
}
outcome puts_nowhere() {
  return tried([] { return static_cast<int>(kv::put("", 1).get()); });
}
outcome lists_nothing() {
  return tried([] { return static_cast<int>(kv::list<int>("", {}, 0).get().size()); });
}
// Hears what is written from its begin on, and says when it has begun.
std::vector<int> hears(std::string prefix, int most) {
  auto w = kv::watch<int>(prefix);
  kv::publish("ready", 1).get();
  std::vector<int> out;
  while (static_cast<int>(out.size()) < most) {
    const kv::change<int> next = w.next().get();
    out.push_back(next.kind == kv::change_kind::put ? *next.value : -1);
  }
  return out;
}
outcome lets_go() {
  return tried([] {
    manta::future<kv::change<int>> next;
    {
      auto w = kv::watch<int>("never");
      next = w.next();
    }
    return static_cast<int>(next.get().at);
  });
}
int waits_for_ever() {
  auto w = kv::subscribe<int>("never");
  kv::publish("ready", 1).get();
  return static_cast<int>(w.next().get().at);
}
manta::coroutine<int> awaits_a_value(std::string key) {
  co_await kv::put(key, 20);
  const auto found = co_await kv::get<int>(key);
  co_return found->value + 1;
}
struct store_user {
  kv::revision last = 0;
  int put(std::string key, int n) {
    last = kv::put(key, n).get();
    return kv::get<int>(key).get()->at == last ? n : -1;
  }
};

}  // namespace

TEST_CASE("inside: tasks and actors keep values and find them", "[kv][anywhere]") {
  const manta::runtime rt(test::two_workers());
  CHECK(manta::remote<keeps_all>("a").get() == 8);
  CHECK(kv::list<int>("a/list/").get().size() == 31);
  CHECK(kv::get<int>("a/n").get()->value == 1);
  const auto user = manta::spawn<store_user>();
  for (int i = 0; i < 20; ++i) CHECK(manta::remote<&store_user::put>(user, "u", i).get() == i);
  CHECK(kv::get<int>("u").get()->value == 19);
  CHECK(manta::remote<awaits_a_value>("c").get() == 21);
}

TEST_CASE("inside: compare and swap by many tasks loses no step", "[kv][anywhere]") {
  const manta::runtime rt(test::workers(3));
  std::vector<manta::future<int>> all;
  for (int i = 0; i < 6; ++i) all.push_back(manta::remote<counts_up>("sum", 20));
  for (auto& one : all) CHECK(one.get() >= 20);
  CHECK(kv::get<int>("sum").get()->value == 120);
}

TEST_CASE("inside: what is wrong with a value has the driver's errors", "[kv][anywhere]") {
  const manta::runtime rt(test::two_workers());
  kv::put("text", "as it is").get();
  const outcome wrong = manta::remote<reads_wrongly>("text").get();
  CHECK(is(wrong, manta::errc::decode_failed));
  CHECK_THAT(wrong.text, Contains("the value of \"text\" is of another type than int"));
  CHECK_THAT(manta::remote<puts_much>("much").get().text, Contains("16777216"));
  CHECK(is(manta::remote<puts_nowhere>().get(), manta::errc::invalid_argument));
  CHECK(is(manta::remote<lists_nothing>().get(), manta::errc::invalid_argument));
}

TEST_CASE("inside: a task's watch tells each change once, and ends with it", "[kv][anywhere]") {
  const manta::runtime rt(test::two_workers());
  kv::put("w/before", 1).get();
  auto ready = kv::subscribe<int>("ready");
  const auto heard = manta::remote<hears>("w/", 6);
  CHECK(ready.next().get().value == 1);
  for (int i = 0; i < 3; ++i) kv::put("w/n", i).get();
  kv::put("other", 9).get();
  kv::erase("w/n").get();
  kv::put("w/m", 3).get();
  kv::put("w/n", 4).get();
  CHECK(heard.get() == std::vector<int>{0, 1, 2, -1, 3, 4});
  CHECK(is(manta::remote<lets_go>().get(), manta::errc::cancelled));
}

TEST_CASE("inside: a task that waits for a change is not left waiting at the end",
          "[kv][anywhere]") {
  manta::future<int> last;
  {
    const manta::runtime rt(test::two_workers());
    auto ready = kv::subscribe<int>("ready");
    last = manta::remote<waits_for_ever>();
    ready.next().get();
  }
  CHECK_THROWS_AS(last.get(), manta::cancelled);
}

// ---- history

namespace {

int breaks(int n) {
  if (n >= 0) throw std::runtime_error("broke at " + std::to_string(n));
  return n;
}
struct told {
  std::string job;
  std::vector<std::string> jobs;
  std::vector<std::string> actors;
  std::vector<std::string> events;
  bool knows_functions = false;
};
told reads_history() {
  told out;
  out.job = history::this_job();
  for (const auto& one : history::jobs().get()) out.jobs.push_back(one.id);
  for (const auto& one : history::actors().get()) out.actors.push_back(one.name);
  for (const auto& one : history::events(out.job, 2).get()) out.events.push_back(one.text);
  const auto functions = history::functions(out.job).get();
  out.knows_functions = std::ranges::any_of(functions, [](const std::string& name) {
    return name.find("reads_history") != std::string::npos;
  });
  return out;
}

}  // namespace

TEST_CASE("inside: a task reads the history that the driver reads", "[history][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto a = manta::spawn<ledger>.with({.name = "known"})(1);
  CHECK(manta::remote<&ledger::add>(a, 1).get() == 2);
  for (int i = 0; i < 3; ++i) CHECK_THROWS(manta::remote<breaks>(i).get());
  const told got = manta::remote<reads_history>().get();
  CHECK(got.job == history::this_job());
  CHECK(got.jobs == std::vector<std::string>{got.job});
  CHECK(got.actors == std::vector<std::string>{"known"});
  REQUIRE(got.events.size() == 2);
  CHECK_THAT(got.events[1], Contains("broke at 2"));
  CHECK(got.knows_functions);
}

}  // namespace inside_test
