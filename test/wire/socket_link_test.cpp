// SPDX-License-Identifier: Apache-2.0
#include "wire/socket_link.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "wire/link_support.hpp"
#include "wire/socket_place.hpp"

namespace socket_link_test {
namespace {

using namespace std::chrono_literals;
using manta::errc;
using manta_test::bytes;
using manta_test::end_of;
using manta_test::happens;
using manta_test::link_ptr;
using manta_test::message;
using manta_test::number_of;
using manta_test::raw_socket;
using manta_test::receive;
using manta_test::send;
using manta_test::socket_house;
using manta_test::someone;
namespace wire = manta::wire;

int open_files() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("nothing is left of sockets and their loop", "[wire][link]") {
  manta_test::folder place;
  const int before = open_files();
  std::string path;
  {
    socket_house house;
    path = house.path();
    struct stat is {};
    REQUIRE(stat(std::filesystem::path(path).parent_path().c_str(), &is) == 0);
    CHECK((is.st_mode & 0777U) == 0700U);
    auto [a, b] = house.both();
    REQUIRE(b != nullptr);
    REQUIRE(send(*a, message(3)));
    REQUIRE(receive(*b).has_value());
    CHECK(std::filesystem::exists(path));
    house.close();
    CHECK_FALSE(std::filesystem::exists(path));
    REQUIRE(send(*a, message(4)));  // links stay
    REQUIRE(receive(*b).has_value());
  }
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(open_files() == before);
}

TEST_CASE("who closes is told to the other end", "[wire][link]") {
  socket_house house;
  auto [a, b] = house.both();
  REQUIRE(b != nullptr);
  REQUIRE(send(*a, message(1)));
  REQUIRE(happens([&a = a] { return a->state().waiting_messages == 0; }));
  a.reset();
  CHECK(receive(*b).has_value());  // what had come before
  CHECK(end_of(*b) == errc::node_lost);
  CHECK(send(*b, message(2)).error().code() == errc::node_lost);
}

TEST_CASE("who closes a unix socket with bytes unread has ended, and was not reset",
          "[wire][link]") {
  socket_house house;
  link_ptr b;
  {
    const raw_socket a(house.path());
    a.greet(someone(2));
    b = house.accept();
    REQUIRE(b != nullptr);
    // The greeting that it was sent is unread; so the kernel tells the other end of a reset.
  }
  CHECK(end_of(*b) == errc::node_lost);
  CHECK_FALSE(b->state().was_reset);
}

TEST_CASE("links end with their loop, typed", "[wire][link]") {
  socket_house house;
  auto [a, b] = house.both();
  REQUIRE(b != nullptr);
  house.close();
  house.end_loop();
  CHECK(end_of(*a) == errc::cancelled);
  CHECK(end_of(*b) == errc::cancelled);
}

TEST_CASE("a link whose greeting is not answered ends with its loop", "[wire][link]") {
  socket_house house;
  const auto silent = wire::socket_place::bind(house.path() + "s");
  REQUIRE(silent);
  const auto made = wire::connect(house.loop(), house.path() + "s", someone(2));
  REQUIRE(made);
  int file = -1;
  REQUIRE(happens([&] { return (file = accept4(silent->file(), nullptr, nullptr, 0)) >= 0; }));
  char first = 0;
  CHECK(recv(file, &first, 1, MSG_WAITALL) == 1);  // it greets
  house.end_loop();
  CHECK(end_of(**made) == errc::cancelled);
  close(file);
}

TEST_CASE("a link to nobody ends typed", "[wire][link]") {
  socket_house house;
  const auto made = wire::connect(house.loop(), house.path() + "b", someone(2));
  REQUIRE(made);
  CHECK(end_of(**made) == errc::node_lost);
  const auto refused = wire::connect(house.loop(), std::string(200, 'x'), someone(2));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code() == errc::invalid_argument);
}

TEST_CASE("another cluster and another user are refused", "[wire][link]") {
  socket_house house;
  wire::greeting other = someone(2);
  other.cluster = {8, 8};
  const auto made = wire::connect(house.loop(), house.path(), other);
  REQUIRE(made);
  CHECK(end_of(**made).has_value());
  CHECK(happens([&] { return house.counts().bad_greeting == 1; }));

  wire::socket_settings strange;
  strange.user += 1;
  socket_house guarded(strange);
  const raw_socket us(guarded.path());
  CHECK(us.is_closed());
  CHECK(guarded.counts().other_user == 1);
  const link_ptr checks_too = house.connect(2, strange);
  CHECK(end_of(*checks_too) == errc::unsupported);
}

TEST_CASE("of many that find a dead one's place at once one has it", "[wire][link]") {
  const manta_test::folder in;
  const std::string place = (in.path() / "place").string();
  const int rounds = manta_test::repeats(50, 2000);
  for (int round = 0; round < rounds; ++round) {
    {
      const int dead = socket(AF_UNIX, SOCK_STREAM, 0);
      const auto at = wire::address_of(place);
      REQUIRE(bind(dead, reinterpret_cast<const sockaddr*>(&*at), sizeof *at) == 0);
      close(dead);
    }
    std::vector<std::optional<manta::result<wire::socket_place>>> all(4);
    std::vector<std::thread> racing;
    std::atomic<bool> go = false;
    for (auto& one : all) {
      racing.emplace_back([&] {
        while (!go) {
        }
        one.emplace(wire::socket_place::bind(place));
      });
    }
    go = true;
    for (std::thread& one : racing) one.join();
    CHECK(std::ranges::count_if(all, [](const auto& one) { return one->has_value(); }) == 1);
    CHECK(wire::has_listener(place));
  }
}

TEST_CASE("what the dead have left in a folder goes, unless somebody binds there just now",
          "[wire][link]") {
  const manta_test::folder in;
  const std::string folder = in.path().string();
  for (const char* const name : {"one", "two"}) {
    const int dead = socket(AF_UNIX, SOCK_STREAM, 0);
    const auto at = wire::address_of(folder + "/" + name);
    REQUIRE(bind(dead, reinterpret_cast<const sockaddr*>(&*at), sizeof *at) == 0);
    close(dead);
  }
  const auto alive = wire::socket_place::bind(folder + "/alive");
  REQUIRE(alive);
  std::ofstream(folder + "/file") << "no socket";
  const auto count = [&in] {
    return std::distance(std::filesystem::directory_iterator(in.path()),
                         std::filesystem::directory_iterator());
  };
  const int turn = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(flock(turn, LOCK_EX) == 0);
  wire::remove_dead_sockets(folder);
  CHECK(count() == 4);
  close(turn);
  wire::remove_dead_sockets(folder);
  CHECK(count() == 2);
  CHECK(wire::has_listener(folder + "/alive"));
  CHECK(std::filesystem::exists(folder + "/file"));
  wire::remove_dead_sockets(folder + "/none");
}

TEST_CASE("one listens at a place, and takes what the dead have left", "[wire][link]") {
  socket_house house;
  const auto ignore = [](link_ptr, const wire::greeting&) {};
  const auto second =
      wire::socket_listener::open(house.loop(), {.path = house.path()}, someone(3), ignore);
  REQUIRE_FALSE(second);
  CHECK(second.error().code() == errc::name_taken);

  const std::string left = house.path() + "-left";
  const pid_t child = fork();
  if (child == 0) {
    const int file = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path, left.data(), left.size());
    _exit(bind(file, reinterpret_cast<const sockaddr*>(&at), sizeof at));
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  REQUIRE(std::filesystem::exists(left));
  CHECK(wire::socket_listener::open(house.loop(), {.path = left}, someone(3), ignore));

  const auto folder = std::filesystem::path(house.path()).parent_path();
  const auto refusal_in = [&](mode_t mode) {
    REQUIRE(chmod(folder.c_str(), mode) == 0);
    const auto is = wire::socket_listener::open(house.loop(), {.path = left}, someone(3), ignore);
    REQUIRE_FALSE(is);
    CHECK(is.error().code() == errc::storage_failed);
    return is.error().message();
  };
  CHECK_THAT(refusal_in(0755),
             Catch::Matchers::Contains("the mode 755") && Catch::Matchers::Contains("to 700"));
  CHECK_THAT(refusal_in(01777), Catch::Matchers::Contains("name a folder within it"));  // as /tmp
}

TEST_CASE("a receiver that takes nothing makes its sender wait, then is dropped", "[wire][link]") {
  wire::socket_settings how;
  how.credit_messages = 8;
  how.most_messages = 32;
  how.slow_limit = 2s;  // a machine that stands still before all was sent must not end it
  socket_house house(how);
  auto [a, b] = house.both();
  REQUIRE(b != nullptr);
  std::uint64_t sent = 0;
  std::optional<errc> refused;
  happens([&, &a = a] {
    const auto is = send(*a, message(sent));
    if (is) {
      ++sent;
    } else {
      refused = is.error().code();
    }
    return refused.has_value();
  });
  CHECK(refused == errc::store_full);
  CHECK(sent >= 32);
  CHECK(sent <= 40);  // what lies there and what may wait here
  CHECK(end_of(*a) == errc::timed_out);
  for (std::uint64_t i = 0; i < 8; ++i) {
    const auto got = receive(*b);
    REQUIRE(got.has_value());
    CHECK(number_of(*got) == i);
  }
}

TEST_CASE("a receiver that takes slowly gets all", "[wire][link]") {
  wire::socket_settings how;
  how.credit_messages = 3;
  how.credit_bytes = 100;
  socket_house house(how);
  auto [a, b] = house.both();
  REQUIRE(b != nullptr);
  constexpr std::uint64_t count = 500;
  for (std::uint64_t i = 0; i < count; ++i) REQUIRE(send(*a, message(i, 8 + i % 90)));
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto got = receive(*b);
    REQUIRE(got.has_value());
    REQUIRE(number_of(*got) == i);
  }
}

