// SPDX-License-Identifier: Apache-2.0
// Objects on a disk: exactly what was written or a typed answer, and nothing that is left.
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "exec/support.hpp"
#include "folder.hpp"
#include "store/spill_file.hpp"

namespace spill_file_test {
namespace {

using Catch::Matchers::Contains;
using manta::errc;
using manta::store::spill_files;
using manta::store::spilled;
using manta_test::dice;

constexpr std::uint64_t plenty = std::uint64_t{1} << 40U;
using bytes = std::vector<std::byte>;

bytes random_bytes(dice& roll, std::size_t size) {
  bytes out(size);
  for (std::byte& one : out) one = static_cast<std::byte>(roll.next());
  return out;
}

std::unique_ptr<spill_files> opened_files(const std::string& folder, std::uint64_t most = plenty,
                                          std::uint64_t file = std::uint64_t{1} << 20U) {
  auto made = spill_files::open(folder, most, file);
  if (!made) FAIL(made.error().message());
  return *std::move(made);
}

manta::result<std::vector<spilled>> write(spill_files& to, const std::vector<bytes>& all) {
  std::vector<std::span<const std::byte>> parts(all.begin(), all.end());
  return to.write(parts);
}

bool is_back(const spill_files& from, const spilled& at, const bytes& as) {
  bytes got(at.bytes);
  return from.read(at, got) && got == as;
}

// Those of this process that lie in a folder, which have no name there.
std::vector<int> files_in(const std::string& folder) {
  std::vector<int> out;
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(one, gone).string();
    if (target.starts_with(folder)) out.push_back(std::stoi(one.path().filename().string()));
  }
  return out;
}

std::uint64_t disk_bytes(const std::string& folder) {
  std::uint64_t sum = 0;
  for (const int file : files_in(folder)) {
    struct stat is {};
    if (fstat(file, &is) == 0) sum += static_cast<std::uint64_t>(is.st_blocks) * 512;
  }
  return sum;
}

}  // namespace

TEST_CASE("what is spilled comes back, and the disk holds what lives", "[store]") {
  const std::uint64_t seed = manta_test::run_seed();
  CAPTURE(seed);
  dice roll(seed);
  const manta_test::folder where;
  const auto disk = opened_files(where.path().string());
  std::vector<std::pair<spilled, bytes>> live;
  std::uint64_t live_bytes = 0;
  for (int step = 0; step < 400; ++step) {
    if (roll.one_in(2)) {
      std::vector<bytes> some;
      for (std::size_t n = roll.below(20); n > 0; --n) {
        some.push_back(random_bytes(roll, 1 + roll.below(roll.one_in(10) ? 200'000 : 5'000)));
      }
      const auto at = write(*disk, some);
      REQUIRE(at);
      REQUIRE(at->size() == some.size());
      for (std::size_t i = 0; i < some.size(); ++i) {
        live_bytes += some[i].size();
        live.emplace_back((*at)[i], std::move(some[i]));
      }
    } else {
      for (std::size_t n = roll.below(20); n > 0 && !live.empty(); --n) {
        std::swap(live[roll.below(live.size())], live.back());
        REQUIRE(is_back(*disk, live.back().first, live.back().second));
        disk->forget(live.back().first);
        live_bytes -= live.back().second.size();
        live.pop_back();
      }
    }
    REQUIRE(disk->bytes() == live_bytes);
  }
  for (const auto& [at, as] : live) REQUIRE(is_back(*disk, at, as));
  CHECK(std::filesystem::is_empty(where.path()));
  // Whole blocks of 4096, and what the file system needs itself.
  CHECK(disk_bytes(where.path().string()) <=
        live_bytes + live.size() * 4096 + (std::uint64_t{1} << 18U));
  for (const auto& [at, as] : live) disk->forget(at);
  CHECK(disk->bytes() == 0);
  CHECK(files_in(where.path().string()).size() <= 1);  // the one that is appended to
}

