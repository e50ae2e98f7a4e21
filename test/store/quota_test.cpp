// SPDX-License-Identifier: Apache-2.0
// What several stores have together, and that what the dead had is free.
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "folder.hpp"
#include "store/quota.hpp"

namespace {

using Catch::Matchers::Contains;
using manta::errc;
using manta::store::quota;

quota opened_quota(const std::string& folder, std::uint64_t most) {
  auto one = quota::open(folder, most);
  if (!one) FAIL(one.error().message());
  return *std::move(one);
}

}  // namespace

TEST_CASE("stores of one user have a limit together", "[store]") {
  const manta_test::folder where;
  const std::string path = (where.path() / "mine").string();
  const quota a = opened_quota(path, 1000);
  const quota b = opened_quota(path, 1000);
  CHECK(a.take(600));
  CHECK_FALSE(b.take(401));
  CHECK(b.take(400));
  CHECK(a.used() == 1000);
  CHECK_FALSE(a.take(1));
  b.give(100);
  CHECK(a.take(100));
  {
    const quota c = opened_quota(path, 2000);  // may see it otherwise
    CHECK(c.take(1000));
    CHECK_FALSE(c.take(1));
    CHECK_FALSE(a.take(1));
    CHECK(b.used() == 2000);
  }
  CHECK(b.used() == 1000);  // it ended
  b.give(5000);             // more than it has
  CHECK(b.used() == 700);
  CHECK_FALSE(b.take(~std::uint64_t{0}));
}

TEST_CASE("what a store had is free when its process is killed", "[store]") {
  const manta_test::folder where;
  const std::string path = where.path().string() + "/mine";
  const quota a = opened_quota(path, 1000);
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const auto other = quota::open(path, 1000);
    const char is = other && other->take(900) ? 'y' : 'n';
    static_cast<void>(!write(ready[1], &is, 1));
    pause();
    _exit(0);
  }
  char is = 0;
  REQUIRE(read(ready[0], &is, 1) == 1);
  REQUIRE(is == 'y');
  CHECK_FALSE(a.take(200));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  CHECK(a.take(1000));
  close(ready[0]);
  close(ready[1]);
}

TEST_CASE("stores that take and give at the same time never have too much", "[store]") {
  const manta_test::folder where;
  const std::string path = where.path().string() + "/mine";
  const quota watches = opened_quota(path, 1000);
  std::vector<pid_t> all;
  for (int p = 0; p < 3; ++p) {
    all.push_back(fork());
    if (all.back() != 0) continue;
    const auto own = quota::open(path, 1000);
    if (!own) _exit(1);
    int wrong = 0;
    std::thread other([&] {
      for (int i = 0; i < 300; ++i) {
        if (own->take(200)) own->give(200);
      }
    });
    for (int i = 0; i < 300; ++i) {
      if (!own->take(300)) continue;
      if (own->used() > 1000) ++wrong;
      own->give(300);
    }
    other.join();
    _exit(wrong == 0 ? 0 : 2);
  }
  for (const pid_t pid : all) {
    int status = 0;
    waitpid(pid, &status, 0);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  CHECK(watches.used() == 0);
}

// As one that was stopped by a signal at the wrong moment.
TEST_CASE("a store that holds the lock for ever does not stop the others", "[store]") {
  const manta_test::folder where;
  const std::string path = where.path().string() + "/mine";
  const quota a = opened_quota(path, 1000);
  const int file = open((path + "/store").c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(file >= 0);
  struct flock all {};
  all.l_type = F_WRLCK;
  all.l_whence = SEEK_SET;
  all.l_start = quota::most_stores * 8;
  all.l_len = 1;
  REQUIRE(fcntl(file, F_OFD_SETLK, &all) == 0);
  CHECK(a.take(1000));
  CHECK_FALSE(a.take(1));
  close(file);
}

TEST_CASE("a folder that others may use is refused", "[store]") {
  const manta_test::folder where;
  const std::string path = where.path().string();
  REQUIRE(chmod(path.c_str(), 0755) == 0);
  const auto open_to_all = quota::open(path, 1000);
  REQUIRE_FALSE(open_to_all);
  CHECK(open_to_all.error().code() == errc::invalid_config);
  CHECK_THAT(open_to_all.error().message(), Contains("others may enter it"));
  CHECK(quota::open(path + "/not/there", 1000).error().code() == errc::invalid_config);
  REQUIRE(chmod(path.c_str(), 0700) == 0);
  std::filesystem::create_symlink("/etc/passwd", path + "/store");
  CHECK(quota::open(path, 1000).error().code() == errc::invalid_config);
  std::filesystem::remove(path + "/store");
  std::vector<quota> all;
  for (std::size_t i = 0; i < quota::most_stores; ++i) all.push_back(opened_quota(path, 1000));
  const auto one_more = quota::open(path, 1000);
  REQUIRE_FALSE(one_more);
  CHECK_THAT(one_more.error().message(), Contains("512 stores are there already"));
}
