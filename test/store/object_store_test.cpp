// SPDX-License-Identifier: Apache-2.0
// Objects in real memory and on a real disk, used by several threads.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <manta/base/sanitizers.hpp>

#include "constants.hpp"
#include "exec/support.hpp"
#include "folder.hpp"
#include "store/object_store.hpp"

#if MANTA_HAS_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using manta::errc;
using manta::store::object_id;
using manta::store::object_store;
using manta_test::dice;
using manta_test::kib;
using manta_test::mib;

std::unique_ptr<object_store> opened(object_store::settings with) {
  auto made = object_store::open(std::move(with));
  if (!made) FAIL(made.error().message());
  return *std::move(made);
}

// Bytes that only the object of this number has; all of them, at little cost.
void fill(std::span<std::byte> to, std::uint64_t number) {
  dice roll(number);
  std::size_t at = 0;
  for (; at + 8 <= to.size(); at += 8) {
    const std::uint64_t next = roll.next();
    std::memcpy(to.data() + at, &next, 8);
  }
  for (; at < to.size(); ++at) to[at] = static_cast<std::byte>(number);
}
bool is_filled(std::span<const std::byte> with, std::uint64_t number) {
  std::vector<std::byte> as(with.size());
  fill(as, number);
  return std::ranges::equal(with, as);
}

std::optional<object_id> put(object_store& to, std::uint64_t bytes, std::uint64_t number) {
  auto made = to.make(bytes);
  if (!made) return std::nullopt;
  fill(made->bytes(), number);
  return (*std::move(made)).seal();
}
bool is_there(object_store& in, object_id id, std::uint64_t bytes, std::uint64_t number) {
  const auto got = in.read({id});
  return got && got->front().bytes().size() == bytes && is_filled(got->front().bytes(), number);
}

}  // namespace

TEST_CASE("an object is read as it was made, where it lies", "[store]") {
  const auto s = opened({.bytes = 64 * mib});
  for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{1000}, mib, 20 * mib + 3}) {
    auto made = s->make(bytes);
    REQUIRE(made);
    REQUIRE(made->bytes().size() == bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(made->bytes().data()) % 64 == 0);
    fill(made->bytes(), bytes);
    const std::byte* const at = made->bytes().data();
    const object_id id = (*std::move(made)).seal();
    const auto got = s->read({id, id});
    REQUIRE(got);
    CHECK((*got)[0].bytes().data() == at);
    CHECK((*got)[1].bytes().data() == at);
    CHECK(is_filled((*got)[0].bytes(), bytes));
    s->erase(id);
    CHECK(is_filled((*got)[0].bytes(), bytes));  // while it is read
  }
  CHECK(s->measure().live == 0);
  CHECK(s->measure().reserved > 0);
  s->tidy();
  CHECK(s->measure().reserved == 0);
  CHECK(s->make(0).error().code() == errc::invalid_argument);
  CHECK(s->read({77}).error().code() == errc::object_lost);
  CHECK(object_store::open({.bytes = 1000}).error().code() == errc::invalid_config);
  CHECK(object_store::open({.bytes = mib, .spill_folder = "/proc/nothing"}).error().code() ==
        errc::invalid_config);
}

TEST_CASE("four times as much as memory holds goes through, and nothing of it is left", "[store]") {
  const manta_test::folder where;
  const auto s = opened({.bytes = 64 * mib, .spill_folder = where.path().string()});
  std::vector<std::pair<object_id, std::uint64_t>> all;
  dice roll(manta_test::run_seed());
  std::uint64_t bytes = 0;
  while (bytes < 256 * mib) {
    const std::uint64_t size = 1 + roll.below(roll.one_in(10) ? 12 * mib : mib);
    const auto id = put(*s, size, all.size());
    REQUIRE(id);
    all.emplace_back(*id, size);
    bytes += size;
  }
  CHECK(s->measure().spilled > 180 * mib);
  CHECK(s->measure().reserved <= 64 * mib);
  for (std::size_t i = 0; i < all.size(); ++i) {
    REQUIRE(is_there(*s, all[i].first, all[i].second, i));
  }
  for (const auto& [id, size] : all) s->erase(id);
  CHECK(manta_test::happens([&] { return s->measure().spilled == 0; }));
  s->tidy();
  CHECK(s->measure().reserved == 0);
  CHECK(std::filesystem::is_empty(where.path()));
}

