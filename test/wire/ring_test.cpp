// SPDX-License-Identifier: Apache-2.0
// Rings: what goes in comes out in order, between threads and processes; nonsense is said to be.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "exec/support.hpp"
#include "wire/ring.hpp"

namespace {

using namespace std::chrono_literals;
using manta::errc;
using manta::wire::ring_memory;
using manta::wire::ring_reader;
using manta::wire::ring_writer;
using manta_test::dice;
using got = ring_reader::got;
using bytes = std::vector<std::byte>;

ring_memory made(std::size_t size) {
  auto one = ring_memory::make(size);
  if (!one) FAIL(one.error().message());
  return *std::move(one);
}

bytes random_message(dice& roll, std::size_t size) {
  bytes out(size);
  for (std::byte& one : out) one = static_cast<std::byte>(roll.next());
  return out;
}

bool send(ring_writer& to, const bytes& message) {
  const auto room = to.reserve(message.size());
  if (room.empty()) return false;
  std::ranges::copy(message, room.begin());
  to.publish();
  return true;
}
void send_number(ring_writer& to, std::uint64_t n) {
  const auto room = to.reserve(sizeof n);
  std::memcpy(room.data(), &n, sizeof n);
  to.publish();
  to.bell();
}
got take(ring_reader& from, bytes& to) {
  manta::wire::frame_buffer frame;
  const got is = from.take(frame);
  if (is == got::message) to.assign(frame.bytes().begin(), frame.bytes().end());
  return is;
}
std::uint64_t number_in(const bytes& message) {
  std::uint64_t n = 0;
  if (message.size() == sizeof n) std::memcpy(&n, message.data(), sizeof n);
  return n;
}

}  // namespace

TEST_CASE("a ring is a queue of messages, whatever their sizes", "[wire]") {
  const std::uint64_t seed = manta_test::run_seed();
  CAPTURE(seed);
  dice roll(seed);
  for (const std::size_t size : {std::size_t{4096}, std::size_t{65536}}) {
    const ring_memory memory = made(size);
    ring_writer writer(memory);
    ring_reader reader(memory);
    CHECK(writer.most_bytes() == size / 4);
    std::deque<bytes> model;
    std::size_t model_bytes = 0;  // with their words
    bytes one;
    int full = 0;
    int empty = 0;
    for (int step = 0; step < 20000; ++step) {
      if (roll.below(100) < ((step / 500) % 2 == 0 ? 60U : 40U)) {
        const bytes next = random_message(roll, 1 + roll.below(roll.one_in(3) ? size / 4 : 200));
        const std::size_t takes = (next.size() + 7) / 8 * 8 + 8;
        const bool is_sent = send(writer, next);
        REQUIRE(is_sent == (model_bytes + takes + 8 <= size));
        if (!is_sent) {
          ++full;
          continue;
        }
        model.push_back(next);
        model_bytes += takes;
      } else if (model.empty()) {
        REQUIRE(take(reader, one) == got::nothing);
        ++empty;
      } else {
        REQUIRE(take(reader, one) == got::message);
        REQUIRE(one == model.front());
        model_bytes -= (one.size() + 7) / 8 * 8 + 8;
        model.pop_front();
      }
    }
    CHECK(full > 10);
    CHECK(empty > 10);
  }
}

