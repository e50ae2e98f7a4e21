// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp whose results' arrays stay in the node that made them: none maps
// another's memory.
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster/settling.hpp"
#include "cluster/stopping.hpp"
#include "node/array_home.hpp"

namespace settling {

namespace {

using words = manta::array<std::uint64_t>;

constexpr std::size_t per_mib = (std::size_t{1} << 20U) / sizeof(std::uint64_t);
constexpr std::size_t eight = 8 * per_mib;
constexpr std::uint64_t eight_bytes = std::uint64_t{8} << 20U;

// The first says in which process it was made, the others `from` and where they are.
words words_from(std::size_t count, std::uint64_t from) {
  auto room = manta::make_array<std::uint64_t>(manta::array_shape(count));
  for (std::size_t i = 0; i < count; ++i) room.data()[i] = from + i;
  room.data()[0] = static_cast<std::uint64_t>(getpid());
  return std::move(room).seal();
}
bool are_words(const words& all, std::size_t count, std::uint64_t from) {
  if (all.size() != count) return false;
  for (std::size_t i = 1; i < count; ++i) {
    if (all[i] != from + i) return false;
  }
  return true;
}
// The process that has run it; 0: what came is wrong.
std::uint64_t who_reads(const words& all, std::uint64_t from) {
  return are_words(all, eight, from) ? static_cast<std::uint64_t>(getpid()) : 0;
}
std::uint64_t fetched_here() { return manta::node::fetched_array_bytes(); }
// The next of a chain, made where it is run; empty: what came is wrong.
words next_words(const words& all, std::uint64_t from) {
  return are_words(all, eight, from) ? words_from(eight, from + 1) : words();
}
bool reads_held(const std::vector<manta::future<words>>& all) {
  const std::uint64_t before = fetched_here();
  return are_words(all.front().get(long_enough), eight, 7) &&
         fetched_here() == before + eight_bytes;
}
double words_sum(std::span<const std::uint64_t> all) {
  double out = 0;
  for (std::size_t i = 1; i < all.size(); ++i) out += static_cast<double>(all[i] - i);
  return out;
}

struct pair_of_words {
  std::string name;
  words large;
  words small;
};
pair_of_words makes_pair() { return {"pair", words_from(eight, 5), words_from(10, 6)}; }

std::uint64_t used_here() {
  const auto in = manta::node::array_home::global().store_if_made();
  return in == nullptr ? 0 : in->measure().live;
}

bool is_empty_soon(const std::string& node) {
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (manta::remote<used_here>.with(at(node))().get(long_enough) != 0) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(1ms);  // it is told soon
  }
  return true;
}

manta::future<words> made_at(const std::string& node, std::size_t count, std::uint64_t from) {
  auto out = manta::remote<words_from>.with(at(node))(count, from);
  static_cast<void>(manta::wait(std::vector{out}, {.count = 1, .timeout = long_enough}));
  return out;
}

// Reading it twice fetches it once, and then its maker has no more of it.
void check_once(const std::string& node) {
  const std::uint64_t before = fetched_here();
  const auto made = made_at(node, eight, 1);
  expect(fetched_here() == before, "ready without its bytes");
  expect(manta::remote<used_here>.with(at(node))().get(long_enough) >= eight_bytes, "it is there");
  expect(are_words(made.get(long_enough), eight, 1), "its values");
  expect(are_words(made.get(long_enough), eight, 1), "once more");
  expect(manta::remote<who_reads>(made, std::uint64_t{1}).get(long_enough) ==
             static_cast<std::uint64_t>(getpid()),
         "in a task");
  expect(fetched_here() == before + eight_bytes, "fetched once");
  expect(is_empty_soon(node), "its maker has let go");

  const auto many = made_at(node, eight, 2);
  std::vector<std::thread> readers;
  std::atomic<int> right{0};
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] { right += are_words(many.get(long_enough), eight, 2) ? 1 : 0; });
  }
  for (std::thread& one : readers) one.join();
  expect(right == 4 && fetched_here() == before + 2 * eight_bytes, "by several at a time");
  const auto few = made_at(node, per_mib / 2, 3);
  expect(are_words(few.get(long_enough), per_mib / 2, 3), "a small one");
  expect(fetched_here() == before + 2 * eight_bytes, "a small one comes with its result");
}

