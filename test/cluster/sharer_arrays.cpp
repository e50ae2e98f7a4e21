// SPDX-License-Identifier: Apache-2.0
// Tasks that await arrays: see sharer.cpp. Sleeps of so many `ms` are the tasks' work, shorter ones
// look again for what others do.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <manta/manta.hpp>

#include "cluster/sharing.hpp"
#include "node/array_home.hpp"

using namespace sharing;  // NOLINT: its words

namespace {

using numbers = manta::array<long>;

numbers numbers_from(std::size_t count, long first) {
  auto room = manta::make_array<long>(manta::array_shape(count));
  std::iota(room.data(), room.data() + count, first);
  return std::move(room).seal();
}
// Of all of it, so that none of its pages may be another's; 0: it is not what was put.
long checked(std::span<const long> all, long first, long x) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] != first + static_cast<long>(i)) return 0;
  }
  return x * x + all.back();
}
// The work of such a task. With SHARER_UNTIL that of later ones goes on until there is that file.
void work_at(long x, int ms) {
  note_run(x);
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  constexpr long known_by_then = 40;  // how long tasks take
  const char* const until = std::getenv("SHARER_UNTIL");
  if (until == nullptr || x < known_by_then) return;
  const auto limit = std::chrono::steady_clock::now() + 60s;
  while (access(until, F_OK) != 0 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(5ms);
  }
}

// How often one of the two arrays was not read in this process for so long that its copy may have
// gone.
std::atomic<int> gaps{0};
void note_read(std::atomic<std::int64_t>& last) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const std::int64_t ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::int64_t before = last.exchange(ms);
  if (before != 0 && ms - before > 400) ++gaps;
}
std::atomic<std::int64_t> read_first{0};
std::atomic<std::int64_t> read_second{0};

done reads(const numbers& all, long x, int ms) {
  note_read(read_first);
  work_at(x, ms);
  return {getpid(), checked(all.span(), 7, x)};
}
done reads_span(std::span<const long> all, long x, int ms) {
  note_read(read_first);
  work_at(x, ms);
  return {getpid(), checked(all, 7, x)};
}
done reads_several(const std::vector<numbers>& all, long x, int ms) {
  note_read(read_first);
  note_read(read_second);
  work_at(x, ms);
  const bool is_right = all.size() == 2 && checked(all[1].span(), 9, x) != 0;
  return {getpid(), is_right ? checked(all[0].span(), 7, x) : 0};
}
struct two_arrays {
  numbers one;
  std::vector<numbers> more;
};
done reads_inside(const two_arrays& of, long x, int ms) { return reads_several(of.more, x, ms); }
done takes(numbers all, long x, int ms) { return reads(all, x, ms); }

struct fetches {
  std::uint64_t bytes = 0;
  std::uint64_t gaps = 0;
};
fetches fetched() {
  return {manta::node::fetched_array_bytes(), static_cast<std::uint64_t>(gaps.load())};
}
// Whether each node has fetched two arrays of so many bytes once, but for copies that went.
bool is_fetched_once(const manta::runtime& rt, std::uint64_t bytes) {
  bool is_once = true;
  for (const manta::node_info& one : rt.nodes()) {
    const auto in = manta::remote<fetched>.with({.where = manta::on_node(one.name)});
    const fetches was = in().get(30s);
    std::printf("%s has fetched %llu bytes, after %llu gaps\n", one.name.c_str(),
                static_cast<unsigned long long>(was.bytes),
                static_cast<unsigned long long>(was.gaps));
    is_once = is_once && was.bytes <= (2 + was.gaps) * bytes;
  }
  return is_once;
}

