// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp whose generators run in other nodes than their readers.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/settling.hpp"

namespace settling {

namespace {

// Notes in the cluster's keys that a generator has ended.
class ends_here {
 public:
  explicit ends_here(std::string key) : key_(std::move(key)) {}
  ends_here(const ends_here&) = delete;
  ends_here& operator=(const ends_here&) = delete;
  ~ends_here() {
    try {
      manta::kv::put(key_, 1).get();
    } catch (const manta::exception&) {
      return;  // the runtime ends
    }
  }

 private:
  std::string key_;
};

long noted(const std::string& key) {
  const auto found = manta::kv::get<long>(key).get();
  return found.has_value() ? found->value : 0;
}

// Says how many it has made, before it hands each over.
manta::stream<long> counts(std::string key) {
  const ends_here end(key + ".end");
  for (long i = 0;; ++i) {
    manta::kv::put(key, i + 1).get();
    co_yield i;
  }
}
manta::stream<long> counts_to(long to) {
  for (long i = 0; i < to; ++i) co_yield i;
}
manta::stream<std::string> names_nodes(int n) {
  for (int i = 0; i < n; ++i) co_yield manta::this_task::node();
}
manta::stream<std::vector<double>> rows(int n, std::size_t size) {
  for (int i = 0; i < n; ++i) co_yield std::vector<double>(size, i);
}
manta::stream<manta::array<double>> arrays_of(int n, std::size_t size) {
  for (int i = 0; i < n; ++i) {
    auto one = manta::make_array<double>({size});
    std::fill(one.data(), one.data() + size, i);
    co_yield std::move(one).seal();
  }
}
struct with_handles {
  manta::future<long> value;
  manta::actor<counter> adder;
};
manta::stream<with_handles> handles_of(int n) {
  for (long i = 0; i < n; ++i) {
    // GCC 12 destroys the parts of an aggregate twice that is made where it is yielded.
    with_handles one{manta::remote<squared>(i), manta::spawn<counter>(i)};
    co_yield std::move(one);
  }
}
manta::stream<homebody> homebodies(std::string key) {
  const ends_here end(key);
  for (;;) {
    homebody one;
    co_yield std::move(one);
  }
}
struct lender {
  manta::stream<homebody> lends(std::string key) {
    const ends_here end(key);
    for (;;) {
      homebody one;
      co_yield std::move(one);
    }
  }
};
manta::stream<long> throws_at(long at) {
  for (long i = 0; i < at; ++i) co_yield i;
  throw std::out_of_range("no item " + std::to_string(at));
}
manta::stream<long> never_yields(std::string key) {
  const ends_here end(key + ".end");
  manta::kv::put(key, 1).get();
  co_yield co_await manta::remote<value_of>(key + ".never");
}
// The first item comes when that key is there.
manta::stream<std::string> waits_for(std::string key, std::string began) {
  manta::kv::put(began, 1).get();
  static_cast<void>(co_await manta::remote<value_of>(key));
  for (int i = 0; i < 10; ++i) co_yield manta::this_task::node();
}

manta::options with_credits(const std::string& node, std::size_t credits) {
  manta::options out = at(node);
  out.stream_credits = credits;
  return out;
}

// The next item; nothing: the end. Says when it does not come.
template <class T>
std::optional<T> next_of(manta::stream<T>& of) {
  auto item = of.next(long_enough);
  if (!item.has_value()) return std::nullopt;
  return std::move(*item).get();
}

// That many items in their order, and what the last one fails with.
template <class E>
std::string last_of(manta::stream<long>& of, long count) {
  for (long i = 0; i < count; ++i) {
    if (next_of(of) != i) return "no item " + std::to_string(i);
  }
  const auto last = of.next(long_enough);
  if (!last.has_value()) return "the end";
  std::string out = thrown_by<E>(*last);
  return of.next(long_enough).has_value() ? "no end behind " + out : out;
}

void stays_at(const std::string& key, long made, const char* what) {
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (noted(key) < made && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(1ms);
  }
  std::this_thread::sleep_for(30ms);  // nothing may happen: one that may would make more
  expect(noted(key) == made, what + std::string(": ") + std::to_string(noted(key)) + " made");
}

void check_credits(const std::string& node) {
  const std::string key = node + ".counts";
  {
    auto s = manta::remote<counts>.with(with_credits(node, 4))(key);
    stays_at(key, 4, "its credits");
    expect(next_of(s) == 0, "the first");
    stays_at(key, 4, "less than half are back");
    expect(next_of(s) == 1, "the second");
    stays_at(key, 6, "half of them");
    s.credits(20);
    stays_at(key, 22, "more");
    s.credits(1);
    for (long i = 2; i < 60; ++i) expect(next_of(s) == i, "in order");
    stays_at(key, 61, "fewer");
  }
  expect(comes(key + ".end"), "it ends when its stream is dropped");
}

void check_early_credits(const std::string& node) {
  const std::string key = node + ".early";
  auto s = manta::remote<counts>.with(at(node))(key);
  s.credits(200);  // before anything has come, perhaps before it begins
  stays_at(key, 200, "as it begins");
  s.credits(500);
  stays_at(key, 500, "more than twice as many");
  expect(manta::cancel(s) && comes(key + ".end"), "cancelled");
  const std::string why = last_of<manta::cancelled>(s, 500);
  expect(has(why, "cancel"), why);
}

void check_values(const std::string& node) {
  auto nodes = manta::remote<names_nodes>.with(at(node))(70);
  for (int i = 0; i < 70; ++i) expect(next_of(nodes) == node, "it runs there");
  expect(!next_of(nodes).has_value(), "the end");
  auto vectors = manta::remote<rows>.with(at(node))(30, std::size_t{200'000});
  for (int i = 0; i < 30; ++i) {
    const auto row = next_of(vectors);
    expect(row.has_value() && row->size() == 200'000 && row->back() == i, "a vector");
  }
  auto huge = manta::remote<rows>.with(with_credits(node, 2))(3, std::size_t{5} << 20U);
  for (int i = 0; i < 3; ++i) {
    const auto row = next_of(huge);
    expect(row.has_value() && row->size() == std::size_t{5} << 20U && row->back() == i, "long");
  }
  auto arrays = manta::remote<arrays_of>.with(at(node))(10, std::size_t{100'000});
  for (int i = 0; i < 10; ++i) {
    const auto one = next_of(arrays);
    expect(one.has_value() && one->size() == 100'000 && one->data()[99'999] == i, "an array");
  }
  auto handles = manta::remote<handles_of>.with(at(node))(10);
  for (long i = 0; i < 10; ++i) {
    const auto one = next_of(handles);
    expect(one.has_value() && one->value.get(long_enough) == i * i, "a future");
    expect(
        one.has_value() && manta::remote<&counter::add>(one->adder, 1L).get(long_enough) == i + 1,
        "an actor");
  }
}

void check_ends(const std::string& node) {
  for (const long n : {0L, 1L, 64L, 100L}) {
    auto s = manta::remote<throws_at>.with(at(node))(n);
    const std::string why = last_of<manta::task_error>(s, n);
    expect(has(why, "no item " + std::to_string(n)), why);
  }
  const auto refused = [](manta::stream<homebody> s) {
    try {
      return std::string(next_of(s).has_value() ? "an item" : "the end");
    } catch (const manta::unsupported& e) {
      return std::string(e.what());
    }
  };
  std::string why = refused(manta::remote<homebodies>.with(at(node))(node + ".homebodies"));
  expect(has(why, "can't go there"), "not begun: " + why);
  const auto of = manta::spawn<lender>.with({.where = manta::on_node(node)})();
  why = refused(manta::remote<&lender::lends>(of, node + ".lends"));
  expect(has(why, "handles that can't go"), "an actor's: " + why);
  expect(comes(node + ".lends"), "what can't go ends its generator");
  expect(!manta::kv::get<int>(node + ".homebodies").get().has_value(), "nor here");
  {
    auto s = manta::remote<never_yields>.with(at(node))(node + ".never");
    expect(comes(node + ".never"), "it began");
  }
  expect(comes(node + ".never.end"), "dropped where it awaits");
  static_cast<void>(manta::remote<counts>.with(at(node))(node + ".unread"));
}

// Many, so that a drop comes at any time of theirs.
void check_drops(const std::string& node) {
  for (int i = 0; i < 100; ++i) {
    auto s = manta::remote<counts_to>.with(with_credits(node, 3))(1000L);
    for (long k = 0; k < i % 20; ++k) expect(next_of(s) == k, "before it is dropped");
  }
}

void check_methods(const std::string& node) {
  auto one = one_at(node);
  for (long i = 0; i < 40; ++i) {
    static_cast<void>(manta::remote<&counter::add>(one, 1L));
    auto sums = manta::remote<&counter::sums>(one, 3);
    static_cast<void>(manta::remote<&counter::add>(one, 1L));
    for (int k = 0; k < 3; ++k) {
      expect(next_of(sums) == 2 * i + 1, "between the calls before it and behind it");
    }
    expect(!next_of(sums).has_value(), "the end");
  }
  {
    auto some = manta::remote<&counter::sums>.with({.stream_credits = 2})(one, 1'000'000);
    expect(next_of(some) == 80, "one");
  }
  expect(manta::remote<&counter::add>(one, 1L).get(long_enough) == 81, "free when it is dropped");
  auto killed = manta::remote<&counter::sums>.with({.stream_credits = 2})(one, 1'000'000);
  expect(next_of(killed) == 81, "one");
  manta::kill(one);
  std::string why = "the end";
  try {
    while (next_of(killed).has_value()) {
    }
  } catch (const manta::actor_lost& e) {
    why = e.what();
  } catch (const manta::cancelled& e) {
    why = e.what();
  }
  expect(why != "the end", "with its actor");
}

// In one that is not the driver's, of one in a third.
long reads_there(const std::string& node, long n) {
  auto s = manta::remote<counts_to>.with(at(node))(n);
  long sum = 0;
  while (const auto one = next_of(s)) sum += *one;
  return sum;
}

void check_rate(const std::string& node, long n) {
  const auto start = std::chrono::steady_clock::now();
  auto s = manta::remote<counts_to>.with(at(node))(n);
  long came = 0;
  for (auto& item : s) {
    if (item.get() != came) break;
    ++came;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  expect(came == n, std::to_string(came) + " items in order");
  std::printf("%ld items, %.0f each second\n", n, static_cast<double>(n) / took.count());
}

// Reads from that node, and does not go on.
void reads_some(const std::string& node, const std::string& key) {
  auto task = manta::remote<counts>.with(with_credits(node, 4))(key + ".task");
  auto one = one_at(node);
  auto method = manta::remote<&counter::notes>.with({.stream_credits = 4})(one, key + ".method");
  static_cast<void>(next_of(task));
  static_cast<void>(next_of(method));
  manta::kv::put(key + ".reads", 1).get();
  std::this_thread::sleep_for(long_enough);  // until its process is killed
}

}  // namespace

int streams(const manta::runtime& rt, long items) {
  for (const manta::node_info& one : others(rt)) {
    check_credits(one.name);
    check_early_credits(one.name);
    check_values(one.name);
    check_ends(one.name);
    check_drops(one.name);
    check_methods(one.name);
  }
  const std::string first = others(rt)[0].name;
  const std::string second = others(rt)[1].name;
  const auto sum = manta::remote<reads_there>.with(at(first))(second, 1000L);
  expect(sum.get(long_enough) == 499'500, "from a third node");
  check_rate(first, items);
  return say("streams");
}

// The node of its generators is lost.
int dry_wells(const manta::runtime& rt) {
  const std::string lost = others(rt)[1].name;
  auto task = manta::remote<counts>.with(with_credits(lost, 40))(std::string("w1"));
  auto one = one_at(lost);
  auto method = manta::remote<&counter::notes>.with({.stream_credits = 40})(one, std::string("w2"));
  auto silent = manta::remote<never_yields>.with(at(lost))(std::string("w3"));
  auto wished = manta::remote<waits_for>.with(at(lost, true))(std::string("w4"), std::string("w5"));
  manta::options soft = at(lost, true);
  soft.stream_credits = 8;
  auto begun = manta::remote<counts>.with(soft)(std::string("w6"));
  expect(next_of(task) == 0 && next_of(method) == 0 && next_of(begun) == 0, "they have begun");
  stays_at("w1", 40, "all that it may");
  stays_at("w2", 40, "all that it may");
  stays_at("w6", 8, "all that it may");
  expect(comes("w3") && comes("w5"), "the others, too");
  std::this_thread::sleep_for(50ms);  // of the fault: what was sent has come when it strikes
  say_pids(rt);
  std::string why;
  try {
    long seen = 0;
    for (long i = 1; i < 10'000; ++i, ++seen) {
      // Slower than they are made, so that it is under way when its node is killed.
      std::this_thread::sleep_for(1ms);
      if (next_of(task) != i) why = "not in order";
    }
  } catch (const manta::node_lost& e) {
    why = e.what();
  }
  expect(has(why, "counts") && has(why, "not run again"), why);
  expect(!task.next(long_enough).has_value(), "the end behind it");
  long came = 1;
  why.clear();
  try {
    while (next_of(method) == came) ++came;
  } catch (const manta::actor_lost& e) {
    why = e.what();
  }
  // The last one may have been under way: it is noted before it is given.
  expect(came >= 39 && has(why, "lost"), std::to_string(came) + " came: " + why);
  const std::string none = last_of<manta::node_lost>(silent, 0);
  expect(has(none, "never_yields"), none);
  const std::string late = [&]() -> std::string {
    try {
      for (long i = 1; i <= 8; ++i) {  // 7 come at most, then why there are no more
        if (next_of(begun) != i) return "not in order";
      }
    } catch (const manta::node_lost& e) {
      return e.what();
    }
    return "more than it was allowed";
  }();
  expect(has(late, "not run again"), "one that has yielded is no wish any more: " + late);
  manta::kv::put("w4", 3).get();
  for (int i = 0; i < 10; ++i) {
    const auto node = next_of(wished);
    expect(node.has_value() && *node != lost, "one that has not runs elsewhere");
  }
  expect(!next_of(wished).has_value(), "the end");
  return say("dry-wells");
}

// The node of their reader is lost.
int unread(const manta::runtime& rt) {
  const std::string lost = others(rt)[1].name;
  const std::string node = others(rt)[2].name;
  const auto reads = manta::remote<reads_some>.with(at(lost))(node, std::string("u"));
  expect(comes("u.reads"), "it reads");
  say_pids(rt);
  expect(has(thrown_by<manta::node_lost>(reads), "reads_some"), "the reader");
  expect(comes("u.task.end"), "the task");
  expect(comes("u.method.end"), "the method");
  return say("unread");
}

}  // namespace settling