// Nobody has read it: its maker hears that it is not needed.
void check_dropped(const std::string& node) {
  const std::uint64_t before = fetched_here();
  auto made = made_at(node, eight, 1);
  made = {};
  expect(is_empty_soon(node), "what is dropped is freed there");
  expect(fetched_here() == before, "and was not fetched");
}

// It goes back to its maker as what it is there, and to a third node as its name.
void check_places(const std::string& maker, const std::string& other, std::uint64_t pid) {
  const std::uint64_t before = fetched_here();
  const auto made = made_at(maker, eight, 4);
  const auto there = manta::remote<who_reads>.with(at(maker));
  expect(there(made, std::uint64_t{4}).get(long_enough) == pid, "where it was made");
  expect(fetched_here() == before, "nothing is fetched for that");
  expect(manta::remote<words_sum>.with(at(maker))(made).get(long_enough) ==
             4.0 * static_cast<double>(eight - 1),
         "as a span");
  // A span is written here.
  expect(fetched_here() == before + eight_bytes, "which is fetched for that");
  const auto third = manta::remote<who_reads>.with(at(other));
  const auto fresh = made_at(maker, eight, 4);
  expect(third(fresh, std::uint64_t{4}).get(long_enough) != 0, "in a third node");
  expect(fetched_here() == before + eight_bytes, "which has it from its maker");
  // As a future, which the third node reads itself.
  const auto held = made_at(maker, eight, 7);
  expect(manta::remote<reads_held>.with(at(other))(std::vector{held}).get(long_enough),
         "a future in a third node");
  expect(fetched_here() == before + eight_bytes, "which has fetched it from its maker");
}

void check_inside(const std::string& node) {
  const std::uint64_t before = fetched_here();
  const auto made = manta::remote<makes_pair>.with(at(node))();
  static_cast<void>(manta::wait(std::vector{made}, {.count = 1, .timeout = long_enough}));
  expect(fetched_here() == before, "inside of a value");
  const pair_of_words got = made.get(long_enough);
  expect(got.name == "pair" && are_words(got.large, eight, 5) && are_words(got.small, 10, 6),
         "what the value has");
  const auto in_worker =
      manta::remote<who_reads>.with({.isolation = manta::isolation_mode::processes});
  const auto next = made_at(node, eight, 6);
  expect(in_worker(next, std::uint64_t{6}).get(long_enough) != 0, "in an isolated worker here");
}

}  // namespace

// Of a chain of tasks only the first says where it runs.
int follows(const manta::runtime& rt) {
  const manta::node_info maker = others(rt)[1];
  const std::uint64_t before = fetched_here();
  const auto first = manta::remote<words_from>.with(at(maker.name))(eight, std::uint64_t{1});
  auto last = manta::remote<next_words>(first, std::uint64_t{1});
  constexpr std::uint64_t links = 10;
  for (std::uint64_t i = 2; i <= links; ++i) last = manta::remote<next_words>(last, i);
  const auto who = manta::remote<who_reads>(last, links + 1);
  expect(who.get(long_enough) == static_cast<std::uint64_t>(maker.pid), "the last of a chain");
  expect(fetched_here() == before, "no bytes of it have come here");
  const words got = last.get(long_enough);
  expect(got[0] == static_cast<std::uint64_t>(maker.pid) && are_words(got, eight, links + 1),
         "where the one before it was made");
  expect(fetched_here() == before + eight_bytes, "it comes once, when it is read");
  // What is here now moves no task, and neither does what is small, or bound.
  // On a busy machine one may lie in the queue for so long that others have it.
  bool is_read_here = false;
  for (int i = 0; i < 5 && !is_read_here; ++i) {
    is_read_here = manta::remote<who_reads>(last, links + 1).get(long_enough) ==
                   static_cast<std::uint64_t>(getpid());
  }
  expect(is_read_here, "what is here is read here");
  const auto next = made_at(maker.name, eight, 5);
  const auto here_only = manta::remote<who_reads>.with({.max_retries = 0});
  expect(here_only(next, std::uint64_t{5}).get(long_enough) == static_cast<std::uint64_t>(getpid()),
         "one that runs once stays");
  // All that have it go there, whatever waits here.
  const auto more = made_at(maker.name, eight, 6);
  std::vector<manta::future<std::uint64_t>> all;
  for (int i = 0; i < 4; ++i) all.push_back(manta::remote<who_reads>(more, std::uint64_t{6}));
  for (const auto& one : all) expect(one.get(long_enough) != 0, "one of several");
  return say("follows");
}