// Arrays of so many bytes, which the driver has put, are awaited by all of them.
int awaited(const manta::runtime& rt, const std::string& what, long count, int ms,
            std::size_t bytes) {
  const std::size_t many = bytes / sizeof(long);
  const auto data = manta::put(numbers_from(many, 7));
  const std::vector<manta::future<numbers>> both{data, manta::put(numbers_from(many, 9))};
  const auto inside = manta::put(two_arrays{data.get(), {data.get(), both[1].get()}});
  const auto call = [&](long i) {
    switch (i % 5) {
      case 0:
        return manta::remote<reads_span>(data, i, ms);
      case 1:
        return manta::remote<reads_several>(both, i, ms);
      case 2:
        return manta::remote<reads_inside>(inside, i, ms);
      case 3:
        return manta::remote<takes>(data, i, ms);
      default:
        return manta::remote<reads>(data, i, ms);
    }
  };
  const int code = spread(what.c_str(), count, call,
                          [many](long i) { return i * i + 7 + static_cast<long>(many) - 1; });
  if (what == "fetched") {
    std::printf("fetched %s\n", is_fetched_once(rt, bytes) ? "once" : "often");
  }
  return code;
}

// The same of what asks for a cpu.
int asking(long count, int ms, std::size_t bytes) {
  const std::size_t many = bytes / sizeof(long);
  const auto data = manta::put(numbers_from(many, 7));
  return spread(
      "asking", count, [&](long i) { return manta::remote<reads>.with({.cpus = 1})(data, i, ms); },
      [many](long i) { return i * i + 7 + static_cast<long>(many) - 1; });
}

// Their values would be read for longer than they take.
done glances(const numbers& all, long x, int ms) {
  note_run(x);
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  return {getpid(), x * x + all.span().back()};
}
int glancing(long count, int ms, std::size_t bytes) {
  const std::size_t many = bytes / sizeof(long);
  const auto data = manta::put(numbers_from(many, 7));
  return spread(
      "glancing", count, [&](long i) { return manta::remote<glances>(data, i, ms); },
      [many](long i) { return i * i + 7 + static_cast<long>(many) - 1; });
}
// Each reads an array of its own, and asks for a cpu.
int asking_own(long count, int ms, std::size_t bytes) {
  const std::size_t many = bytes / sizeof(long);
  std::vector<manta::future<numbers>> all;
  for (long i = 0; i < count; ++i) all.push_back(manta::put(numbers_from(many, i)));
  return spread(
      "asking-own", count,
      [&](long i) {
        const auto& own = all[static_cast<std::size_t>(i)];
        return manta::remote<glances>.with({.cpus = 1})(own, i, ms);
      },
      [many](long i) { return i * i + i + static_cast<long>(many) - 1; });
}

// Its caller has all of what it asks for that this node has, until it has answered.
done asks_for_its_own(const manta::future<numbers>& data) {
  manta::options with;
  with.resources = {{"thing", 1}};
  const done read = manta::remote<glances>.with(with)(data, 3, 1).get(20s);
  return {read.pid, read.value};
}
int asking_held(const manta::runtime& rt, std::size_t bytes) {
  const std::size_t many = bytes / sizeof(long);
  const auto data = manta::put(numbers_from(many, 7));
  manta::options with;
  with.resources = {{"thing", 1}};
  with.where = manta::on_node(rt.nodes().front().name);
  const done is = manta::remote<asks_for_its_own>.with(with)(data).get(40s);
  return say("asking-held", is.value == 9 + 7 + static_cast<long>(many) - 1 && is.pid != getpid(),
             {{is.pid, 1}}, 0);
}

// What asks for amounts that its caller has here reads what another node has made: there.
done made_there(long first, std::size_t many) {
  return {getpid(), static_cast<long>(many) + first};
}
numbers makes_there(long first, std::size_t many) { return numbers_from(many, first); }
done asks_near(const std::string& maker, std::size_t many) {
  manta::options there;
  there.where = manta::on_node(maker);
  manta::options with;
  with.resources = {{"thing", 1}};
  const auto pid = manta::remote<made_there>.with(there)(1, many).get(20s).pid;
  const auto data = manta::remote<makes_there>.with(there)(7, many);
  long there_count = 0;
  for (long i = 0; i < 8; ++i) {
    const done read = manta::remote<glances>.with(with)(data, i, 1).get(20s);
    const bool is_right = read.value == i * i + 7 + static_cast<long>(many) - 1;
    there_count += is_right && read.pid == pid ? 1 : 0;
  }
  return {pid, there_count};
}
int asking_near(const manta::runtime& rt, std::size_t bytes) {
  const std::size_t many = bytes / sizeof(long);
  const std::vector<manta::node_info> all = rt.nodes();
  manta::options with;
  with.resources = {{"thing", 1}};
  with.where = manta::on_node(all.front().name);
  bool is_right = all.size() == 3;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const done is = manta::remote<asks_near>.with(with)(all[i].name, many).get(40s);
    // A node may rest for a moment.
    is_right = is_right && is.value >= 7 && is.pid != getpid();
  }
  return say("asking-near", is_right, {}, 0);
}

