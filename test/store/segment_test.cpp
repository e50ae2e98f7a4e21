// SPDX-License-Identifier: Apache-2.0
// Segments: read by another process, written by one alone, and an answer where there is no room.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "store/segment.hpp"

namespace segment_test {
namespace {

using Catch::Matchers::Contains;
using manta::errc;
using manta::store::descriptor;
using manta::store::segment;
using manta::store::segment_view;

constexpr std::size_t some = std::size_t{3} << 20U;

segment made(std::size_t bytes) {
  auto one = segment::make(bytes);
  if (!one) FAIL(one.error().message());
  return *std::move(one);
}

descriptor copy_of(const descriptor& of) { return descriptor(dup(of.number())); }

segment_view viewed(const segment& of) {
  auto one = segment_view::map(copy_of(of.file()));
  if (!one) FAIL(one.error().message());
  return *std::move(one);
}

/// Those of 4096 bytes that can be written without a page fault, as the kernel tells it.
std::size_t mapped_pages(const segment& of) {
  std::size_t count = 0;
  const descriptor table(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  const auto first = reinterpret_cast<std::uintptr_t>(of.bytes().data()) / 4096;
  for (std::uintptr_t page = first; page < first + of.bytes().size() / 4096; ++page) {
    std::uint64_t is = 0;
    const ssize_t got = pread(table.number(), &is, sizeof is, static_cast<off_t>(page * sizeof is));
    REQUIRE(got == sizeof is);
    count += is >> 63U;
  }
  return count;
}

/// How a child process ended that did this.
template <class Do>
int in_child(Do&& what) {
  const pid_t pid = fork();
  if (pid == 0) {
    what();
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("what a segment's writer writes its readers see, in any process", "[store]") {
  const segment s = made(some - 5);
  REQUIRE(s.bytes().size() == some);  // whole pages
  CHECK(std::ranges::all_of(s.bytes(), [](std::byte b) { return b == std::byte{0}; }));
  const segment_view v = viewed(s);
  REQUIRE(v.bytes().size() == some);
  std::memcpy(s.bytes().data() + 1000, "written", 7);
  CHECK(std::memcmp(v.bytes().data() + 1000, "written", 7) == 0);
  CHECK(v.bytes().data() != s.bytes().data());
  const int status = in_child([&] {
    const auto mine = segment_view::map(copy_of(s.file()));
    if (!mine || std::memcmp(mine->bytes().data() + 1000, "written", 7) != 0) _exit(1);
  });
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

TEST_CASE("a segment's readers keep it when its writer is gone", "[store]") {
  segment s = made(some);
  std::memset(s.bytes().data(), 7, some);
  const segment_view v = viewed(s);
  s = made(4096);
  CHECK(std::ranges::all_of(v.bytes(), [](std::byte b) { return b == std::byte{7}; }));
}

TEST_CASE("a segment's readers can neither write it nor cut it", "[store]") {
  const segment s = made(some);
  const int file = s.file().number();
  CHECK(mmap(nullptr, some, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) == MAP_FAILED);
  CHECK(errno == EPERM);
  CHECK(pwrite(file, "x", 1, 0) == -1);
  CHECK(errno == EPERM);
  CHECK(ftruncate(file, 4096) == -1);
  CHECK(ftruncate(file, 2 * some) == -1);
  CHECK(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == -1);
  CHECK(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) == -1);
  const segment_view v = viewed(s);
  CHECK(mprotect(const_cast<std::byte*>(v.bytes().data()), some, PROT_READ | PROT_WRITE) == -1);
  const int status = in_child([&] {
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGSEGV, SIG_DFL);  // a sanitizer's report is not wanted
    *const_cast<std::byte*>(v.bytes().data()) = std::byte{1};
  });
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV));
  std::memset(s.bytes().data(), 1, some);  // its writer still can
  CHECK(v.bytes()[some - 1] == std::byte{1});
}

TEST_CASE("a file that is no segment is not mapped", "[store]") {
  const auto refused = [](int file) {
    const auto got = segment_view::map(descriptor(file));
    return !got && got.error().code() == errc::decode_failed;
  };
  CHECK(refused(-1));
  CHECK(refused(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)));
  CHECK(refused(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
  const int half = memfd_create("half", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(ftruncate(half, 4096) == 0);
  REQUIRE(fcntl(half, F_ADD_SEALS, F_SEAL_GROW) == 0);  // its size could still shrink
  CHECK(refused(half));
  const int none = memfd_create("empty", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(fcntl(none, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0);
  CHECK(refused(none));
}

TEST_CASE("a segment for which there is no room is refused with the reason", "[store]") {
  CHECK(segment::make(0).error().code() == errc::invalid_argument);
  CHECK_FALSE(segment::make(std::numeric_limits<std::size_t>::max()));
  // Asked with numbers, for a machine on which the look is missing would end processes.
  constexpr auto few = [] { return std::int64_t{66} << 20U; };  // 64 MiB are left to others
  CHECK(segment::make(std::size_t{2} << 20U, few));
  const auto full = segment::make((std::size_t{2} << 20U) + 1, few);
  REQUIRE_FALSE(full);
  CHECK(full.error().code() == errc::store_full);
  CHECK_THAT(full.error().message(), Contains("2097152 are available; free memory"));
  CHECK_FALSE(segment::make(1, [] { return std::int64_t{0}; }));
  // A process that may open no file more.
  const int status = in_child([] {
    const rlimit most = {8, 8};
    setrlimit(RLIMIT_NOFILE, &most);
    while (dup(0) >= 0) {
    }
    const auto got = segment::make(4096);
    const bool is_said = !got && got.error().code() == errc::store_full &&
                         got.error().message().find("ulimit -n") != std::string::npos;
    if (!is_said) _exit(1);
  });
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

TEST_CASE("pages are there ahead, any part of them", "[store]") {
  const segment s = made(some);
  s.populate(5000, 100000);
  s.populate(some - 1, some);
  s.populate(some, 1);
  s.populate(some * 2, 1);
  if (madvise(s.bytes().data(), some, 23) != 0) {  // MADV_POPULATE_WRITE
    WARN("not tested: this kernel can't map pages ahead");
    return;
  }
  const segment other = made(some);
  CHECK(mapped_pages(other) == 0);
  other.populate(5000, 4096);
  CHECK(mapped_pages(other) == 2);
  other.populate(0, some);
  CHECK(mapped_pages(other) == some / 4096);
}

TEST_CASE("thousands of segments leave no descriptor and no mapping", "[store]") {
  const auto files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  const auto before = files();
  for (int i = 0; i < 2000; ++i) {
    segment a = made(4096);
    segment_view v = viewed(a);
    segment b = std::move(a);
    b = made(8192);
  }
  CHECK(files() == before);
}

}  // namespace segment_test