namespace {

// Has futures of arrays that other nodes have made, and reads them when it is asked.
struct keeper {
  void orders(const std::string& node, int many) {
    for (int i = 0; i < many; ++i) all.push_back(made_at(node, eight, 20));
  }
  // How many are right.
  int reads() {
    int right = 0;
    for (const auto& one : all) right += are_words(one.get(long_enough), eight, 20) ? 1 : 0;
    return right;
  }
  std::string first_error() { return thrown_by<manta::node_lost>(all.front()); }
  std::uint64_t fetched() { return fetched_here(); }

  std::vector<manta::future<words>> all;
};

manta::actor<keeper> keeper_at(const std::string& node) {
  return manta::spawn<keeper>.with({.where = manta::on_node(node)})();
}
manta::actor<keeper> keeper_of(const std::string& node, const std::string& maker, int many) {
  auto out = keeper_at(node);
  manta::remote<&keeper::orders>(out, maker, many).get(long_enough);
  return out;
}
// What is here, and was fetched by nobody who reads it.
void expect_came(const std::vector<manta::future<words>>& all, std::uint64_t before) {
  expect(fetched_here() - before == all.size() * eight_bytes, "they came as their maker left");
  for (const auto& one : all) expect(are_words(one.get(long_enough), eight, 1), "here");
  expect(fetched_here() - before == all.size() * eight_bytes, "and no more");
}

}  // namespace

// rank-2 is asked to leave: what it has made for several others is with them when it has.
int left_behind(const manta::runtime& rt) {
  const std::uint64_t before = fetched_here();
  std::vector<manta::future<words>> all;
  for (int i = 0; i < 5; ++i) all.push_back(made_at("rank-2", eight, 1));
  const auto first = keeper_of("rank-1", "rank-2", 3);
  const auto second = keeper_of("rank-3", "rank-2", 4);
  const auto unread = made_at("rank-2", eight, 1);
  all.push_back(unread);
  const auto in_value = manta::remote<makes_pair>.with(at("rank-2"))();
  static_cast<void>(manta::wait(std::vector{in_value}, {.count = 1, .timeout = long_enough}));
  expect(fetched_here() == before, "all of it is there");
  const auto witness = one_at("rank-2");
  const auto end = manta::monitor(witness);
  say_pids(rt);
  static_cast<void>(end.get(long_enough));
  const pair_of_words pair = in_value.get(long_enough);
  expect(are_words(pair.large, eight, 5) && are_words(pair.small, 10, 6), "inside of a value");
  expect_came(all, before + eight_bytes);
  expect(manta::remote<&keeper::fetched>(first).get(long_enough) == 3 * eight_bytes, "first's");
  expect(manta::remote<&keeper::reads>(first).get(long_enough) == 3, "another owner's");
  expect(manta::remote<&keeper::reads>(second).get(long_enough) == 4, "a third one's");
  return say("left-behind");
}

// Two leave at once, each with some of the other's.
int left_by_two(const manta::runtime& rt) {
  const std::uint64_t before = fetched_here();
  std::vector<manta::future<words>> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(made_at("rank-1", eight, 1));
    all.push_back(made_at("rank-2", eight, 1));
  }
  const auto one = keeper_of("rank-1", "rank-2", 4);
  const auto other = keeper_of("rank-2", "rank-1", 4);
  const auto third = keeper_of("rank-3", "rank-1", 2);
  manta::remote<&keeper::orders>(third, std::string("rank-2"), 2).get(long_enough);
  const auto ends = std::vector{manta::monitor(one), manta::monitor(other)};
  say_pids(rt);
  for (const auto& end : ends) static_cast<void>(end.get(long_enough));
  expect_came(all, before);
  expect(manta::remote<&keeper::reads>(third).get(long_enough) == 4, "one that stays");
  return say("left-by-two");
}

