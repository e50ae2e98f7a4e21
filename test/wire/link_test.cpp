// SPDX-License-Identifier: Apache-2.0
#include "wire/link.hpp"

#include <atomic>
#include <deque>
#include <thread>

#include <poll.h>

#include "wire/link_support.hpp"

namespace {

using namespace std::chrono_literals;
using manta::errc;
using manta_test::bytes;
using manta_test::dice;
using manta_test::happens;
using manta_test::link_ptr;
using manta_test::message;
using manta_test::number_of;
using manta_test::receive;
using manta_test::run_seed;
using manta_test::scaled;
using manta_test::send;
using manta_test::socket_house;
namespace wire = manta::wire;

// Both ends of a link, of one body or the other.
class both_ends {
 public:
  virtual ~both_ends() = default;
  wire::link& a() { return *a_; }
  wire::link& b() { return *b_; }
  /// What a sent; a ring has no thread, so its sender sends on meanwhile.
  std::optional<bytes> receive_b() {
    wire::frame_buffer frame;
    const bool is_there = happens([&] {
      a_->wait(0ns);
      return b_->take(frame) == wire::link::got::message;
    });
    if (!is_there) return std::nullopt;
    return bytes(frame.bytes().begin(), frame.bytes().end());
  }

 protected:
  link_ptr a_;
  link_ptr b_;
};

class ring_ends final : public both_ends {
 public:
  ring_ends() {
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, life_) == 0);
    a_ = std::make_unique<wire::ring_link>(to_a_, to_b_, life_[0]);
    b_ = std::make_unique<wire::ring_link>(to_b_, to_a_, life_[1]);
  }
  ~ring_ends() override {
    a_.reset();
    b_.reset();
    for (const int file : life_) close(file);
  }

 private:
  wire::ring_memory to_a_{*wire::ring_memory::make(4096)};
  wire::ring_memory to_b_{*wire::ring_memory::make(4096)};
  int life_[2] = {-1, -1};
};

class socket_ends final : public both_ends {
 public:
  socket_ends() {
    std::tie(a_, b_) = house_.both();
    REQUIRE(a_ != nullptr);
    REQUIRE(b_ != nullptr);
  }

 private:
  socket_house house_;
};

std::unique_ptr<both_ends> ends_of(int body) {
  if (body == 0) return std::make_unique<ring_ends>();
  return std::make_unique<socket_ends>();
}

}  // namespace

// Batches, parts and credits could each lose, mix or turn messages around.
TEST_CASE("messages of any size come whole and in order over every body", "[wire][link]") {
  const auto ends = ends_of(GENERATE(0, 1));
  const std::uint64_t seed = run_seed();
  CAPTURE(seed);
  dice roll(seed);
  std::deque<bytes> model;
  for (int step = 0; step < scaled(20000); ++step) {
    if (model.size() < 200 && !roll.one_in(3)) {
      const std::size_t size = roll.one_in(50) ? 1 + roll.below(100'000) : 1 + roll.below(300);
      model.push_back(message(roll.next(), size));
      REQUIRE(send(ends->a(), model.back()));
    } else if (!model.empty()) {
      const auto got = ends->receive_b();
      REQUIRE(got.has_value());
      REQUIRE(*got == model.front());
      model.pop_front();
    }
  }
  for (; !model.empty(); model.pop_front()) REQUIRE(ends->receive_b() == model.front());
  wire::frame_buffer none;
  CHECK(ends->b().take(none) == wire::link::got::nothing);
  CHECK(happens([&] { return ends->a().state().waiting_bytes == 0; }));
}

TEST_CASE("a message of many MiB travels over every body", "[wire][link]") {
  const auto ends = ends_of(GENERATE(0, 1));
  bytes large(40U << 20U);
  for (std::size_t i = 0; i < large.size(); i += 4096) large[i] = std::byte(i / 4096);
  REQUIRE(send(ends->a(), large));
  const std::optional<bytes> got = ends->receive_b();
  REQUIRE(got.has_value());
  CHECK(*got == large);
  CHECK_FALSE(send(ends->a(), bytes(wire::default_frame_limit + 1)));
  CHECK(send(ends->a(), bytes()).error().code() == errc::invalid_argument);
}

TEST_CASE("two threads send over one link, each in its order", "[wire][link]") {
  const auto ends = ends_of(GENERATE(0, 1));
  const auto each = static_cast<std::uint64_t>(scaled(20000));
  std::atomic<bool> is_wrong{false};
  const auto sender = [&](std::uint64_t who) {
    for (std::uint64_t i = 0; i < each; ++i) {
      if (!send(ends->a(), message(who << 32U | i))) is_wrong = true;
    }
  };
  std::thread one(sender, 1);
  std::thread two(sender, 2);
  std::uint64_t next[3] = {};
  bool is_ordered = true;
  for (std::uint64_t i = 0; i < 2 * each && is_ordered; ++i) {
    const auto got = ends->receive_b();
    const std::uint64_t number = got.has_value() ? number_of(*got) : 0;
    is_ordered = got.has_value() && (number & 0xffffffffU) == next[number >> 32U]++;
  }
  one.join();
  two.join();
  CHECK(is_ordered);
  CHECK_FALSE(is_wrong);
}

TEST_CASE("both ways at once and full, a link goes on", "[wire][link]") {
  const auto ends = ends_of(GENERATE(0, 1));
  const int count = scaled(3000);
  std::atomic<int> right{0};
  const auto end = [&](wire::link& mine) {
    for (int i = 0; i < count; ++i) {
      if (!send(mine, message(static_cast<std::uint64_t>(i), 2000))) return;
    }
    for (int i = 0; i < count; ++i) {
      const auto got = receive(mine);
      if (!got || number_of(*got) != static_cast<std::uint64_t>(i)) return;
    }
    ++right;
    happens([&] {  // what a ring has kept
      mine.wait(0ns);
      return mine.state().waiting_bytes == 0;
    });
  };
  std::thread other([&] { end(ends->b()); });
  end(ends->a());
  other.join();
  CHECK(right == 2);
}

TEST_CASE("what is told of arrivals may answer at once", "[wire][link]") {
  const auto ends = ends_of(GENERATE(0, 1));
  wire::link& echo = ends->b();
  echo.on_arrival([&] {
    wire::frame_buffer frame;
    while (echo.take(frame) == wire::link::got::message) {
      const std::span<const std::byte> piece = frame.bytes();
      (void)echo.send({&piece, 1}, piece.size());
    }
  });
  std::atomic<bool> is_over{false};
  std::thread waiter([&] {
    while (!is_over) echo.wait(1ms);
  });
  bool is_right = true;
  for (std::uint64_t i = 0; i < 500 && is_right; ++i) {
    REQUIRE(send(ends->a(), message(i)));
    const auto got = receive(ends->a());
    is_right = got.has_value() && number_of(*got) == i;
  }
  is_over = true;
  waiter.join();
  CHECK(is_right);
  echo.on_arrival(nullptr);
}

TEST_CASE("a closed link refuses with its reason", "[wire][link]") {
  const auto ends = ends_of(GENERATE(0, 1));
  ends->a().close();
  CHECK(send(ends->a(), message(1)).error().code() == errc::cancelled);
  wire::frame_buffer none;
  CHECK(ends->a().take(none) == wire::link::got::ended);
  CHECK(ends->a().wait(0ns));
}