TEST_CASE("a full store waits, answers in time, and goes on when there is room", "[store]") {
  const auto s = opened({.bytes = 32 * mib, .wait = 200ms});  // nothing to spill to
  const auto first = put(*s, 20 * mib, 1);
  REQUIRE(first);
  auto reader = s->read({*first});
  REQUIRE(reader);
  const auto before = std::chrono::steady_clock::now();
  const auto full = s->make(20 * mib);
  const auto took = std::chrono::steady_clock::now() - before;
  REQUIRE_FALSE(full);
  CHECK(full.error().code() == errc::store_full);
  CHECK_THAT(full.error().message(),
             Contains("20971520 read by 1 holders: 20971520 by this process"));
  CHECK(took >= 200ms);
  CHECK(took < 10s);
  CHECK(s->make(33 * mib).error().code() == errc::store_full);

  const auto patient = opened({.bytes = 32 * mib, .wait = 60s});
  const auto large = put(*patient, 20 * mib, 1);
  REQUIRE(large);
  std::thread frees([&] {
    manta_test::happens([&] { return patient->measure().waiting == 1; });
    patient->erase(*large);
  });
  const bool is_made = put(*patient, 20 * mib, 2).has_value();
  frees.join();
  CHECK(is_made);
}

TEST_CASE("a full store without a folder to spill to says so", "[store]") {
  const auto s = opened({.bytes = 16 * mib, .wait = 0ms});
  REQUIRE(put(*s, 16 * mib, 1));
  const auto full = s->make(8 * mib);
  REQUIRE_FALSE(full);
  CHECK_THAT(full.error().message(), Contains("has no spill_folder"));
}