// It leaves while several read: none is lost, and none is torn.
int left_reading(const manta::runtime& rt) {
  constexpr int most = 40;
  std::vector<manta::future<words>> all;
  for (int i = 0; i < most; ++i) all.push_back(made_at("rank-2", eight, 1));
  const auto witness = one_at("rank-2");
  const auto end = manta::monitor(witness);
  say_pids(rt);
  std::atomic<int> right{0};
  std::vector<std::thread> readers;
  for (int r = 0; r < 4; ++r) {
    readers.emplace_back([&, r] {
      for (std::size_t i = static_cast<std::size_t>(r); i < all.size(); i += 4) {
        try {
          right += are_words(all[i].get(long_enough), eight, 1) ? 1 : 0;
        } catch (const manta::exception& e) {
          std::printf("%s\n", e.what());
        }
      }
    });
  }
  for (std::thread& one : readers) one.join();
  expect(right == most, std::to_string(right) + " are right");
  static_cast<void>(end.get(long_enough));
  return say("left-reading");
}

// Who has some is stopped for longer than the leaving node waits.
int left_in_vain(const manta::runtime& rt) {
  const auto stopped = keeper_of("rank-3", "rank-2", 1);
  const auto mine = made_at("rank-2", eight, 1);
  const auto witness = one_at("rank-2");
  const auto end = manta::monitor(witness);
  say_pids(rt);
  static_cast<void>(end.get(long_enough));
  expect(are_words(mine.get(long_enough), eight, 1), "who could has fetched its own");
  std::printf("it has left\n");
  std::fflush(stdout);
  const std::string why = manta::remote<&keeper::first_error>(stopped).get(long_enough);
  expect(has(why, "stayed there"), why);
  return say("left-in-vain");
}

// Ranks that each run main, and end apart.
int left_by_rank(const manta::runtime& rt) {
  if (rt.rank() == 1) {
    const auto had = made_at("rank-0", eight, 1);  // and never read
    manta::kv::put(std::string("has"), 1).get();
    return comes("made") ? 0 : 1;
  }
  const std::uint64_t before = fetched_here();
  const std::vector all{made_at("rank-1", eight, 1), made_at("rank-1", eight, 1)};
  const auto witness = one_at("rank-1");
  const auto end = manta::monitor(witness);
  expect(comes("has") && fetched_here() == before, "they are there");
  manta::kv::put(std::string("made"), 1).get();
  static_cast<void>(end.get(long_enough));
  // The rank's end and its actors' are not the same moment: it is gone when its node is.
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (!others(rt).empty() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);
  }
  expect_came(all, before);
  return say("left-by-rank");
}

// A rank whose runtime has ended never reads what it has: no other one waits for that.
int left_over(const manta::runtime& rt) {
  if (rt.rank() == 0) {
    static const auto* const kept = new std::vector{made_at("rank-1", eight, 1)};
    manta::kv::put(std::string("given"), static_cast<int>(kept->size())).get();
    return comes("taken") ? 0 : 1;
  }
  expect(comes("given"), "the first rank has some");
  manta::kv::put(std::string("taken"), 1).get();
  // A schedule of the fault, nothing tells it: the first one's runtime ends, unless the machine is
  // busy.
  std::this_thread::sleep_for(500ms);
  return say("left-over");
}

namespace {

// What a wait with a limit ends with, and that it ends.
template <class F>
void expect_timed_out(const std::string& what, const F& wait) {
  const auto began = std::chrono::steady_clock::now();
  std::string how = "a value";
  try {
    wait();
  } catch (const manta::timed_out&) {
    how.clear();
  } catch (const manta::exception& e) {
    how = e.what();
  }
  const auto took = std::chrono::steady_clock::now() - began;
  expect(how.empty(), what + ": " + how);
  expect(took >= 100ms && took < 3s, what + ": its time");
}

}  // namespace