TEST_CASE("a spilled object whose file was changed is lost, and no other", "[store]") {
  dice roll(manta_test::run_seed());
  const manta_test::folder where;
  const auto disk = opened_files(where.path().string());
  std::vector<bytes> all;
  for (int i = 0; i < 3; ++i) all.push_back(random_bytes(roll, 10'000));
  const auto at = write(*disk, all);
  REQUIRE(at);
  REQUIRE(files_in(where.path().string()).size() == 1);
  const int file = files_in(where.path().string())[0];
  char one = 0;
  const auto flipped = static_cast<off_t>((*at)[1].at + 9'999);
  REQUIRE(pread(file, &one, 1, flipped) == 1);
  one = static_cast<char>(one ^ 1);
  REQUIRE(pwrite(file, &one, 1, flipped) == 1);
  CHECK(is_back(*disk, (*at)[0], all[0]));
  CHECK(is_back(*disk, (*at)[2], all[2]));
  bytes to(10'000);
  const auto wrong = disk->read((*at)[1], to);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code() == errc::object_lost);
  CHECK_THAT(wrong.error().message(), Contains("not those that were written"));
  REQUIRE(ftruncate(file, static_cast<off_t>((*at)[2].at + 5'000)) == 0);
  const auto cut = disk->read((*at)[2], to);
  REQUIRE_FALSE(cut);
  CHECK(cut.error().code() == errc::object_lost);
  CHECK_THAT(cut.error().message(), Contains("shorter than what was written"));
  CHECK(is_back(*disk, (*at)[0], all[0]));
  disk->forget((*at)[0]);
  disk->forget((*at)[1]);
  disk->forget((*at)[2]);
  const auto gone = disk->read((*at)[0], to);
  REQUIRE_FALSE(gone);
  CHECK_THAT(gone.error().message(), Contains("it was forgotten"));
}

TEST_CASE("a spill has a cap, and nowhere to write is said at once", "[store]") {
  dice roll(manta_test::run_seed());
  const manta_test::folder where;
  const auto disk = opened_files(where.path().string(), 25'000);
  const bytes one = random_bytes(roll, 10'000);
  const auto first = write(*disk, {one, one});
  REQUIRE(first);
  const auto full = write(*disk, {one});
  REQUIRE_FALSE(full);
  CHECK(full.error().code() == errc::store_full);
  CHECK_THAT(full.error().message(), Contains("20000 of 25000 are in use"));
  disk->forget((*first)[0]);
  CHECK(write(*disk, {one}));
  CHECK(write(*disk, {})->empty());

  const auto nowhere = spill_files::open(where.path().string() + "/nothing", plenty);
  REQUIRE_FALSE(nowhere);
  CHECK(nowhere.error().code() == errc::invalid_config);
  CHECK_THAT(nowhere.error().message(), Contains("name a folder on a disk that may be written"));
}

// A limit on the size of files stands for a full disk: both answer in the middle of a write.
TEST_CASE("a write that the disk has no room for leaves nothing, and the next one is right",
          "[store]") {
  const manta_test::folder where;
  const pid_t pid = fork();
  if (pid == 0) {
    signal(SIGXFSZ, SIG_IGN);
    rlimit most = {50'000, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &most);
    dice roll(1);
    const bytes large = random_bytes(roll, 30'000);
    auto disk = spill_files::open(where.path().string(), plenty);
    if (!disk) _exit(1);
    const auto first = write(**disk, {large});
    if (!first) _exit(2);
    const auto full = write(**disk, {large});
    if (full || full.error().code() != errc::store_full) _exit(3);
    if ((*disk)->bytes() != large.size()) _exit(4);
    if (disk_bytes(where.path().string()) > 40'000) _exit(5);
    most.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &most);
    const auto second = write(**disk, {large, large});
    if (!second || !is_back(**disk, (*second)[1], large)) _exit(6);
    if (!is_back(**disk, (*first)[0], large)) _exit(7);
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

// A file ends with its last object; the next write may have chosen it just before.
TEST_CASE("the last object of a file is forgotten while the next one is written", "[store]") {
  dice roll(manta_test::run_seed());
  const manta_test::folder where;
  const auto disk = opened_files(where.path().string(), plenty, plenty);
  const bytes large = random_bytes(roll, 300'000);
  for (int i = 0; i < 100; ++i) {
    const auto first = write(*disk, {bytes(100)});
    REQUIRE(first);
    std::thread forgets([&] { disk->forget((*first)[0]); });
    const auto second = write(*disk, {large});
    forgets.join();
    REQUIRE(second);
    REQUIRE(is_back(*disk, (*second)[0], large));
    disk->forget((*second)[0]);
  }
}

TEST_CASE("several threads spill, read back and forget at the same time", "[store]") {
  const manta_test::folder where;
  const auto disk = opened_files(where.path().string(), plenty, 100'000);
  std::atomic<int> wrong{0};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < 4; ++t) {
    all.emplace_back([&, t] {
      dice roll(t);
      for (int i = 0; i < 100; ++i) {
        const bytes a = random_bytes(roll, 1 + roll.below(30'000));
        const bytes b = random_bytes(roll, 1 + roll.below(3'000));
        const auto at = write(*disk, {a, b});
        if (!at || !is_back(*disk, (*at)[0], a)) ++wrong;
        if (!at) continue;
        disk->forget((*at)[0]);
        if (!is_back(*disk, (*at)[1], b)) ++wrong;
        disk->forget((*at)[1]);
      }
    });
  }
  for (std::thread& one : all) one.join();
  CHECK(wrong == 0);
  CHECK(disk->bytes() == 0);
}

}  // namespace spill_file_test
