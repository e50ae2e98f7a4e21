// SPDX-License-Identifier: Apache-2.0
// The programs of settler.cpp whose values have arrays.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cluster/settling.hpp"

namespace settling {

namespace {

using numbers = manta::array<double>;

constexpr std::size_t in_mib = (std::size_t{1} << 20U) / sizeof(double);

double number_at(std::size_t at, double from) {
  return from + static_cast<double>(at * 31 % 1021) + static_cast<double>(at) / 1024;
}
numbers numbers_from(std::size_t count, double from) {
  auto room = manta::make_array<double>(manta::array_shape(count));
  for (std::size_t i = 0; i < count; ++i) room.data()[i] = number_at(i, from);
  return std::move(room).seal();
}
bool are_numbers(std::span<const double> all, std::size_t count, double from) {
  if (all.size() != count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (all[i] != number_at(i, from)) return false;
  }
  return true;
}

// The inode of the file whose memory has this address in this process; 0: it is no file's. That of
// a segment is no other file's on the machine.
std::uint64_t file_at(const void* at) {
  const auto where = reinterpret_cast<std::uintptr_t>(at);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t from = 0;
    std::uintptr_t to = 0;
    std::uint64_t inode = 0;
    const int found = std::sscanf(line.c_str(), "%lx-%lx %*s %*s %*s %lu", &from, &to, &inode);
    if (found == 3 && from <= where && where < to) return inode;
  }
  return 0;
}
std::uint64_t file_of(const numbers& all) { return file_at(all.data()); }

struct batch {
  std::string name;
  std::optional<numbers> one;
  std::vector<manta::array<std::uint8_t>> bytes;
  manta::array<int> none;
  manta::future<numbers> later;
};

bool is_right(const numbers& all, std::size_t count, double from) {
  return are_numbers({all.data(), all.size()}, count, from);
}
std::size_t rows_of(const manta::array<float>& matrix) {
  return matrix.shape().rank() == 2 ? matrix.shape()[0] : 0;
}
bool takes_batch(const batch& all, std::size_t count) {
  bool is = all.name == "batch" && all.one.has_value() && is_right(*all.one, count, 1) &&
            all.bytes.size() == 3 && all.none.size() == 0;
  for (std::size_t i = 0; is && i < all.bytes.size(); ++i) {
    is = all.bytes[i].size() == i + 1 && all.bytes[i].data()[i] == i;
  }
  return is && is_right(all.later.get(long_enough), count, 2);
}
batch makes_batch(std::size_t count) {
  batch out{"batch", numbers_from(count, 1), {}, {}, manta::put(numbers_from(count, 2))};
  for (std::uint8_t i = 0; i < 3; ++i) {
    std::vector<std::uint8_t> some(i + std::size_t{1}, i);
    out.bytes.push_back(manta::make_array(some));
  }
  return out;
}
// Its parameter reads any range of numbers.
double last_of(std::span<const double> all) { return all.empty() ? 0 : all.back(); }

// Keeps an array, and gives it on.
struct shelf {
  explicit shelf(numbers first) : kept(std::move(first)) {}
  bool has(std::size_t count, double from) const { return is_right(kept, count, from); }
  void put(numbers next) { kept = std::move(next); }
  numbers gives() const { return kept; }
  std::uint64_t makes(std::size_t count, double from) {
    kept = numbers_from(count, from);
    return file();
  }
  std::uint64_t file() const { return file_at(kept.data()); }
  bool puts_elsewhere(const manta::actor<shelf>& other) const {
    manta::remote<&shelf::put>(other, kept).get(long_enough);
    return true;
  }
  numbers kept;
};

manta::actor<shelf> shelf_at(const std::string& node, const numbers& first) {
  return manta::spawn<shelf>.with({.where = manta::on_node(node)})(first);
}

void check_tasks(const std::string& node, std::size_t count) {
  const std::string note = node + ", " + std::to_string(count);
  const numbers some = numbers_from(count, 7);
  expect(manta::remote<is_right>.with(at(node))(some, count, 7.0).get(long_enough), note);
  const auto stored = manta::put(some);
  expect(manta::remote<is_right>.with(at(node))(stored, count, 7.0).get(long_enough), "of a put");
  expect(manta::remote<last_of>.with(at(node))(some).get(long_enough) == number_at(count - 1, 7),
         "as a span");
  const auto made = manta::remote<numbers_from>.with(at(node))(count, 8.0);
  expect(is_right(made.get(long_enough), count, 8), "a result, " + note);
  // From there straight into a task of this node.
  const auto more = manta::remote<numbers_from>.with(at(node))(count, 9.0);
  expect(manta::remote<is_right>(more, count, 9.0).get(long_enough), "a result that goes on");
  expect(manta::remote<takes_batch>.with(at(node))(makes_batch(count), count).get(long_enough),
         "inside of others, " + note);
  const batch back = manta::remote<makes_batch>.with(at(node))(count).get(long_enough);
  expect(takes_batch(back, count), "back, inside of others");
}

void check_actors(const std::string& one, const std::string& two, std::size_t count) {
  const auto first = shelf_at(one, numbers_from(count, 3));
  const auto second = shelf_at(two, numbers_from(1, 0));
  expect(manta::remote<&shelf::has>(first, count, 3.0).get(long_enough), "a constructor's");
  expect(manta::remote<&shelf::puts_elsewhere>(first, second).get(long_enough), "to a third node");
  expect(manta::remote<&shelf::has>(second, count, 3.0).get(long_enough), "in the third node");
  expect(is_right(manta::remote<&shelf::gives>(second).get(long_enough), count, 3), "and here");
  const auto next = manta::remote<numbers_from>(count, 4.0);
  manta::remote<&shelf::put>(first, next).get(long_enough);
  expect(manta::remote<&shelf::has>(first, count, 4.0).get(long_enough), "of a future");
}

void check_shapes(const std::string& node) {
  auto room = manta::make_array<float>({30, 40});
  for (float& each : room.span()) each = 1.5F;
  const auto matrix = std::move(room).seal();
  expect(manta::remote<rows_of>.with(at(node))(matrix).get(long_enough) == 30, "a shape");
}

// Those that nobody reads are on the disk meanwhile, where there is room for few.
void check_disk(const std::string& one, const std::string& two) {
  constexpr std::size_t count = 4 * in_mib;
  std::vector<manta::future<numbers>> many;
  for (int i = 0; i < 24; ++i) many.push_back(manta::put(numbers_from(count, i)));
  std::vector<manta::future<bool>> read;
  for (std::size_t i = 0; i < many.size(); ++i) {
    const manta::options with = at(i % 2 == 0 ? one : two);
    const auto from = static_cast<double>(i);
    read.push_back(manta::remote<is_right>.with(with)(many[i], std::size_t{count}, from));
    if (i % 4 == 3) expect(read.back().get(long_enough), "from the disk");
  }
  for (const auto& each : read) expect(each.get(long_enough), "from the disk, later");
}

// Whether two say that they read the same memory, which they do where nodes map.
bool maps = true;
void expect_shared(std::uint64_t here, std::uint64_t there, const std::string& what) {
  expect(here != 0 && (here == there) == maps, what);
}

constexpr std::size_t shared_count = in_mib / 4;

void check_shared(const std::string& one, const std::string& two) {
  const numbers own = numbers_from(shared_count, 1);
  const std::uint64_t file = file_of(own);
  expect_shared(file, manta::remote<file_of>.with(at(one))(own).get(long_enough), "an argument");
  const auto stored = manta::put(own);
  expect_shared(file, manta::remote<file_of>.with(at(one))(stored).get(long_enough), "of a put");
  const auto first = shelf_at(one, own);
  expect_shared(file, manta::remote<&shelf::file>(first).get(long_enough), "a constructor's");
  const numbers back = manta::remote<&shelf::gives>(first).get(long_enough);
  expect((back.data() == own.data()) == maps, "back at home");
  const auto second = shelf_at(two, numbers_from(1, 0));
  expect(manta::remote<&shelf::puts_elsewhere>(first, second).get(long_enough), "to a third node");
  expect_shared(file, manta::remote<&shelf::file>(second).get(long_enough), "in the third node");

  const std::uint64_t made =
      manta::remote<&shelf::makes>(first, std::size_t{shared_count}, 2.0).get(long_enough);
  const numbers came = manta::remote<&shelf::gives>(first).get(long_enough);
  expect_shared(made, file_of(came), "a result");
  expect(is_right(came, shared_count, 2), "what it has");
  manta::remote<&shelf::put>(second, came).get(long_enough);
  expect_shared(made, manta::remote<&shelf::file>(second).get(long_enough), "sent on");
  const auto in_worker =
      manta::remote<file_of>.with({.isolation = manta::isolation_mode::processes});
  expect_shared(made, in_worker(came).get(long_enough), "in an isolated worker here");
  const numbers few = manta::remote<numbers_from>.with(at(one))(std::size_t{500}, 3.0).get();
  expect(is_right(few, 500, 3) && file_of(few) == 0, "a small one is copied");
}

// A quarter of half the store each. Those that nobody reads any more count no more.
void check_limit(const std::string& node) {
  constexpr std::size_t count = 8 * in_mib;
  const auto maker = shelf_at(node, numbers_from(1, 0));
  const auto is_shared = [&](std::vector<numbers>& to, double from) {
    const std::uint64_t made =
        manta::remote<&shelf::makes>(maker, std::size_t{count}, from).get(long_enough);
    to.push_back(manta::remote<&shelf::gives>(maker).get(long_enough));
    expect(is_right(to.back(), count, from), "one of many");
    return file_of(to.back()) == made;
  };
  int shared = 0;
  for (int i = 0; i < 12; ++i) {
    std::vector<numbers> one;
    shared += is_shared(one, i) ? 1 : 0;
  }
  expect(shared == (maps ? 12 : 0), "one at a time: " + std::to_string(shared) + " shared");
  shared = 0;
  std::vector<numbers> all;
  for (int i = 0; i < 6; ++i) shared += is_shared(all, i) ? 1 : 0;
  expect(shared == (maps ? 4 : 0), "half of a store: " + std::to_string(shared) + " shared");
}

// Has arrays in its node until that ends.
void holds(const std::vector<numbers>& /*all*/, const std::string& began) {
  manta::kv::put(began, 1).get();
  std::this_thread::sleep_for(long_enough);  // the task's work
}

// Both end a while after they have begun: their work.
constexpr std::chrono::milliseconds late{300};
std::vector<double> late_vector(const std::string& began) {
  manta::kv::put(began, 1).get();
  std::this_thread::sleep_for(late);
  return std::vector<double>(in_mib / 2, 3);
}
numbers late_array(const std::string& began) {
  manta::kv::put(began, 1).get();
  std::this_thread::sleep_for(late);
  return numbers_from(shared_count, 3);
}

bool has_numbers(const numbers& all, std::size_t count, double from) {
  return is_right(all, count, from);
}

}  // namespace