TEST_CASE("two processes talk through a pair of rings, awake and asleep", "[wire]") {
  const ring_memory there = made(4096);
  const ring_memory back = made(4096);
  constexpr std::uint64_t rounds = 2000;
  const pid_t pid = fork();
  if (pid == 0) {  // says each number again
    auto in = ring_memory::map(dup(there.file()), 4096);
    auto out = ring_memory::map(dup(back.file()), 4096);
    if (!in || !out) _exit(1);
    const ring_memory in_memory = *std::move(in);
    const ring_memory out_memory = *std::move(out);
    ring_reader reader(in_memory);
    ring_writer writer(out_memory);
    bytes one;
    for (std::uint64_t i = 0; i < rounds; ++i) {
      if (!reader.wait(100, 20s) || take(reader, one) != got::message) _exit(2);
      send_number(writer, number_in(one) + 1);
    }
    _exit(0);
  }
  ring_writer writer(there);
  ring_reader reader(back);
  bytes one;
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < rounds && wrong == 0; ++i) {
    send_number(writer, i);
    const int spins = i % 2 == 0 ? 0 : 10000;
    if (!reader.wait(spins, 20s) || take(reader, one) != got::message) ++wrong;
    if (number_in(one) != i + 1) ++wrong;
  }
  CHECK(wrong == 0);
  int status = 0;
  waitpid(pid, &status, 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

// No wake may be missed on either side: a reader that sleeps when it is empty, a writer when full.
TEST_CASE("a writer and a reader that both sleep pass everything on", "[wire]") {
  const ring_memory memory = made(4096);
  const int count = manta_test::is_sanitized ? 20'000 : 200'000;
  std::atomic<int> wrong{0};
  std::thread reads([&] {
    ring_reader reader(memory);
    bytes one;
    for (int i = 0; i < count;) {
      if (!reader.wait(i % 3 == 0 ? 0 : 50, 20s)) {
        ++wrong;
        return;
      }
      for (; take(reader, one) == got::message; ++i) {
        const auto as = static_cast<std::byte>(i);
        if (one.size() != 1U + static_cast<unsigned>(i) % 900 || one.back() != as) ++wrong;
      }
    }
  });
  ring_writer writer(memory);
  for (int i = 0; i < count; ++i) {
    const std::size_t size = 1U + static_cast<unsigned>(i) % 900;
    if (!writer.wait(size, 20s)) {
      ++wrong;
      break;
    }
    const auto room = writer.reserve(size);
    room.back() = static_cast<std::byte>(i);
    writer.publish();
    if (i % 7 == 0 || i == count - 1 || writer.reserve(900).empty()) writer.bell();
  }
  reads.join();
  CHECK(wrong == 0);
}

TEST_CASE("a reader that is patient is woken by the last bell only", "[wire]") {
  const ring_memory memory = made(4096);
  ring_reader reader(memory);
  ring_writer writer(memory);
  const auto& word = reader.sleep_word();
  REQUIRE(reader.announce_sleep(true) == ring_reader::patient);
  send(writer, bytes(8));
  writer.soft_bell();
  CHECK(word == ring_reader::patient);
  writer.bell();
  CHECK(word == 0);
  // Beside one who is not, nobody is.
  REQUIRE(reader.announce_sleep(true) == ring_reader::patient);
  REQUIRE(reader.announce_sleep(false) == ring_reader::asleep);
  REQUIRE(reader.announce_sleep(true) == ring_reader::asleep);
  writer.soft_bell();
  CHECK(word == 0);
}

TEST_CASE("who waits for nothing waits as long as it was told", "[wire]") {
  const ring_memory memory = made(4096);
  ring_reader reader(memory);
  ring_writer writer(memory);
  const auto begin = std::chrono::steady_clock::now();
  CHECK_FALSE(reader.wait(10, 20ms));
  CHECK(std::chrono::steady_clock::now() - begin >= 20ms);
  while (send(writer, bytes(1000))) {
  }
  CHECK_FALSE(writer.wait(1000, 20ms));
  CHECK(writer.wait(8, 20ms));
}

TEST_CASE("a peer that writes nonsense is found out, and does no harm", "[wire]") {
  const std::uint64_t seed = manta_test::run_seed();
  CAPTURE(seed);
  dice roll(seed);
  int broken = 0;
  for (int round = 0; round < 300; ++round) {
    const ring_memory memory = made(4096);
    ring_writer writer(memory);
    ring_reader reader(memory);
    for (int i = 0; i < 3; ++i) send(writer, bytes(1 + roll.below(500)));
    // Any bytes of what both see, the control page, too.
    for (int i = 0; i < 20; ++i) {
      const std::size_t at = roll.below(2) == 0 ? roll.below(2048) : roll.below(64);
      memory.bytes()[at] = static_cast<std::byte>(roll.next());
    }
    memory.control().head.store(roll.next());
    bytes one;
    for (int i = 0; i < 1000; ++i) {
      const got is = take(reader, one);
      if (is == got::message) REQUIRE(one.size() <= 1024);
      if (is == got::nothing) break;
      if (is != got::broken) continue;
      ++broken;
      REQUIRE(take(reader, one) == got::broken);  // for good
      REQUIRE(reader.wait(0, 1s));                // who waits is told
      break;
    }
    for (int i = 0; i < 20; ++i) send(writer, bytes(1 + roll.below(1024)));
  }
  CHECK(broken > 50);
}

TEST_CASE("a ring is made and mapped as it should be, or refused", "[wire]") {
  CHECK(ring_memory::make(0).error().code() == errc::invalid_argument);
  CHECK(ring_memory::make(2048).error().code() == errc::invalid_argument);
  CHECK(ring_memory::make(5000).error().code() == errc::invalid_argument);
  const ring_memory memory = made(8192);
  CHECK(ring_memory::map(dup(memory.file()), 8192));
  CHECK(ring_memory::map(dup(memory.file()), 4096).error().code() == errc::decode_failed);
  CHECK(ring_memory::map(dup(memory.file()), 16384).error().code() == errc::decode_failed);
  CHECK(ring_memory::map(-1, 4096).error().code() == errc::decode_failed);
  CHECK(ring_memory::map(open("/dev/zero", O_RDWR | O_CLOEXEC), 4096).error().code() ==
        errc::decode_failed);
  // Of the right size, which its maker could still change under the reader.
  const int open_ended = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(ftruncate(open_ended, 4096 + 4096) == 0);
  CHECK(ring_memory::map(open_ended, 4096).error().code() == errc::decode_failed);
}
