// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp in which an actor's constructor crashes in another node: in a thread
// it takes the node along, in a process of its own nothing but the actor.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <sys/resource.h>

#include "cluster/belongings.hpp"
#include "cluster/membership.hpp"
#include "cluster/settling.hpp"

namespace settling {
namespace crash_words {

// Made in one life after the other, wherever that is. From one of them on it crashes as it is made,
// in so many.
struct crasher {
  crasher(const std::string& key, int from, int lives) : made(count(key)) {
    if (made >= from && made < from + lives) crash();
  }
  // One after the other.
  static int count(const std::string& key) {
    const auto before = manta::kv::get<int>(key).get(long_enough);
    const int now = before.has_value() ? before->value + 1 : 1;
    manta::kv::put(key, now).get(long_enough);
    return now;
  }
  [[noreturn]] static void crash() {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    std::abort();
  }
  int which() const { return made; }
  int dies() { crash(); }
  int made;
};
constexpr int for_ever = 1'000;

int made_so_often(const std::string& key) {
  const auto is = manta::kv::get<int>(key).get(long_enough);
  return is.has_value() ? is->value : 0;
}

manta::actor_options isolated(int restarts) {
  manta::actor_options out;
  out.isolation = manta::isolation_mode::processes;
  out.max_restarts = restarts;
  return out;
}

// How it ended: by its calls, and as its monitor was told.
std::string end_of(const manta::actor<crasher>& one, manta::end_reason why) {
  const auto told = manta::monitor(one);
  const std::string call = thrown_by<manta::actor_lost>(manta::remote<&crasher::which>(one));
  const manta::actor_end end = told.get(long_enough);
  return end.reason == why ? call : "another end: " + end.message;
}

// These run where the actor is to live. What could not be made once is not made again.
std::string never_made(const std::string& key, int restarts) {
  const auto one = manta::spawn<crasher>.with(isolated(restarts))(key, 1, for_ever);
  return end_of(one, manta::end_reason::constructor_failed);
}
// A later life that crashes as it is made is one more.
int made_anew(const std::string& key) {
  const auto one = manta::spawn<crasher>.with(isolated(3))(key, 2, 2);
  expect(manta::remote<&crasher::which>(one).get(long_enough) == 1, "its first life");
  const std::string why = thrown_by<manta::actor_lost>(manta::remote<&crasher::dies>(one));
  return has(why, "signal 6") ? manta::remote<&crasher::which>(one).get(long_enough) : 0;
}
std::string made_no_more(const std::string& key) {
  const auto one = manta::spawn<crasher>.with(isolated(2))(key, 2, for_ever);
  static_cast<void>(manta::remote<&crasher::dies>(one));
  return end_of(one, manta::end_reason::process_lost);
}

// In processes of their own, at another node, which goes on with all that it does.
void check_isolated(const std::string& node) {
  const auto beside = one_at(node);
  std::vector<manta::future<long>> calls;
  long sum = 0;
  const auto call = [&] {
    calls.push_back(manta::remote<&counter::add>(beside, 1L));
    ++sum;
  };
  const auto runs_beside = manta::remote<holds_until>.with(at(node))(std::string("beside.began"),
                                                                     std::string("beside.end"));
  expect(comes("beside.began"), "a task beside it");
  for (const int restarts : {0, 2}) {
    const std::string key = "crashes/" + std::to_string(restarts);
    const auto why = manta::remote<never_made>.with(at(node))(key, restarts);
    for (int i = 0; i < 20; ++i) call();
    const std::string said = why.get(long_enough);
    expect(has(said, "the constructor of") && has(said, "signal 6"), said);
    expect(made_so_often(key) == 1, std::to_string(made_so_often(key)) + " times");
  }
  const int fourth = manta::remote<made_anew>.with(at(node))(std::string("anew")).get(long_enough);
  expect(fourth == 4, "the fourth is made, and answers: " + std::to_string(fourth));
  const std::string last =
      manta::remote<made_no_more>.with(at(node))(std::string("no-more")).get(long_enough);
  expect(has(last, "signal 6"), last);
  expect(made_so_often("no-more") == 3, std::to_string(made_so_often("no-more")) + " lives");
  call();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    expect(calls[i].get(long_enough) == static_cast<long>(i) + 1, "an actor beside it");
  }
  manta::kv::put("beside.end", 1).get(long_enough);
  expect(runs_beside.get(long_enough) == node, "what ran beside it ends there");
  // From here that is refused, typed.
  manta::actor_options there = isolated(0);
  there.where = manta::on_node(node);
  std::string refused = "nothing";
  try {
    static_cast<void>(manta::spawn<crasher>.with(there)(std::string("refused"), 1, for_ever));
  } catch (const manta::unsupported& e) {
    refused = e.what();
  }
  expect(has(refused, "of their own node only"), refused);
  expect(made_so_often("refused") == 0, "it is not made");
}

// In a thread: the crash is the node's, whatever max_restarts says, and no other one's.
void check_in_thread(const manta::runtime& rt, const std::string& lost, const std::string& other) {
  const auto beside = one_at(lost);
  const auto its_end = manta::monitor(beside);
  const auto living = one_at(other);
  const auto wish = manta::remote<holds_until>.with(at(lost, true))(std::string("wish.began"),
                                                                    std::string("wish.end"));
  const auto bound =
      manta::remote<holds_until>.with(at(lost))(std::string("bound.began"), std::string("never"));
  expect(comes("wish.began") && comes("bound.began"), "tasks run there");
  manta::actor_options with;
  with.where = manta::on_node(lost);
  with.max_restarts = 2;
  const auto one = manta::spawn<crasher>.with(with)(std::string("in-thread"), 1, for_ever);
  const auto told = manta::monitor(one);
  const std::string why = thrown_by<manta::actor_lost>(manta::remote<&crasher::which>(one));
  expect(has(why, "the node of the actor") && has(why, "lost"), why);
  expect(told.get(long_enough).reason == manta::end_reason::process_lost, "its end");
  expect(its_end.get(long_enough).reason == manta::end_reason::process_lost, "another one's");
  expect(made_so_often("in-thread") == 1, "it is made once");
  expect(has(thrown_by<manta::node_lost>(bound), "lost"), "a task that is bound to it");
  manta::kv::put("wish.end", 1).get(long_enough);
  const std::string where = wish.get(long_enough);
  expect(where != lost, "a task that may run elsewhere: " + where);
  expect(manta::remote<&counter::add>(living, 1L).get(long_enough) == 1, "another node's actor");
  expect(!is_member(rt, lost), "it is no member any more");
}

int crashes(const manta::runtime& rt) {
  const auto all = others(rt);
  check_isolated(all[0].name);
  check_in_thread(rt, all[1].name, all[0].name);
  expect_nothing_left({manta::this_task::node(), all[0].name});
  return say("crashes");
}

}  // namespace crash_words

program_list crash_programs() { return {{"crashes", crash_words::crashes}}; }

}  // namespace settling