// On one machine nodes read each other's arrays where they lie.
int neighbours(const manta::runtime& rt, bool are_mapped) {
  maps = are_mapped;
  const auto all = others(rt);
  check_shared(all[0].name, all[1].name);
  check_limit(all[0].name);
  return say("neighbours");
}

// Who has an array of a lost node reads it on, and gives it to others.
int legacies(const manta::runtime& rt) {
  const auto maker = shelf_at("rank-2", numbers_from(shared_count, 5));
  const auto heir = shelf_at("rank-1", numbers_from(1, 0));
  const numbers own = manta::remote<&shelf::gives>(maker).get(long_enough);
  expect(manta::remote<&shelf::puts_elsewhere>(maker, heir).get(long_enough), "to an heir");
  expect_shared(manta::remote<&shelf::file>(maker).get(long_enough), file_of(own), "as it lives");
  const auto end = manta::monitor(maker);
  say_pids(rt);
  expect(end.get(long_enough).reason == manta::end_reason::process_lost, "its end");
  expect(has_numbers(own, shared_count, 5), "here");
  expect(manta::remote<&shelf::has>(heir, std::size_t{shared_count}, 5.0).get(long_enough),
         "at an heir's");
  const auto in_another = manta::remote<has_numbers>.with(at("rank-3"));
  expect(in_another(own, std::size_t{shared_count}, 5.0).get(long_enough), "in another node");
  const numbers back = manta::remote<&shelf::gives>(heir).get(long_enough);
  expect(has_numbers(back, shared_count, 5), "from an heir");
  return say("legacies");
}

