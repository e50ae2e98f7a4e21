// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <unistd.h>

#include <manta/manta.hpp>

// What the programs of settler.cpp are made of.

namespace settling {

using namespace std::chrono_literals;

constexpr auto long_enough = 20s;

inline bool is_right = true;

// What is not as it has to be is said, and the line at the end is another one.
inline void expect(bool is, const std::string& what) {
  if (is) return;
  is_right = false;
  std::printf("WRONG: %s\n", what.c_str());
  std::fflush(stdout);  // the program may crash
}

inline int say(const std::string& what, std::size_t processes = 0) {
  std::printf("%s: %s, %zu processes\n", what.c_str(), is_right ? "right" : "WRONG", processes);
  std::fflush(stdout);
  return is_right ? 0 : 1;
}

/// The error that a future ends with; nothing: it has a value.
template <class E, class T>
std::string thrown_by(const manta::future<T>& of) {
  try {
    static_cast<void>(of.get(long_enough));
    return "nothing";
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("another one: ") + e.what();
  }
}

/// Counts who is at work at the same time.
class headcount {
 public:
  /// Works so long; how many have been at it at a time at most, so far.
  int most_while(int ms) {
    const int now = ++now_;
    int seen = most_.load();
    while (seen < now && !most_.compare_exchange_weak(seen, now)) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));  // the task's work
    --now_;
    return most_.load();
  }

 private:
  std::atomic<int> now_{0};
  std::atomic<int> most_{0};
};

/// The test's word, a signal: that it has done its part. Any thread.
inline std::atomic<int> is_told{0};
static_assert(std::atomic<int>::is_always_lock_free);  // or no handler may set it
inline void listen_to_test() {
  std::signal(SIGUSR1, [](int) { is_told = 1; });
}