// A limit on the size of files stands for a full disk.
TEST_CASE("a full disk is waited for, and spilling goes on by itself", "[store]") {
  const manta_test::folder where;
  const pid_t pid = fork();
  if (pid == 0) {
    signal(SIGXFSZ, SIG_IGN);
    auto s = object_store::open(
        {.bytes = 32 * mib, .spill_folder = where.path().string(), .wait = 300ms});
    if (!s || !put(**s, 20 * mib, 1)) _exit(1);
    rlimit most = {mib, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &most);
    // On a busy machine it may have been waited for in vain before the disk was tried.
    bool is_said = false;
    for (int i = 0; i < 100 && !is_said; ++i) {
      const auto full = (*s)->make(20 * mib);
      if (full) _exit(2);
      is_said = full.error().message().find("spilling failed") != std::string::npos;
    }
    if (!is_said) _exit(4);
    std::thread frees([&] {
      manta_test::happens([&] { return (*s)->measure().waiting == 1; });
      most.rlim_cur = RLIM_INFINITY;
      setrlimit(RLIMIT_FSIZE, &most);
    });
    bool is_made = false;
    for (int i = 0; i < 100 && !is_made; ++i) is_made = put(**s, 20 * mib, 2).has_value();
    frees.join();
    _exit(is_made ? 0 : 3);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("what was not finished is given back", "[store]") {
  const auto s = opened({.bytes = 32 * mib, .wait = 60s});
  {
    const auto made = s->make(20 * mib);
    REQUIRE(made);
  }
  auto by_worker = s->make(20 * mib, 3);
  REQUIRE(by_worker);
  s->holder_gone(3);
  CHECK(s->measure().live == 0);
  CHECK(put(*s, 30 * mib, 1));
}

TEST_CASE("an object whose spill file was damaged is lost, and its owner is told", "[store]") {
  const manta_test::folder where;
  std::set<object_id> lost;
  const auto s = opened({.bytes = 16 * mib,
                         .spill_folder = where.path().string(),
                         .on_gone = [&](object_id id, bool is_lost) {
                           if (is_lost) lost.insert(id);
                         }});
  std::vector<object_id> all;
  for (std::uint64_t i = 0; i < 8; ++i) all.push_back(*put(*s, 4 * mib, i));
  REQUIRE(s->measure().spilled >= 16 * mib);
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(one, gone).string();
    if (!target.starts_with(where.path().string())) continue;
    REQUIRE(ftruncate(std::stoi(one.path().filename().string()), 0) == 0);
  }
  const auto got = s->read({all[0]});
  REQUIRE_FALSE(got);
  CHECK(got.error().code() == errc::object_lost);
  CHECK(lost == std::set<object_id>{all[0]});
  CHECK(is_there(*s, all[7], 4 * mib, 7));
}

TEST_CASE("caches leave before anything is written to the disk", "[store]") {
  const manta_test::folder where;
  std::set<object_id> evicted;
  const auto s = opened({.bytes = 32 * mib,
                         .spill_folder = where.path().string(),
                         .on_gone = [&](object_id id, bool) { evicted.insert(id); }});
  const object_id cached = *put(*s, 10 * mib, 1);
  const object_id needed = *put(*s, 10 * mib, 2);
  s->keep_as_cache(cached);
  CHECK(s->need(cached));
  s->keep_as_cache(cached);
  REQUIRE(put(*s, 20 * mib, 3));
  CHECK(evicted == std::set<object_id>{cached});
  CHECK_FALSE(s->need(cached));
  CHECK(s->measure().spilled == 0);
  CHECK(is_there(*s, needed, 10 * mib, 2));
}

TEST_CASE("two stores share what a user has on a machine", "[store]") {
  const manta_test::folder where;
  const std::string shared = where.path().string() + "/mine";
  const auto a = opened({.bytes = 64 * mib, .quota_folder = shared, .wait = 200ms});
  const auto b = opened({.bytes = 64 * mib, .quota_folder = shared, .wait = 60s});
  const auto large = put(*a, 40 * mib, 1);
  REQUIRE(large);
  const auto more = a->make(40 * mib);
  CHECK_FALSE(more);
  std::thread frees([&] {
    manta_test::happens([&] { return b->measure().waiting == 1; });
    a->erase(*large);
    a->tidy();
  });
  const bool is_made = put(*b, 40 * mib, 2).has_value();
  frees.join();
  CHECK(is_made);
  const auto full = a->make(40 * mib);
  REQUIRE_FALSE(full);
  CHECK_THAT(full.error().message(),
             Contains("all programs of this user on this machine have what quota_bytes allows"));
  CHECK_THAT(full.error().message(), Contains("raise quota_bytes or drop references"));
}

TEST_CASE("makers and readers of several threads share a small store", "[store]") {
  const manta_test::folder where;
  const auto s = opened({.bytes = 24 * mib, .spill_folder = where.path().string(), .wait = 60s});
  std::atomic<int> wrong{0};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < 4; ++t) {
    all.emplace_back([&, t] {
      dice roll(manta_test::run_seed() + t);
      std::vector<std::pair<object_id, std::uint64_t>> mine;
      for (std::uint64_t i = 0; i < 60; ++i) {
        const std::uint64_t size = 1 + roll.below(roll.one_in(5) ? 5 * mib : 200 * kib);
        const auto id = put(*s, size, size);
        if (!id) {
          ++wrong;
          continue;
        }
        mine.emplace_back(*id, size);
        const auto& [old, bytes] = mine[roll.below(mine.size())];
        if (!is_there(*s, old, bytes, bytes)) ++wrong;
        if (mine.size() < 10) continue;
        std::swap(mine[roll.below(mine.size())], mine.back());
        s->erase(mine.back().first);
        mine.pop_back();
      }
      for (const auto& [id, bytes] : mine) s->erase(id);
    });
  }
  for (std::thread& one : all) one.join();
  CHECK(wrong == 0);
  CHECK(s->measure().live == 0);
  CHECK(s->measure().waiting == 0);
  s->tidy();
  CHECK(s->measure().reserved == 0);
}

#if MANTA_HAS_ASAN
TEST_CASE("a sanitizer sees who reads an object that is gone", "[store]") {
  const auto s = opened({.bytes = 32 * mib});
  put(*s, 100, 1);
  const object_id id = *put(*s, mib, 2);
  const std::byte* at = nullptr;
  {
    const auto got = s->read({id});
    REQUIRE(got);
    at = got->front().bytes().data();
    CHECK(__asan_region_is_poisoned(const_cast<std::byte*>(at), mib) == nullptr);
    s->erase(id);
    CHECK(__asan_address_is_poisoned(at) == 0);
  }
  CHECK(__asan_address_is_poisoned(at) == 1);
  CHECK(put(*s, mib, 3));
  CHECK(__asan_address_is_poisoned(at) == 0);
}
#endif