// A wait with a limit is one for the bytes, too: their node does not answer for a while.
int stayed_timed(const manta::runtime& rt) {
  const std::uint64_t before = fetched_here();
  const manta::node_info maker = others(rt)[1];
  const auto made = made_at(maker.name, eight, 1);
  cluster_test::stop(static_cast<pid_t>(maker.pid));
  expect_timed_out("get", [&] { static_cast<void>(made.get(100ms)); });
  expect_timed_out("of a list", [&] { static_cast<void>(manta::get(std::vector{made}, 100ms)); });
  auto moved = made;
  expect_timed_out("moved", [&] { static_cast<void>(std::move(moved).get(100ms)); });
  expect(moved == made, "what timed out is as it was");  // NOLINT(bugprone-use-after-move)
  const auto began = std::chrono::steady_clock::now();
  const auto tried = made.try_get(100ms);
  expect(!tried && tried.error().code() == manta::errc::timed_out, "try_get");
  const auto looked = made.try_get(0ms);
  expect(!looked && looked.error().code() == manta::errc::timed_out, "a look");
  expect(std::chrono::steady_clock::now() - began < 3s, "their time");
  kill(static_cast<pid_t>(maker.pid), SIGCONT);
  expect(are_words(made.get(long_enough), eight, 1), "it comes");
  expect(are_words(made.get(0ms), eight, 1), "and is here");
  expect(fetched_here() == before + eight_bytes, "once, whoever did not wait for it");
  return say("stayed-timed");
}

int stays(const manta::runtime& rt) {
  const auto all = others(rt);
  check_once(all[0].name);
  check_dropped(all[0].name);
  check_places(all[0].name, all[1].name, static_cast<std::uint64_t>(all[0].pid));
  check_inside(all[1].name);
  return say("stays");
}

// Its maker is lost before anybody has read it.
int stayed_lost(const manta::runtime& rt) {
  const auto lost = made_at("rank-2", eight, 1);
  const auto read = made_at("rank-2", eight, 2);
  const auto other = made_at("rank-1", eight, 3);
  expect(are_words(read.get(long_enough), eight, 2), "read before");
  const auto witness = one_at("rank-2");
  const auto end = manta::monitor(witness);
  say_pids(rt);
  static_cast<void>(end.get(long_enough));
  const std::string why = thrown_by<manta::node_lost>(lost);
  expect(has(why, "stayed there"), why);
  const std::string again = thrown_by<manta::node_lost>(lost);
  expect(has(again, "stayed there"), again);
  const std::string in_task =
      thrown_by<manta::exception>(manta::remote<who_reads>(lost, std::uint64_t{1}));
  expect(has(in_task, "stayed there"), in_task);
  expect(are_words(read.get(long_enough), eight, 2), "what was read is here");
  expect(are_words(other.get(long_enough), eight, 3), "another node's");
  return say("stayed-lost");
}

// It is lost while several are read: each comes whole, or its reader is told.
int stayed_torn(const manta::runtime& rt) {
  constexpr int most = 40;
  std::vector<manta::future<words>> all;
  for (int i = 0; i < most; ++i) all.push_back(made_at("rank-2", eight, 1));
  const auto witness = one_at("rank-2");
  const auto end = manta::monitor(witness);
  say_pids(rt);
  std::atomic<int> lost{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int r = 0; r < 4; ++r) {
    readers.emplace_back([&, r] {
      for (std::size_t i = static_cast<std::size_t>(r); i < all.size(); i += 4) {
        try {
          wrong += are_words(all[i].get(long_enough), eight, 1) ? 0 : 1;
        } catch (const manta::node_lost&) {
          ++lost;
        } catch (const manta::exception&) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& one : readers) one.join();
  static_cast<void>(end.get(long_enough));
  std::printf("%d of %d were lost\n", lost.load(), most);
  expect(wrong == 0, "neither whole nor node_lost");
  return say("stayed-torn");
}

}  // namespace settling