// The same of what goes of itself, when it is known what such an array takes to come.
long last_of(const numbers& all) { return all.span().back(); }
int paced(const manta::runtime& rt, long count, int ms, std::size_t bytes) {
  const std::size_t many = bytes / sizeof(long);
  for (const manta::node_info& one : rt.nodes()) {
    if (one.pid == getpid()) continue;
    for (int i = 0; i < 3; ++i) {
      const auto there = manta::remote<last_of>.with({.where = manta::on_node(one.name)});
      static_cast<void>(there(manta::put(numbers_from(many, i))).get(60s));
    }
  }
  std::vector<manta::future<numbers>> all;
  for (long i = 0; i < count; ++i) all.push_back(manta::put(numbers_from(many, i)));
  return spread(
      "paced", count,
      [&](long i) { return manta::remote<glances>(all[static_cast<std::size_t>(i)], i, ms); },
      [many](long i) { return i * i + i + static_cast<long>(many) - 1; });
}

// How many threads this process has; the most that a task has seen.
int threads_now() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int n = 0;
    if (word == "Threads:" && status >> n) return n;
  }
  return 0;
}
std::atomic<int> most_threads{0};
int threads_seen() { return most_threads.load(); }
done counts_threads(const numbers& all, long x, int ms) {
  const int now = threads_now();
  int before = most_threads.load();
  while (before < now && !most_threads.compare_exchange_weak(before, now)) continue;
  return glances(all, x, ms);
}
// Many short ones of an array that takes longer to come than several of them.
int many_short(const manta::runtime& rt, long count, int ms, std::size_t bytes) {
  std::map<std::string, int> before;
  for (const manta::node_info& one : rt.nodes()) {
    const auto in = manta::remote<threads_now>.with({.where = manta::on_node(one.name)});
    before[one.name] = in().get(30s);
  }
  const std::size_t many = bytes / sizeof(long);
  const auto data = manta::put(numbers_from(many, 7));
  const int code = spread(
      "many-short", count, [&](long i) { return manta::remote<counts_threads>(data, i, ms); },
      [many](long i) { return i * i + 7 + static_cast<long>(many) - 1; });
  int grown = 0;
  for (const auto& [name, threads] : before) {
    const auto in = manta::remote<threads_seen>.with({.where = manta::on_node(name)});
    const int now = in().get(30s);
    std::printf("%s had %d threads, then %d\n", name.c_str(), threads, now);
    grown = std::max(grown, now - threads);
  }
  std::printf("threads: %s\n", grown <= 28 ? "few" : "MANY");
  return code;
}

// What can't be had where it is read elsewhere, as an array that its maker has let go of.
class had_at_home {
 public:
  had_at_home() = default;
  explicit had_at_home(long x) : x_(x) {}
  template <class Archive>
  void save(Archive& to) const {
    to(x_);
  }
  template <class Archive>
  void load(Archive& from) {
    from(x_);
    note_run(-1);
    if (x_ % 3 == 0) manta::node::raise_array_away();
    const auto why = x_ % 3 == 1 ? manta::errc::store_full : manta::errc::node_lost;
    manta::error(why, "it can't be had here").raise();
  }

 private:
  long x_ = 0;
};
done reads_at_home(const had_at_home& /*before*/, const numbers& all, long x, int ms) {
  return glances(all, x, ms);
}
int let_go(long count, int ms, std::size_t bytes) {
  const std::size_t many = bytes / sizeof(long);
  const auto data = manta::put(numbers_from(many, 7));
  return spread(
      "let-go", count,
      [&](long i) { return manta::remote<reads_at_home>(had_at_home(i), data, i, ms); },
      [many](long i) { return i * i + 7 + static_cast<long>(many) - 1; });
}

