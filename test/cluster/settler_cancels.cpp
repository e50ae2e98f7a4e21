// SPDX-License-Identifier: Apache-2.0
// The program of settler.cpp whose calls are cancelled while large arrays of their arguments are
// fetched, from a node that says nothing: calls of actors, and what goes to isolated workers.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <manta/node/array_block.hpp>

#include "cluster/belongings.hpp"
#include "cluster/membership.hpp"
#include "cluster/settling.hpp"
#include "cluster/stopping.hpp"
#include "node/resident_actors.hpp"

namespace settling {

namespace {

constexpr std::size_t wide_count = std::size_t{1} << 20U;  // 8 MiB
constexpr std::uint64_t wide_bytes = wide_count * sizeof(std::uint64_t);
// A member may be silent for longer.
constexpr auto soon = 8s;

using wide_future = manta::future<counted_words>;

bool reads_wide(const counted_words& all) { return are_counted(all, wide_count, 7); }
bool reads_one_of(const counted_words& all, std::uint64_t from) {
  return are_counted(all, wide_count / 8, from, 64);
}
std::uint64_t fetched_wide() { return manta::node::fetched_array_bytes(); }

struct scribe {
  scribe() = default;
  explicit scribe(const counted_words& all) : number(are_counted(all, wide_count, 7) ? 100 : -1) {}
  bool reads(const counted_words& all) const { return are_counted(all, wide_count, 7); }
  bool reads_two(const counted_words& one, const counted_words& other) const {
    return reads(one) && reads(other);
  }
  bool reads_all(const std::vector<counted_words>& all) const {
    return all.size() > 1 && are_counted(all.back(), wide_count / 8, all.size() - 1, 64);
  }
  int next() { return ++number; }
  // When that key is there; its worker reads other calls meanwhile.
  void leaves(const std::string& when) {
    expect(comes(when), "it is to leave: " + when);
    manta::this_actor::exit();
  }
  pid_t process() const { return getpid(); }
  int number = 0;
};

// A node that says nothing while one of these lives.
class still {
 public:
  explicit still(const manta::node_info& of) : pid_(static_cast<pid_t>(of.pid)) {
    cluster_test::stop(pid_);
  }
  ~still() { kill(pid_, SIGCONT); }
  still(const still&) = delete;
  still& operator=(const still&) = delete;