// What a node that was given up may still read is nobody else's before its process ends. It is half
// of the store, so what goes to others meanwhile are copies.
int ghosts(const manta::runtime& rt) {
  constexpr std::size_t count = 8 * in_mib;
  std::vector<numbers> own;
  for (int i = 0; i < 4; ++i) own.push_back(numbers_from(count, 1));
  const void* const was = own.front().data();
  const auto is_taken_again = [&] { return numbers_from(count, 0).data() == was; };
  const auto is_shared = [] {
    const numbers more = numbers_from(shared_count, 1);
    return manta::remote<file_of>.with(at("rank-1"))(more).get(long_enough) == file_of(more);
  };
  const auto held = manta::remote<holds>.with(at("rank-2"))(own, "ghost");
  expect(comes("ghost"), "it begins");
  say_pids(rt);
  const std::string end = thrown_by<manta::node_lost>(held);
  expect(has(end, "lost"), end);
  own.clear();
  for (int i = 0; i < 50; ++i) expect(!is_taken_again(), "it may read it yet");
  expect(!is_shared(), "half of the store is lent");
  std::printf("given up\n");
  std::fflush(stdout);
  const auto limit = std::chrono::steady_clock::now() + long_enough;
  bool is = false;
  while (!is && std::chrono::steady_clock::now() < limit) is = is_taken_again();
  expect(is, "it can't read it any more");
  expect(is_shared(), "as before");
  return say("ghosts");
}

