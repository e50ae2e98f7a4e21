// SPDX-License-Identifier: Apache-2.0
// Arrays and isolated workers: read where they lie, made where the task runs, kept when a process
// dies, and gone when nobody has them.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "constants.hpp"
#include "isolation/support.hpp"

namespace array_test {

namespace {

using namespace std::chrono_literals;
using manta::array;
using manta::make_array;
using manta_test::mib;
using test::comes_true;
using test::isolated;
using test::pid;
using test::shared;
using test::shared_numbers;

struct model {
  std::string name;
  std::vector<array<double>> layers;
};

double sum_of(const array<double>& a) { return std::accumulate(a.begin(), a.end(), 0.0); }
double total_of_span(std::span<const double> a) { return std::accumulate(a.begin(), a.end(), 0.0); }
array<double> counted(int n) {
  auto made = make_array<double>(static_cast<std::size_t>(n));
  std::iota(made.span().begin(), made.span().end(), 0.0);
  return std::move(made).seal();
}
double sum_to(int n) { return 0.5 * n * (n - 1); }
array<double> same(array<double> a) { return a; }
array<double> doubled(const array<double>& a) {
  auto made = make_array<double>(a.shape());
  for (std::size_t i = 0; i < a.size(); ++i) made[i] = 2 * a[i];
  return std::move(made).seal();
}
model scaled(model m) {
  for (array<double>& layer : m.layers) layer = doubled(layer);
  m.name += "!";
  return m;
}
// What the memory at `at` is: the line of /proc/self/maps, without the addresses.
std::string mapping_of(const void* at) {
  std::FILE* const file = std::fopen("/proc/self/maps", "re");
  std::string found = "none";
  std::array<char, 512> line{};
  while (file != nullptr && std::fgets(line.data(), line.size(), file) != nullptr) {
    std::uintptr_t from = 0;
    std::uintptr_t to = 0;
    std::array<char, 8> rights{};
    if (std::sscanf(line.data(), "%lx-%lx %7s", &from, &to, rights.data()) != 3) continue;
    const auto place = reinterpret_cast<std::uintptr_t>(at);
    if (place < from || place >= to) continue;
    found = rights.data();
    if (std::strstr(line.data(), "memfd:manta") != nullptr) found += " manta";
  }
  if (file != nullptr) std::fclose(file);
  return found;
}
std::string mapped_there(const array<double>& a) { return mapping_of(a.data()); }
std::string mapped_span(std::span<const double> a) { return mapping_of(a.data()); }
double nested_total(array<double> a) {
  const manta::future<array<double>> more = manta::remote<doubled>(a);
  return manta::remote<sum_of>(more).get() + manta::remote<sum_of>(a).get();
}
// What a task keeps for the next one of its process.
std::optional<array<double>> kept_here;
int keep(array<double> a) {
  kept_here = std::move(a);
  return getpid();
}
double kept_total() { return kept_here ? sum_of(*kept_here) : -1; }
array<double> give_kept() { return kept_here.value_or(array<double>()); }
bool forget() {
  kept_here.reset();
  return true;
}
double die_reading(const array<double>& a) {
  const double sum = sum_of(a);
  if (shared(0).fetch_add(1) < shared(1).load()) ::kill(getpid(), SIGKILL);
  return sum;
}
int die_writing(int n) {
  auto made = make_array<double>(static_cast<std::size_t>(n));
  made.fill(1);
  if (shared(0).fetch_add(1) < shared(1).load()) ::kill(getpid(), SIGKILL);
  return static_cast<int>(made.size());
}
array<double> die_sealed(int n) {
  array<double> made = counted(n);
  if (shared(0).fetch_add(1) < shared(1).load()) ::kill(getpid(), SIGKILL);
  return made;
}
int unsealed(int n) {
  const auto made = make_array<double>(static_cast<std::size_t>(n));
  return static_cast<int>(made.size());
}
// Each of `size` values that are its number.
std::vector<std::vector<double>> many_lists(int count, int size) {
  std::vector<std::vector<double>> out;
  for (int i = 0; i < count; ++i) out.emplace_back(static_cast<std::size_t>(size), i);
  return out;
}
double total_of_lists(const std::vector<std::vector<double>>& all) {
  double sum = 0;
  for (const std::vector<double>& one : all) sum += one.back();
  return sum;
}

double total_of_vector(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0);
}
std::vector<double> reversed(std::vector<double> v) {
  std::reverse(v.begin(), v.end());
  return v;
}
double nested_reversed(std::size_t n) {
  std::vector<double> v(n);
  std::iota(v.begin(), v.end(), 0.0);
  return manta::remote<reversed>(std::move(v)).get().front();
}
double die_with_vector(const std::vector<double>& v) {
  if (shared(0).fetch_add(1) < shared(1).load()) ::kill(getpid(), SIGKILL);
  return total_of_vector(v);
}

class table {
 public:
  explicit table(array<double> rows) : rows_(std::move(rows)) {}
  double sum() const { return sum_of(rows_); }
  array<double> rows() const { return rows_; }
  double put(array<double> more) {
    rows_ = std::move(more);
    return sum();
  }
  int process() const { return getpid(); }