 private:
  pid_t pid_;
};

wide_future made_at(const manta::node_info& maker) {
  auto made = manta::remote<counted_from>.with(at(maker.name))(wide_count, std::uint64_t{7});
  static_cast<void>(manta::wait(std::vector{made}, {.count = 1, .timeout = long_enough}));
  return made;
}
void let_it_ask() { std::this_thread::sleep_for(200ms); }  // the fault's schedule: it is asked for

// Nobody can be reached for bulk from here on, which is found out once: arrays come by messages.
void close_bulk(const std::string& reader, const manta::node_info& maker) {
  const std::filesystem::path job = std::getenv("XDG_RUNTIME_DIR");
  std::vector<std::filesystem::path> places;
  for (const auto& one : std::filesystem::recursive_directory_iterator(job / "manta" / "jobs")) {
    if (one.path().extension() == ".bulk") places.push_back(one.path());
  }
  expect(places.size() > 1, "their places");
  for (const auto& one : places) std::filesystem::remove(one);
  const wide_future made = made_at(maker);
  expect(manta::remote<reads_wide>.with(at(reader))(made).get(long_enough), "by messages, there");
  expect(reads_wide(made.get(long_enough)), "by messages, here");
}

// Its own end may be that its time is over.
void expect_late(const manta::future<bool>& of, const std::string& who) {
  static_cast<void>(manta::wait(std::vector{of}, {.count = 1, .timeout = soon}));
  expect(of.is_ready(), who + ": its time is over, and it goes on");
  if (!of.is_ready()) return;
  const std::string why = thrown_by<manta::timed_out>(of);
  expect(has(why, "deadline"), who + ": " + why);
}

template <class T>
void expect_cancelled(const manta::future<T>& of, const std::string& who) {
  expect(ends_within(of, soon), who + ": it waited for the array");
  const std::string why = thrown_by<manta::cancelled>(of);
  expect(has(why, "cancel"), who + ": " + why);
}

manta::actor_options apart() {
  manta::actor_options out;
  out.isolation = manta::isolation_mode::processes;
  return out;
}
manta::actor_options in_node(const std::string& node) { return {.where = manta::on_node(node)}; }

// Those behind it go on, in their order, while its array is still to come; so they do when its time
// is over.
void check_call(const manta::actor_options& with, const manta::node_info& maker,
                const std::string& who) {
  const wide_future made = made_at(maker);
  const auto one = manta::spawn<scribe>.with(with)();
  expect(manta::remote<&scribe::next>(one).get(long_enough) == 1, who + ": the first");
  {
    const still nothing(maker);
    auto reads = manta::remote<&scribe::reads>(one, made);
    std::vector<manta::future<int>> behind;
    for (int i = 0; i < 3; ++i) behind.push_back(manta::remote<&scribe::next>(one));
    let_it_ask();
    expect(!reads.is_ready() && !behind.front().is_ready(), who + ": it does not wait");
    manta::cancel(reads);
    expect_cancelled(reads, who);
    for (int i = 0; i < 3; ++i) {
      expect(ends_within(behind[static_cast<std::size_t>(i)], soon), who + ": one behind it waits");
      expect(behind[static_cast<std::size_t>(i)].get(long_enough) == i + 2, who + ": the order");
    }
    const auto late = manta::remote<&scribe::reads>.with({.timeout = 300ms})(one, made);
    const auto last = manta::remote<&scribe::next>(one);
    expect_late(late, who);
    expect(ends_within(last, soon) && last.get(long_enough) == 5, who + ": behind that");
  }
  const auto again = manta::remote<&scribe::reads_two>(one, made, made);
  const std::string end = thrown_by<manta::exception>(again);
  expect(end == "nothing" && again.get(), who + ": who asks again has it: " + end);
}

// Who else waits for the array has it, and it comes once.
void check_shared(const std::string& reader, const manta::node_info& maker) {
  const wide_future made = made_at(maker);
  const auto one = manta::spawn<scribe>.with(in_node(reader))();
  const std::uint64_t before = manta::remote<fetched_wide>.with(at(reader))().get(long_enough);
  manta::future<bool> other;
  {
    const still nothing(maker);
    other = manta::remote<reads_wide>.with(at(reader))(made);
    auto reads = manta::remote<&scribe::reads>(one, made);
    let_it_ask();
    manta::cancel(reads);
    expect_cancelled(reads, "one of two");
    expect(!other.is_ready(), "the other one waits on");
  }
  const std::string end = thrown_by<manta::exception>(other);
  expect(end == "nothing" && other.get(), "the other one has it: " + end);
  const std::uint64_t after = manta::remote<fetched_wide>.with(at(reader))().get(long_enough);
  expect(after == before + wide_bytes, "it came once: " + std::to_string(after - before));
}

// What nobody waits for any more does not come when its maker goes on; what others wait for does.
void check_given_up(const std::string& reader, const manta::node_info& maker) {
  const wide_future made = made_at(maker);
  const wide_future other = made_at(maker);
  const auto one = manta::spawn<scribe>.with(in_node(reader))();
  const std::uint64_t before = manta::remote<fetched_wide>.with(at(reader))().get(long_enough);
  {
    const still nothing(maker);
    auto reads = manta::remote<&scribe::reads>(one, made);
    let_it_ask();
    manta::cancel(reads);
    expect_cancelled(reads, "given up");
  }
  // It would have come first.
  expect(manta::remote<&scribe::reads>(one, other).get(long_enough), "another one");
  const std::uint64_t after = manta::remote<fetched_wide>.with(at(reader))().get(long_enough);
  expect(after == before + wide_bytes, "it is given up: " + std::to_string(after - before));
}

// One is waited for, and another one behind it, in isolated workers.
void check_tasks_apart(const manta::node_info& maker) {
  const wide_future made = made_at(maker);
  const manta::options with{.isolation = manta::isolation_mode::processes};
  manta::options limited = with;
  limited.timeout = 300ms;
  {
    const still nothing(maker);
    auto first = manta::remote<reads_wide>.with(with)(made);
    auto second = manta::remote<reads_wide>.with(with)(made);
    let_it_ask();
    expect(!first.is_ready() && !second.is_ready(), "apart: they wait");
    manta::cancel(second);
    expect_cancelled(second, "apart, in line");
    manta::cancel(first);
    expect_cancelled(first, "apart");
    const auto late = manta::remote<reads_wide>.with(limited)(made);
    expect_late(late, "apart");
    expect(manta::remote<squared>.with(with)(3L).get(long_enough) == 9, "apart: others go on");
  }
  const auto again = manta::remote<reads_wide>.with(with)(made);
  const std::string end = thrown_by<manta::exception>(again);
  expect(end == "nothing" && again.get(), "apart: who asks again has it: " + end);
}

// A call, or what an actor begins with, waits no longer when that is killed.
void check_kill(const manta::actor_options& with, const manta::node_info& maker,
                const std::string& who) {
  const wide_future made = made_at(maker);
  const still nothing(maker);
  const auto one = manta::spawn<scribe>.with(with)();
  const auto reads = manta::remote<&scribe::reads>(one, made);
  const auto unmade = manta::spawn<scribe>.with(with)(made);
  const auto call = manta::remote<&scribe::next>(unmade);
  const auto end = manta::monitor(unmade);
  let_it_ask();
  manta::kill(one);
  manta::kill(unmade);
  expect(ends_within(reads, soon), who + ": a call of what was killed waits");
  std::string why = thrown_by<manta::actor_lost>(reads);
  expect(has(why, "killed"), who + ": " + why);
  expect(ends_within(call, soon), who + ": one of what is not made waits");
  why = thrown_by<manta::actor_lost>(call);
  expect(has(why, "killed"), who + ": " + why);
  expect(ends_within(end, soon) && end.get(long_enough).reason == manta::end_reason::killed,
         who + ": its end");
}

void kills(const manta::actor<scribe>& whom) { manta::kill(whom); }

bool has_no_call() { return !manta::node::resident_actors::global().has_calls(); }
// Whose end its caller may have heard of while it is read there still.
bool comes_to_no_call(const std::string& node) {
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (!manta::remote<has_no_call>.with(at(node))().get(long_enough)) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(1ms);  // it ends soon
  }
  return true;
}

// Nor when it ends of itself, by who has it in its own node, or with its process.
void check_ends(const std::string& node, const manta::node_info& maker, bool is_apart) {
  const std::string who = std::string("ended ") + (is_apart ? "apart" : "elsewhere");
  const wide_future made = made_at(maker);
  const auto with = is_apart ? apart() : in_node(node);
  const auto first = manta::spawn<scribe>.with(with)();
  const auto second = manta::spawn<scribe>.with(with)();
  const pid_t its = manta::remote<&scribe::process>(second).get(long_enough);
  const still nothing(maker);
  const auto left = manta::remote<&scribe::leaves>(first, "leaves/" + who);
  const auto of_left = manta::remote<&scribe::reads>(first, made);
  const auto of_killed = manta::remote<&scribe::reads>(second, made);
  let_it_ask();
  if (is_apart) {
    kill(its, SIGKILL);
  } else {
    manta::remote<kills>.with(at(node))(second).get(long_enough);
  }
  manta::kv::put("leaves/" + who, 1).get();
  expect(ends_within(of_killed, soon), who + ": a call of what was killed waits");
  std::string why = thrown_by<manta::actor_lost>(of_killed);
  expect(has(why, is_apart ? "ended with" : "killed"), who + ": " + why);
  expect(ends_within(of_left, soon), who + ": a call of what has left waits");
  why = thrown_by<manta::actor_lost>(of_left);
  expect(has(why, "has left"), who + ": " + why);
  expect(is_apart || comes_to_no_call(node), who + ": a call is read on for what has ended");
}

manta::actor<scribe> makes_scribe(const wide_future& of, bool is_apart, const std::string& began) {
  const auto one = is_apart ? manta::spawn<scribe>.with(apart())(of) : manta::spawn<scribe>(of);
  manta::kv::put(began, 1).get();
  while (!manta::this_task::is_cancelled()) std::this_thread::sleep_for(1ms);
  return one;
}

// An actor is made whatever becomes of the task that has asked for it.
void check_construction(const manta::node_info& maker, bool is_apart) {
  const wide_future made = made_at(maker);
  const std::string began = is_apart ? "asked/apart" : "asked/here";
  manta::future<manta::actor<scribe>> asks;
  {
    const still nothing(maker);
    asks = manta::remote<makes_scribe>.with(at(manta::this_task::node()))(made, is_apart, began);
    expect(comes(began), began);
    let_it_ask();
    manta::cancel(asks);
    expect(ends_within(asks, soon), began + ": who asked for it ends");
  }
  const auto number = manta::remote<&scribe::next>(asks.get(long_enough));
  const std::string end = thrown_by<manta::exception>(number);
  expect(end == "nothing" && number.get() == 101, began + ": it is made: " + end);
}

// Many at a time, and the same one again and again: what was given up is asked for anew.
void check_many(const std::string& reader, const manta::node_info& maker) {
  const wide_future made = made_at(maker);
  std::vector<wide_future> all;
  for (std::uint64_t i = 0; i < 48; ++i) {
    all.push_back(manta::remote<counted_from>.with(at(maker.name))(wide_count / 8, i));
  }
  static_cast<void>(manta::wait(all, {.count = all.size(), .timeout = long_enough}));
  const auto one = manta::spawn<scribe>.with(in_node(reader))();
  {
    const still nothing(maker);
    std::vector<manta::future<bool>> reads;
    for (std::uint64_t i = 0; i < all.size(); ++i) {
      reads.push_back(manta::remote<reads_one_of>.with(at(reader))(all[i], i));
    }
    auto call = manta::remote<&scribe::reads_all>(one, all);
    let_it_ask();
    for (auto& each : reads) manta::cancel(each);
    for (const auto& each : reads) expect_cancelled(each, "one of many");
    manta::cancel(call);
    expect_cancelled(call, "with many");
    for (int i = 0; i < 20; ++i) {
      auto once = manta::remote<&scribe::reads>(one, made);
      std::this_thread::sleep_for(10ms);  // the fault's schedule
      manta::cancel(once);
      expect_cancelled(once, "once more");
    }
  }
  const auto last = manta::remote<&scribe::reads_all>(one, all);
  std::string end = thrown_by<manta::exception>(last);
  expect(end == "nothing" && last.get(), "all of many: " + end);
  const auto whole = manta::remote<&scribe::reads>(one, made);
  end = thrown_by<manta::exception>(whole);
  expect(end == "nothing" && whole.get(), "the one of many times: " + end);
}

}  // namespace

int cancels_calls(const manta::runtime& rt, bool by_messages) {
  const auto all = others(rt);
  const std::string& reader = all[0].name;
  const manta::node_info& maker = all[1];
  if (by_messages) close_bulk(reader, maker);
  check_call(in_node(reader), maker, "elsewhere");
  check_call(in_node(manta::this_task::node()), maker, "here");
  check_call(apart(), maker, "an actor apart");
  check_shared(reader, maker);
  check_given_up(reader, maker);
  check_tasks_apart(maker);
  check_kill(in_node(reader), maker, "elsewhere");
  check_kill(apart(), maker, "apart");
  for (const bool is_apart : {false, true}) check_ends(reader, maker, is_apart);
  for (const bool is_apart : {false, true}) check_construction(maker, is_apart);
  check_many(reader, maker);
  expect_nothing_left(all_but(rt, ""));
  return say("cancels-calls");
}

}  // namespace settling