template <class T>
bool ends_within(const manta::future<T>& of, manta::duration limit) {
  const auto came = of.try_get(limit);
  return came.has_value() || came.error().code() != manta::errc::timed_out;
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Has what it asked for until that key is there, or it is stopped; it sleeps meanwhile.
inline std::string holds_until(const std::string& began, const std::string& end) {
  manta::kv::put(began, 1).get();
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (!manta::this_task::is_cancelled() && std::chrono::steady_clock::now() < limit &&
         !manta::kv::get<int>(end).get().has_value()) {
    std::this_thread::sleep_for(1ms);
  }
  return manta::this_task::node();
}

// Large, and tells itself whether it is whole: each is `from` and where it is.
using counted_words = manta::array<std::uint64_t>;
inline counted_words counted_from(std::size_t count, std::uint64_t from) {
  auto room = manta::make_array<std::uint64_t>(manta::array_shape(count));
  for (std::size_t i = 0; i < count; ++i) room.data()[i] = from + i;
  return std::move(room).seal();
}
// Looks at each, or at one in so many.
inline bool are_counted(const counted_words& all, std::size_t count, std::uint64_t from,
                        std::size_t step = 1) {
  bool is = all.size() == count;
  for (std::size_t i = 0; is && i < count; i += step) is = all[i] == from + i;
  return is;
}

// What is put under a key, whenever that is; no worker waits meanwhile.
inline manta::coroutine<long> value_of(std::string key) {
  auto puts = manta::kv::watch<int>(key);
  if (const auto is = co_await manta::kv::get<int>(key)) co_return is->value;
  const auto change = co_await puts.next();
  co_return *change.value;
}

// Has a handle that can't leave its node.
struct homebody {
  static std::stop_token some() {
    static const std::stop_source from;
    return from.get_token();
  }
  bool is_whole() const { return inside.stop_possible(); }
  std::stop_token inside = some();
};
inline bool takes_homebody(const homebody& of) { return of.is_whole(); }

// Notes in the cluster's keys that it is gone.
struct counter {
  counter() = default;
  explicit counter(long from, std::string note = {}) : sum(from), told(std::move(note)) {}
  counter(const counter&) = delete;
  counter& operator=(const counter&) = delete;
  ~counter() {
    if (told.empty()) return;
    try {
      manta::kv::put(told, getpid()).get();
    } catch (const manta::exception&) {
      return;  // the runtime ends
    }
  }

  int process() const { return getpid(); }
  std::string node() const { return manta::this_task::node(); }
  long add(long x) { return sum += x; }
  // Each caller's calls come in its order.
  bool next(int caller, int number) { return ++last[caller] == number; }
  long slowly(int ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));  // the call's work
    return sum;
  }
  long fails(long x) { throw std::out_of_range("odd: " + std::to_string(x)); }
  std::vector<double> scaled(const std::vector<double>& all, double by) {
    std::vector<double> out = all;
    for (double& one : out) one *= by;
    return out;
  }
  // Until it is asked to stop.
  long waits(const std::string& began) {
    manta::kv::put(began, 1).get();
    while (!manta::this_task::is_cancelled()) std::this_thread::sleep_for(1ms);
    return sum;
  }
  void leaves() { manta::this_actor::exit(); }
  manta::actor<counter> self() { return manta::this_actor::handle<counter>(); }
  long asks(const manta::actor<counter>& other) {
    return manta::remote<&counter::add>(other, 1L).get();
  }
  // Keeps a handle, and gives it back.
  void keep(const manta::actor<counter>& other) { kept = other; }
  void let_go() { kept = {}; }
  manta::actor<counter> held() const { return kept; }
  long ask_kept(long x) { return manta::remote<&counter::add>(kept, x).get(); }
  void kill_kept() { manta::kill(kept); }
  int end_of_kept() { return static_cast<int>(manta::monitor(kept).get(long_enough).reason); }
  // Round a ring of them, so often.
  long pass_on(int times) {
    return times == 0 ? sum : manta::remote<&counter::pass_on>(kept, times - 1).get() + 1;
  }
  manta::actor<counter> makes(const std::string& where, const std::string& note) {
    return manta::spawn<counter>.with({.where = manta::on_node(where)})(7L, note);
  }
  // Names, from the node that it lives in.
  manta::actor<counter> finds(const std::string& name) {
    const auto found = manta::find_actor<counter>(name);
    return found ? *found : manta::actor<counter>();
  }
  manta::actor<counter> takes(const std::string& name, const std::string& where, bool may_exist) {
    return named(name, where, may_exist)(0L);
  }
  void takes_alone(const std::string& name, const std::string& where) {
    kept = named(name, where, false)(0L);
  }
  // What it begins with is never there.
  void takes_early(const std::string& name, const std::string& where) {
    early = named(name, where, false)(manta::remote<value_of>(std::string("nothing")));
  }
  static manta::spawn_with_options<counter> named(const std::string& name, const std::string& where,
                                                  bool may_exist) {
    manta::actor_options out;
    out.name = name;
    out.get_if_exists = may_exist;
    out.where = manta::on_node(where);
    return manta::spawn<counter>.with(out);
  }
  long listens(const homebody& /*to*/) { return sum; }
  homebody gives_homebody() { return {}; }
  // What it has as they are made.
  manta::stream<long> sums(int n) {
    for (int i = 0; i < n; ++i) co_yield sum;
  }
  // Says how many it has made, and that it has ended.
  manta::stream<long> notes(std::string key) {
    const counter end(0, key + ".end");
    for (long i = 0;; ++i) {
      manta::kv::put(key, i + 1).get();
      co_yield i;
    }
  }
  manta::future<long> delegates(long x);

  long sum = 0;
  std::string told;
  std::map<int, int> last;
  manta::actor<counter> kept;
  manta::actor<counter> early;
};

inline long squared(long x) { return x * x; }
inline manta::future<long> counter::delegates(long x) { return manta::remote<squared>(x); }

inline manta::options at(const std::string& node, bool is_soft = false) {
  manta::options out;
  out.where = manta::on_node(node, is_soft);
  return out;
}

inline manta::actor<counter> one_at(const std::string& node, long from = 0,
                                    const std::string& note = {}) {
  return manta::spawn<counter>.with({.where = manta::on_node(node)})(from, note);
}