// Each awaits one of its own, and there is no room in memory for all of them.
int awaited_from_disk(long count, int ms, std::size_t bytes) {
  const std::size_t many = bytes / sizeof(long);
  std::vector<manta::future<numbers>> all;
  for (long i = 0; i < count; ++i) all.push_back(manta::put(numbers_from(many, 7)));
  return spread(
      "awaited-from-disk", count,
      [&](long i) { return manta::remote<reads>(all[static_cast<std::size_t>(i)], i, ms); },
      [many](long i) { return i * i + 7 + static_cast<long>(many) - 1; });
}

// What tasks have made, one after the other, each in whichever node.
numbers one_more(const numbers& before, int ms) {
  note_run(before[0]);
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  return numbers_from(before.size(), before[0] + 1);
}
bool has_node(const manta::runtime& rt, const std::string& name) {
  const std::vector<manta::node_info> all = rt.nodes();
  return std::ranges::any_of(all, [&](const auto& one) { return one.name == name; });
}
// What stayed in a node that is lost is lost with it, and told so: that is right, too. With `loses`
// rank-2 is to be lost meanwhile, and has arrays that nobody reads before.
int chained(const manta::runtime& rt, bool loses, long count, int ms, std::size_t bytes) {
  const std::size_t many = bytes / sizeof(long);
  constexpr long links = 5;
  std::vector<manta::future<numbers>> stayed;
  for (long i = 0; loses && i < 4; ++i) {
    const auto there = manta::remote<numbers_from>.with({.where = manta::on_node("rank-2")});
    stayed.push_back(there(many, i));
  }
  for (const auto& one : stayed) {
    while (!one.is_ready()) std::this_thread::sleep_for(1ms);
  }
  std::vector<manta::future<numbers>> all;
  for (long i = 0; i < count; ++i) {
    auto last = manta::put(numbers_from(many, i));
    for (long k = 0; k < links; ++k) last = manta::remote<one_more>(last, ms);
    all.push_back(std::move(last));
  }
  bool is_right = true;
  int lost = 0;
  for (long i = 0; i < count; ++i) {
    try {
      const numbers& got = all[static_cast<std::size_t>(i)].get(30s);
      is_right = is_right && got.size() == many && checked(got.span(), i + links, 1) != 0;
    } catch (const manta::node_lost&) {
      ++lost;
    } catch (const manta::exception& other) {
      std::printf("chain %ld: %s\n", i, other.what());
      is_right = false;
    }
  }
  const auto limit = std::chrono::steady_clock::now() + 30s;
  while (loses && has_node(rt, "rank-2") && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(5ms);
  }
  int gone = 0;
  for (const auto& one : stayed) {
    try {
      static_cast<void>(one.get(30s));
    } catch (const manta::node_lost&) {
      ++gone;
    } catch (const manta::exception& other) {
      std::printf("stayed: %s\n", other.what());
    }
  }
  std::printf("%d that stayed are lost\n%d lost\n", gone, lost);
  return say("chained", is_right, {}, 0);
}

}  // namespace

int sharing::run_with_arrays(const manta::runtime& rt, const asked& of) {
  const auto& [what, count, ms, bytes] = of;
  if (what == "awaited" || what == "fetched") return awaited(rt, what, count, ms, bytes);
  if (what == "asking") return asking(count, ms, bytes);
  if (what == "asking-held") return asking_held(rt, bytes);
  if (what == "asking-near") return asking_near(rt, bytes);
  if (what == "asking-own") return asking_own(count, ms, bytes);
  if (what == "glancing") return glancing(count, ms, bytes);
  if (what == "paced") return paced(rt, count, ms, bytes);
  if (what == "many-short") return many_short(rt, count, ms, bytes);
  if (what == "let-go") return let_go(count, ms, bytes);
  if (what == "awaited-from-disk") return awaited_from_disk(count, ms, bytes);
  if (what == "chained") return chained(rt, false, count, ms, bytes);
  if (what == "bereft") return chained(rt, true, count, ms, bytes);
  return -1;
}