 private:
  array<double> rows_;
};

manta::config with_store(std::size_t bytes, int workers = 2, int wait_ms = 10'000) {
  manta::config c = isolated(workers);
  c.store_bytes = static_cast<std::int64_t>(bytes);
  c.store_wait_ms = wait_ms;
  return c;
}

manta::options once() {
  manta::options o;
  o.max_retries = 0;
  return o;
}

template <class T>
std::string failure(const manta::future<T>& f) {
  const auto got = f.try_get();
  return got ? "none" : std::string(to_string(got.error().code())) + ": " + got.error().message();
}

// What a worker has still goes a moment after its answer is there.
bool gives_all_back(const manta::runtime& rt) {
  return comes_true([&] { return rt.store().used_bytes == 0; });
}

std::size_t open_files() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

TEST_CASE("a worker reads an array where it lies, and can't write it", "[isolation][array]") {
  const manta::runtime rt(with_store(64 * mib));
  const array<double> a = counted(1'000'000);
  CHECK(manta::remote<pid>().get() != getpid());
  CHECK(manta::remote<sum_of>(a).get() == sum_to(1'000'000));
  CHECK(manta::remote<mapped_there>(a).get() == "r--s manta");
  CHECK(manta::remote<mapped_span>(a).get() == "r--s manta");
  CHECK(manta::remote<total_of_span>(a).get() == sum_to(1'000'000));
  CHECK(manta::remote<total_of_span>(std::vector<double>{1, 2}).get() == 3);
  CHECK(manta::remote<same>(a).get().data() == a.data());
  const array<double> small = counted(10);  // beside others, in a segment that is there
  CHECK(manta::remote<sum_of>(small).get() == 45);
  CHECK(manta::remote<mapped_there>(small).get() == "r--s manta");
  CHECK(manta::remote<sum_of>(array<double>()).get() == 0);
}

TEST_CASE("an array that a worker makes is read where it was made", "[isolation][array]") {
  const manta::runtime rt(with_store(64 * mib));
  const array<double> a = manta::remote<counted>(1'000'000).get();
  CHECK(sum_of(a) == sum_to(1'000'000));
  CHECK(mapping_of(a.data()) == "r--s manta");
  CHECK(a.shape() == manta::array_shape(1'000'000));
  CHECK(rt.store().used_bytes >= 8'000'000);
  CHECK(manta::remote<sum_of>(a).get() == sum_to(1'000'000));
  // From worker to worker.
  const array<double> b = manta::remote<doubled>(manta::remote<doubled>(a)).get();
  CHECK(b[3] == 12);
  CHECK(manta::remote<total_of_span>(manta::remote<counted>(100'000)).get() == sum_to(100'000));
}

TEST_CASE("a small array that a worker makes goes as its bytes", "[isolation][array]") {
  const manta::runtime rt(with_store(64 * mib));
  const array<double> a = manta::remote<counted>(100).get();
  CHECK(sum_of(a) == sum_to(100));
  CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % 64 == 0);
  CHECK(rt.store().reserved_bytes == 0);
  CHECK(manta::remote<sum_of>(a).get() == sum_to(100));
  CHECK(manta::remote<sum_of>(manta::remote<doubled>(a)).get() == 2 * sum_to(100));
}

TEST_CASE("arrays in structs, containers and calls of workers are the same ones",
          "[isolation][array]") {
  const manta::runtime rt(with_store(128 * mib));
  const array<double> a = counted(100'000);
  const model m = manta::remote<scaled>(model{"m", {a, a, counted(20'000)}}).get();
  CHECK(m.name == "m!");
  CHECK(sum_of(m.layers[0]) == 2 * sum_to(100'000));
  CHECK(sum_of(m.layers[2]) == 2 * sum_to(20'000));
  CHECK(manta::remote<nested_total>(a).get() == 3 * sum_to(100'000));
  const manta::future<array<double>> object = manta::put(a);
  CHECK(manta::remote<sum_of>(object).get() == sum_to(100'000));
  CHECK(manta::remote<same>(object).get().data() == a.data());
}

TEST_CASE("actors in workers take, keep and give arrays", "[isolation][array]") {
  const manta::runtime rt(with_store(128 * mib));
  const array<double> a = counted(100'000);
  {
    const manta::actor<table> t = manta::spawn<table>(a);
    CHECK(manta::remote<&table::sum>(t).get() == sum_to(100'000));
    CHECK(manta::remote<&table::rows>(t).get().data() == a.data());
    CHECK(manta::remote<&table::put>(t, manta::remote<counted>(50'000)).get() == sum_to(50'000));
    CHECK(sum_of(manta::remote<&table::rows>(t).get()) == sum_to(50'000));
  }
}

TEST_CASE("the last handle anywhere gives an array's room back", "[isolation][array]") {
  const manta::runtime rt(with_store(64 * mib, 2));
  const std::size_t before = open_files();
  for (int i = 0; i < 40; ++i) {  // 16 MiB and more each time, of 64
    const array<double> a = manta::remote<counted>(1 << 20).get();
    const manta::future<array<double>> b = manta::remote<doubled>(a);
    CHECK(b.get()[7] == 14);
    CHECK(manta::remote<unsealed>(1 << 19).get() == 1 << 19);
  }
  CHECK(gives_all_back(rt));
  CHECK(comes_true([&] { return open_files() <= before + 2; }));
}

TEST_CASE("a worker that keeps an array has it when its node has not", "[isolation][array]") {
  const manta::runtime rt(with_store(64 * mib, 1));
  manta::remote<keep>(counted(100'000)).get();
  CHECK(manta::remote<kept_total>().get() == sum_to(100'000));
  CHECK(rt.store().used_bytes >= 800'000);
  CHECK(sum_of(manta::remote<give_kept>().get()) == sum_to(100'000));
  CHECK(manta::remote<forget>().get());
  CHECK(gives_all_back(rt));
  // The same with one of its own, which comes back to it.
  manta::remote<keep>(manta::remote<counted>(100'000)).get();
  CHECK(manta::remote<kept_total>().get() == sum_to(100'000));
  const array<double> a = manta::remote<give_kept>().get();
  CHECK(manta::remote<forget>().get());
  CHECK(manta::remote<sum_of>(a).get() == sum_to(100'000));
  CHECK(sum_of(a) == sum_to(100'000));
}

TEST_CASE("what a dead worker read is free again, and what it made stays", "[isolation][array]") {
  const shared_numbers numbers;
  const manta::runtime rt(with_store(64 * mib, 2));
  shared(1) = 1;
  {
    const array<double> a = counted(100'000);
    const auto f = manta::remote<die_reading>.with(once())(a);
    CHECK(failure(f).find("worker_lost: ") == 0);
    CHECK(sum_of(a) == sum_to(100'000));
    shared(0) = 0;
    CHECK(manta::remote<die_reading>(a).get() == sum_to(100'000));  // in the second run
  }
  CHECK(gives_all_back(rt));
  shared(0) = 0;
  CHECK(failure(manta::remote<die_writing>.with(once())(100'000)).find("worker_lost: ") == 0);
  CHECK(gives_all_back(rt));
  shared(0) = 0;
  CHECK(manta::remote<die_writing>(100'000).get() == 100'000);
  shared(0) = 0;
  CHECK(sum_of(manta::remote<die_sealed>(100'000).get()) == sum_to(100'000));
  CHECK(gives_all_back(rt));
  // Whose maker dies later.
  const array<double> b = manta::remote<counted>(100'000).get();
  shared(0) = 0;
  shared(1) = 2;
  for (int i = 0; i < 2; ++i) {
    CHECK(failure(manta::remote<die_reading>.with(once())(b)).find("worker_lost: ") == 0);
  }
  CHECK(sum_of(b) == sum_to(100'000));
  CHECK(manta::remote<sum_of>(b).get() == sum_to(100'000));
}

TEST_CASE("an actor that begins anew has its arrays again", "[isolation][array]") {
  const manta::runtime rt(with_store(64 * mib, 2));
  manta::actor_options lives;
  lives.max_restarts = 1;
  {
    const manta::actor<table> t = manta::spawn<table>.with(lives)(counted(100'000));
    const manta::actor<table> u = manta::spawn<table>.with(lives)(manta::remote<counted>(50'000));
    CHECK(manta::remote<&table::sum>(u).get() == sum_to(50'000));
    const int first = manta::remote<&table::process>(t).get();
    ::kill(first, SIGKILL);
    ::kill(manta::remote<&table::process>(u).get(), SIGKILL);
    CHECK(comes_true([&] {
      const auto got = manta::remote<&table::process>(t).try_get();
      return got && *got != first;
    }));
    CHECK(manta::remote<&table::sum>(t).get() == sum_to(100'000));
    CHECK(comes_true([&] {
      const auto got = manta::remote<&table::sum>(u).try_get();
      return got && *got == sum_to(50'000);
    }));
  }
  CHECK(gives_all_back(rt));
}

TEST_CASE("a full store is a typed answer in a worker, too", "[isolation][array]") {
  const manta::runtime rt(with_store(4 * mib, 1, 50));
  std::optional<array<double>> most = counted(3 << 17);  // 3 MiB
  CHECK(manta::remote<sum_of>(*most).get() == sum_to(3 << 17));
  const std::string why = failure(manta::remote<unsealed>(1 << 18));
  CHECK(why.find("store_full") != std::string::npos);
  CHECK(why.find("asked 2097152 bytes; of 4194304 are ") != std::string::npos);
  CHECK(why.find("3145728 by this process") != std::string::npos);
  CHECK(failure(manta::remote<unsealed>(1 << 20)).find("the whole store has 4194304") !=
        std::string::npos);
  most.reset();
  CHECK(manta::remote<unsealed>(1 << 18).get() == 1 << 18);
}

TEST_CASE("a call that was cancelled before it left holds no array", "[isolation][array]") {
  const manta::runtime rt(with_store(64 * mib, 1));
  {
    std::vector<manta::future<double>> sums;
    for (int i = 0; i < 200; ++i) sums.push_back(manta::remote<sum_of>(counted(10'000 + i)));
    for (auto& one : sums) manta::cancel(one);
    for (auto& one : sums) {
      const auto got = one.try_get();
      CHECK((got || got.error().code() == manta::errc::cancelled));
    }
  }
  CHECK(gives_all_back(rt));
}

TEST_CASE("arrays go round many tasks and actors, and nothing is left", "[isolation][array]") {
  const std::size_t before = open_files();
  {
    const manta::runtime rt(with_store(256 * mib, 3));
    {
      const manta::actor<table> t = manta::spawn<table>(counted(10'000));
      std::vector<manta::future<double>> sums;
      double expected = 0;
      for (int i = 0; i < 150; ++i) {
        const int n = 1000 + i * 379 % 40'000;
        const manta::future<array<double>> a =
            i % 2 == 0 ? manta::remote<counted>(n) : manta::put(counted(n));
        sums.push_back(manta::remote<sum_of>(manta::remote<doubled>(a)));
        sums.push_back(manta::remote<&table::put>(t, manta::remote<same>(a)));
        sums.push_back(manta::remote<nested_total>(a));
        expected += 6 * sum_to(n);
      }
      double found = 0;
      for (const auto& one : sums) found += one.get();
      CHECK(found == expected);
    }
    CHECK(gives_all_back(rt));
  }
  CHECK(open_files() <= before + 4);
}

TEST_CASE("large vectors go through the store, also those that no frame could hold",
          "[isolation][array]") {
  const shared_numbers numbers;
  const manta::runtime rt(with_store(512 * mib, 2));
  std::vector<double> v(12 << 20U);  // 96 MiB
  std::iota(v.begin(), v.end(), 0.0);
  const double sum = std::accumulate(v.begin(), v.end(), 0.0);
  CHECK(manta::remote<total_of_vector>(v).get() == sum);
  CHECK(manta::remote<total_of_span>(v).get() == sum);
  CHECK(manta::remote<reversed>(v).get().front() == v.back());
  CHECK(manta::remote<total_of_vector>(manta::remote<reversed>(v)).get() == sum);
  CHECK(manta::remote<nested_reversed>(3 << 20U).get() == (3 << 20U) - 1);
  shared(1) = 1;
  CHECK(manta::remote<die_with_vector>(v).get() == sum);  // in the second run
  v.resize(1 << 18U);                                     // 2 MiB, and there and back
  for (int i = 0; i < 50; ++i) CHECK(manta::remote<reversed>(v).get().back() == 0);
  CHECK(gives_all_back(rt));
}

TEST_CASE("values of very many ranges go through the store, whatever the size of each",
          "[isolation][array]") {
  const manta::runtime rt(with_store(512 * mib, 2));
  // Each more than a frame's list of ranges has; the last one more than a frame, too.
  for (const auto& [count, size] : {std::pair(1500, 1024), {5000, 600}, {3000, 5000}}) {
    const auto lists = manta::remote<many_lists>(count, size);
    CHECK(manta::remote<total_of_lists>(lists).get() == 0.5 * count * (count - 1));
    const std::vector<std::vector<double>> here = lists.get();
    REQUIRE(here.size() == static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      REQUIRE(here[static_cast<std::size_t>(i)].size() == static_cast<std::size_t>(size));
      REQUIRE(here[static_cast<std::size_t>(i)].back() == i);
    }
    CHECK(manta::remote<total_of_lists>(here).get() == 0.5 * count * (count - 1));
  }
  CHECK(gives_all_back(rt));
}

TEST_CASE("a large vector that the store has no room for goes as before", "[isolation][array]") {
  const manta::runtime rt(with_store(mib, 1, 10));
  const std::vector<double> v(1 << 20U, 0.5);  // 8 MiB
  CHECK(manta::remote<total_of_vector>(v).get() == (1 << 19U));
  CHECK(manta::remote<reversed>(v).get().size() == v.size());
}

}  // namespace array_test