// Kept beyond its runtime, an array is this process's own: the next one's nodes have the same
// numbers, and so have their arrays.
int heirlooms(int argc, char** argv) {
  numbers kept;
  const auto make = [](double from) {
    return manta::remote<numbers_from>.with(at("rank-1"))(std::size_t{shared_count}, from).get();
  };
  {
    const manta::runtime rt(argc, argv);
    kept = make(1);
    expect(file_of(kept) != 0, "it is shared");
  }
  expect(has_numbers(kept, shared_count, 1), "after its runtime");
  const manta::runtime rt(argc, argv);
  const numbers next = make(2);
  expect(has_numbers(next, shared_count, 2), "the next one's");
  expect(has_numbers(kept, shared_count, 1), "beside the next one's");
  const auto has = manta::remote<has_numbers>.with(at("rank-1"));
  expect(has(kept, std::size_t{shared_count}, 1.0).get(long_enough), "in another node");
  kept = {};
  for (int i = 0; i < 10; ++i) expect(has_numbers(make(3), shared_count, 3), "one more");
  expect(has_numbers(next, shared_count, 2), "the next one's, later");
  return say("heirlooms");
}

// What runs in another node as the runtime ends finishes, and its result comes.
int lasts(int argc, char** argv) {
  manta::future<std::vector<double>> vector;
  manta::future<numbers> array;
  {
    const manta::runtime rt(argc, argv);
    vector = manta::remote<late_vector>.with(at("rank-1"))(std::string("vector"));
    array = manta::remote<late_array>.with(at("rank-2"))(std::string("array"));
    expect(comes("vector") && comes("array"), "they begin");
  }
  expect(vector.get(long_enough) == std::vector<double>(in_mib / 2, 3), "a vector");
  expect(has_numbers(array.get(long_enough), shared_count, 3), "an array");
  return say("lasts");
}

// Arrays go to other nodes, and come from there.
int arrays(const manta::runtime& rt) {
  const auto all = others(rt);
  for (const manta::node_info& one : rt.nodes()) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{500}, in_mib / 4}) {
      check_tasks(one.name, count);
    }
    check_shapes(one.name);
  }
  const numbers long_one = numbers_from(33 * in_mib, 5);  // in parts
  expect(manta::remote<last_of>.with(at(all[0].name))(long_one).get(long_enough) ==
             number_at(33 * in_mib - 1, 5),
         "a long one");
  for (const std::size_t count : {std::size_t{3}, in_mib / 2}) {
    check_actors(all[0].name, all[1].name, count);
  }
  return say("arrays");
}

int rested_arrays(const manta::runtime& rt) {
  const auto all = others(rt);
  check_disk(all[0].name, all[1].name);
  return say("rested");
}

}  // namespace settling