// The child is forked before there is a thread, and told the place when there is one.
TEST_CASE("a killed process ends its links at once", "[wire][link]") {
  int tell[2] = {-1, -1};
  REQUIRE(pipe2(tell, O_CLOEXEC) == 0);
  const pid_t child = fork();
  if (child == 0) {
    char path[200] = {};
    if (read(tell[0], path, sizeof path - 1) <= 0) _exit(1);
    auto own = wire::loop::start({0ns});
    auto up = wire::connect(**own, path, someone(9));
    for (std::uint64_t i = 0;;) {
      if (send(**up, message(i))) ++i;
    }
  }
  socket_house house;
  const std::string path = house.path();
  REQUIRE(write(tell[1], path.data(), path.size()) == static_cast<ssize_t>(path.size()));
  for (const int file : tell) close(file);
  const link_ptr from = house.accept();
  REQUIRE(from != nullptr);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto got = receive(*from);
    REQUIRE(got.has_value());
    REQUIRE(number_of(*got) == i);
  }
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(kill(child, SIGKILL) == 0);
  CHECK(end_of(*from) == errc::node_lost);
  CHECK(std::chrono::steady_clock::now() - start < 10s);
  waitpid(child, nullptr, 0);
}

TEST_CASE("silent connections are bounded, and honest ones go on", "[wire][link]") {
  wire::socket_settings how;
  how.greeting_limit = 500ms;
  socket_house house(how);
  auto [a, b] = house.both();
  REQUIRE(b != nullptr);
  std::vector<std::unique_ptr<raw_socket>> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(std::make_unique<raw_socket>(house.path()));
  const link_ptr late = house.connect(3);
  const link_ptr other = house.accept();
  REQUIRE(other != nullptr);
  REQUIRE(send(*late, message(1)));
  CHECK(receive(*other).has_value());
  REQUIRE(send(*a, message(2)));
  CHECK(receive(*b).has_value());
  // Bounded by the crowd, and by the limit where the machine has stood still for so long.
  const wire::listener_counts early = house.counts();
  CHECK(early.crowded_out > 0);
  CHECK(early.crowded_out + early.silent >= 200 - wire::socket_listener::most_unknown);
  for (const auto& one : silent) CHECK(one->is_closed());
  const wire::listener_counts counts = house.counts();
  CHECK(counts.silent + counts.crowded_out == 200);
  CHECK(counts.accepted == 2);
}

// Not with UndefinedBehaviorSanitizer, which comes with AddressSanitizer here: it looks whether
// memory is readable by a pipe, and calls all objects broken where there is no descriptor for one.
TEST_CASE("a listener without descriptors goes on when there are some", "[wire][link]") {
  if (manta_test::is_sanitized) return;
  socket_house house;
  auto [a, b] = house.both();
  REQUIRE(b != nullptr);
  // Connected here, which takes a descriptor; accepted when there is one more.
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  std::vector<int> taken;
  const rlimit low{static_cast<rlim_t>(open_files() + 20), before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
  for (;;) {
    const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (file < 0) break;
    taken.push_back(file);
  }
  close(taken.back());
  taken.pop_back();
  const raw_socket late(house.path());
  late.greet(someone(5));
  const bool has_noticed = happens([&] { return house.counts().no_descriptor >= 2; });
  const auto is_sent = send(*a, message(2));
  const auto got = receive(*b);
  for (const int file : taken) close(file);
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(has_noticed);
  CHECK(late.is_connected());
  CHECK(is_sent);
  CHECK(got.has_value());
  CHECK(house.accept() != nullptr);
}

}  // namespace socket_link_test