inline bool comes(const std::string& key) {
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  while (!manta::kv::get<int>(key).get().has_value()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

// Others of its nodes.
inline std::vector<manta::node_info> others(const manta::runtime& rt) {
  std::vector<manta::node_info> out;
  for (const manta::node_info& one : rt.nodes()) {
    if (one.pid != getpid()) out.push_back(one);
  }
  return out;
}

// settler_handles.cpp
int handles(const manta::runtime& rt);
int holders(const manta::runtime& rt);
int heirs(const manta::runtime& rt);
int ring(const manta::runtime& rt, int rounds);
// For who is about to end one of them.
inline void say_pids(const manta::runtime& rt) {
  for (const manta::node_info& one : rt.nodes()) {
    std::printf("pid %s %d\n", one.name.c_str(), one.pid);
  }
  std::fflush(stdout);
}

/// What a program is told behind its name.
struct asked {
  std::string how;  ///< as it stands there; empty: nothing
  int count = 12;   ///< the same, as a number
};
using program =
    std::variant<int (*)(const manta::runtime&), int (*)(const manta::runtime&, const asked&)>;
using program_list = std::map<std::string, program>;
// settler_crashes.cpp, and so on
program_list crash_programs();
program_list cycle_programs();
program_list free_programs();
program_list phase_programs();
program_list record_programs();
program_list room_programs();
// settler_cycles.cpp
int cycles(int argc, char** argv, int times);
// settler_things.cpp
int channels(const manta::runtime& rt);
int semaphores(const manta::runtime& rt);
int passed_things(const manta::runtime& rt);
int lost_homes(const manta::runtime& rt);
int lost_users(const manta::runtime& rt);
// settler_cancels.cpp
int cancels_calls(const manta::runtime& rt, bool by_messages);
// settler_cut.cpp
int cut_calls(const manta::runtime& rt);
int cut_pulls(const manta::runtime& rt);
// settler_broadcast.cpp
int broadcast(const manta::runtime& rt);
int broadcast_torn(const manta::runtime& rt);
int broadcast_orphaned(const manta::runtime& rt);
int inherited(const manta::runtime& rt);
int inherited_twice(const manta::runtime& rt);
// settler_drivers.cpp
int lends(const manta::runtime& rt);
int borrows(const manta::runtime& rt);
// settler_bulky.cpp
int bulky_things(const manta::runtime& rt);
// settler_relays.cpp
int relayed_things(const manta::runtime& rt);
int lost_relayed(const manta::runtime& rt);
// settler_selects.cpp
int selects(const manta::runtime& rt);
int lost_select_homes(const manta::runtime& rt);
int lost_selectors(const manta::runtime& rt);
// settler_million.cpp
int million(const manta::runtime& rt, int tasks);
// settler_weak.cpp
int weak_handles(const manta::runtime& rt);
int weak_lost(const manta::runtime& rt);
// settler_freight.cpp
int freight(const manta::runtime& rt, const std::string& how);
int wrecks(const manta::runtime& rt);
// settler_offers.cpp
int offers(const manta::runtime& rt);
int bereft(const manta::runtime& rt);
int latecomers(const manta::runtime& rt);
int cards(const manta::runtime& rt);
// settler_groups.cpp
int groups(const manta::runtime& rt);
int rivals(const manta::runtime& rt, int rounds);
int unplaced();
int evicted(const manta::runtime& rt);
// settler_futures.cpp
int futures(const manta::runtime& rt, int rounds);
int partings(const manta::runtime& rt);
int estates(const manta::runtime& rt);
int nomads(const manta::runtime& rt, int rounds);
// settler_places.cpp
int postings(const manta::runtime& rt);
int arrays(const manta::runtime& rt);
int rested_arrays(const manta::runtime& rt);
int neighbours(const manta::runtime& rt, bool are_mapped);
int legacies(const manta::runtime& rt);
int ghosts(const manta::runtime& rt);
int heirlooms(int argc, char** argv);
int lasts(int argc, char** argv);
int desertions(const manta::runtime& rt);
int heralds();
// settler_stays.cpp
int keeps_keys(const manta::runtime& rt);
int finds_keys(const manta::runtime& rt);
int detaches(const manta::runtime& rt);
int named(const manta::runtime& rt);
int haunts(const char* control);
int haunted(const manta::runtime& rt);
int meets(const manta::runtime& rt);
int given(const manta::runtime& rt);
int given_lost(const manta::runtime& rt);
int stays(const manta::runtime& rt);
int follows(const manta::runtime& rt);
int stayed_lost(const manta::runtime& rt);
int stayed_torn(const manta::runtime& rt);
int stayed_timed(const manta::runtime& rt);
int left_behind(const manta::runtime& rt);
int left_by_two(const manta::runtime& rt);
int left_reading(const manta::runtime& rt);
int left_in_vain(const manta::runtime& rt);
int left_by_rank(const manta::runtime& rt);
int left_over(const manta::runtime& rt);
int unheard(const manta::runtime& rt);
// settler_streams.cpp
int streams(const manta::runtime& rt, long items);
int dry_wells(const manta::runtime& rt);
int unread(const manta::runtime& rt);
// settler_names.cpp
int titles(const manta::runtime& rt, int rounds);
int workers(const manta::runtime& rt);
int widows(const manta::runtime& rt);

}  // namespace settling
