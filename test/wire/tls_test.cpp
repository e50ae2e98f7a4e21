// SPDX-License-Identifier: Apache-2.0
#include "wire/tls.hpp"

#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "wire/tls_support.hpp"

namespace tls_test {
namespace {

using Catch::Matchers::Contains;
using manta::errc;
using tls_support::bytes;
using tls_support::bytes_view;
using tls_support::carry;
using tls_support::check_failed;
using tls_support::hear;
using tls_support::identity_ptr;
using tls_support::is_end;
using tls_support::pattern;
using tls_support::read_some;
using tls_support::say;
using tls_support::session;
using tls_support::shake;
using tls_support::side;
using tls_support::someone;
using tls_support::step;
using tls_support::tls_identity;
using tls_support::tls_session;
using tls_support::token;
using tls_support::transfer;
using tls_support::two_ends;
using tls_support::wires;

}  // namespace

TEST_CASE("two processes with one token talk, in pieces of any size", "[wire][tls]") {
  two_ends both;
  both.connected();
  CHECK(both.a->handshake() == step::done);
  std::uint64_t seed = 1;
  for (const std::size_t size : {std::size_t{1}, std::size_t{2}, std::size_t{63}, std::size_t{1000},
                                 std::size_t{16383}, std::size_t{16384}, std::size_t{16385},
                                 std::size_t{32768}, std::size_t{65537}, std::size_t{1} << 20U}) {
    CAPTURE(size);
    carry(*both.a, *both.b, pattern(size, seed++));
    carry(*both.b, *both.a, pattern(size, seed++), 999);
  }
  std::size_t put = 1;
  CHECK(both.a->write({}, put) == step::done);
  CHECK(put == 0);
  CHECK(both.sockets.waiting(1) == 0);
}

TEST_CASE("one identity serves all connections of its process", "[wire][tls]") {
  const identity_ptr mine = someone();
  const identity_ptr other = someone();
  for (int i = 0; i < 3; ++i) {
    two_ends both(mine, other);
    two_ends turned(other, mine);
    two_ends itself(mine, mine);
    for (two_ends* const one : {&both, &turned, &itself}) {
      one->connected();
      carry(*one->a, *one->b, pattern(100, 1));
    }
  }
}

TEST_CASE("threads start sessions of one identity at once", "[wire][tls]") {
  const identity_ptr mine = someone();
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return;
        {
          auto a = tls_session::start(mine, ends[0], side::dialler);
          auto b = tls_session::start(mine, ends[1], side::listener);
          if (a && b && shake(**a, **b) == std::pair(step::done, step::done)) ++good;
        }
        close(ends[0]);
        close(ends[1]);
      }
    });
  }
  for (std::thread& one : threads) one.join();
  CHECK(good == 20);
}

// Buffers of a few KiB: each record goes in parts, and the caller's bytes are elsewhere each time.
TEST_CASE("writes that the socket takes in parts arrive whole, both ways at once", "[wire][tls]") {
  two_ends both(1);
  both.connected();
  const bytes there = pattern(300000, 1);
  const bytes back = pattern(200000, 2);
  transfer one{*both.a, *both.b, there, 5000};
  transfer other{*both.b, *both.a, back, 100};
  bool was_full = false;
  while (!one.is_done() || !other.is_done()) {
    one.turn();
    other.turn();
    was_full = was_full || one.last_write == step::wants_write;
    REQUIRE_FALSE(is_end(one.last_write));
    REQUIRE_FALSE(is_end(other.last_read));
  }
  CHECK(was_full);
  CHECK(one.came == there);
  CHECK(other.came == back);
}

TEST_CASE("a write that finds no room takes nothing, and goes on when there is some",
          "[wire][tls]") {
  two_ends both(1);
  both.connected();
  const bytes all = pattern(1U << 20U, 3);
  std::size_t sent = 0;
  std::size_t put = 0;
  while (both.a->write(bytes_view(all).subspan(sent), put) == step::done) sent += put;
  CHECK(put == 0);
  CHECK(both.a->write(bytes_view(all).subspan(sent), put) == step::wants_write);
  transfer rest{*both.a, *both.b, all, 4096, sent};
  carry(rest);
}

TEST_CASE("a write that has begun may go on with more behind it", "[wire][tls]") {
  two_ends both(1);
  both.connected();
  const bytes all = pattern(100000, 4);
  std::size_t sent = 0;
  std::size_t put = 0;
  // The last record before the socket is full is a short one, in parts or not at all.
  while (both.a->write(bytes_view(all).subspan(sent, 700), put) == step::done) sent += put;
  transfer rest{*both.a, *both.b, all, 4096, sent};
  carry(rest);
}

TEST_CASE("what waits inside is told of when the socket has nothing more", "[wire][tls]") {
  two_ends both;
  both.connected();
  CHECK_FALSE(both.b->has_more());
  // Three records, which one system call brings.
  bytes all;
  for (std::uint64_t i = 0; i < 3; ++i) {
    const bytes some = pattern(50, i);
    std::size_t put = 0;
    REQUIRE(both.a->write(some, put) == step::done);
    all.insert(all.end(), some.begin(), some.end());
  }
  bytes came(10);
  std::size_t got = 0;
  REQUIRE(both.b->read(came, got) == step::done);
  REQUIRE(got == 10);
  CHECK(both.sockets.waiting(1) == 0);
  CHECK(both.b->has_more());
  came.resize(140);
  REQUIRE(both.b->read(std::span(came).first(130), got) == step::done);
  CHECK(got == 130);
  CHECK(both.b->has_more());
  REQUIRE(both.b->read(came, got) == step::done);
  CHECK(got == 10);
  CHECK_FALSE(both.b->has_more());
}

TEST_CASE("a part of a record is nothing that could be read", "[wire][tls]") {
  two_ends both;
  both.connected();
  std::size_t put = 0;
  REQUIRE(both.a->write(pattern(100, 1), put) == step::done);
  const bytes record = hear(both.sockets[1]);
  const std::size_t half = record.size() / 2;
  say(both.sockets[0], bytes_view(record).first(half));
  bytes came;
  CHECK(read_some(*both.b, came) == step::wants_read);
  CHECK_FALSE(both.b->has_more());
  say(both.sockets[0], bytes_view(record).subspan(half));
  CHECK(read_some(*both.b, came) == step::done);
  CHECK(came == pattern(100, 1));
}

TEST_CASE("a closed session says so, behind all that was sent", "[wire][tls]") {
  two_ends both;
  both.connected();
  std::size_t put = 0;
  REQUIRE(both.a->write(pattern(100, 1), put) == step::done);
  both.a->say_close();
  both.a->say_close();
  both.sockets.close_end(0);
  bytes came(1000);
  std::size_t got = 0;
  REQUIRE(both.b->read(came, got) == step::done);
  CHECK(got == 100);
  // The end was heard of with the bytes: the socket may not become readable once more for it.
  CHECK(both.b->has_more());
  CHECK(both.b->read(came, got) == step::closed);
  CHECK(got == 0);
  CHECK(both.b->read(came, got) == step::closed);
}

TEST_CASE("one direction may be closed while the other goes on", "[wire][tls]") {
  two_ends both;
  both.connected();
  both.a->say_close();
  bytes came;
  CHECK(read_some(*both.b, came) == step::closed);
  carry(*both.b, *both.a, pattern(5000, 1));
}

TEST_CASE("a connection that ends without a word is lost, not closed", "[wire][tls]") {
  two_ends both;
  both.connected();
  std::size_t put = 0;
  REQUIRE(both.a->write(pattern(100, 1), put) == step::done);
  both.sockets.close_end(0);
  bytes came;
  CHECK(read_some(*both.b, came) == step::done);
  CHECK(came.size() == 100);
  CHECK(both.b->has_more());
  CHECK(read_some(*both.b, came) == step::failed);
  check_failed(*both.b, errc::node_lost, "has ended the connection without a word");
  CHECK(read_some(*both.b, came) == step::failed);
  CHECK(both.b->write(pattern(1, 1), put) == step::failed);
  CHECK(both.b->handshake() == step::failed);
}

TEST_CASE("a session leaves its socket open, and says nothing when it goes", "[wire][tls]") {
  two_ends both;
  both.connected();
  both.a.reset();
  CHECK(both.sockets.waiting(1) == 0);
  say(both.sockets[0], pattern(1, 1));
  CHECK(both.sockets.waiting(1) == 1);
}

// A ticket would let a peer come back without its certificate.
TEST_CASE("nothing is sent behind a handshake", "[wire][tls]") {
  two_ends both;
  both.connected();
  bytes came;
  CHECK(read_some(*both.a, came) == step::wants_read);
  CHECK(read_some(*both.b, came) == step::wants_read);
  CHECK_FALSE(both.a->has_more());
  CHECK(both.sockets.waiting(0) == 0);
}

TEST_CASE("keys are renewed in the middle of what is sent", "[wire][tls]") {
  two_ends both;
  both.connected();
  const bytes what = pattern(10, 1);
  std::size_t put = 0;
  REQUIRE(both.a->write(what, put) == step::done);
  const int without = both.sockets.waiting(1);
  both.a->renew_keys();
  REQUIRE(both.a->write(what, put) == step::done);
  CHECK(both.sockets.waiting(1) > 2 * without);
  bytes came;
  CHECK(read_some(*both.b, came) == step::done);
  CHECK(came.size() == 20);

  // Where there is no room for them, too.
  two_ends small(1);
  small.connected();
  const bytes much = pattern(200000, 2);
  transfer there{*small.a, *small.b, much, 3000};
  transfer back{*small.b, *small.a, much, 3000};
  int turns = 0;
  while (!there.is_done() || !back.is_done()) {
    if (++turns % 5 == 0) small.a->renew_keys();
    if (turns % 7 == 0) small.b->renew_keys();
    there.turn();
    back.turn();
    REQUIRE_FALSE(is_end(there.last_write));
    REQUIRE_FALSE(is_end(there.last_read));
    REQUIRE_FALSE(is_end(back.last_write));
    REQUIRE_FALSE(is_end(back.last_read));
  }
  CHECK(there.came == much);
  CHECK(back.came == much);
}

namespace {
std::atomic<int> pipe_signals = 0;
}  // namespace

TEST_CASE("no signal comes of a peer that is gone", "[wire][tls]") {
  struct sigaction before {};
  struct sigaction counted {};
  counted.sa_handler = [](int) { ++pipe_signals; };
  REQUIRE(sigaction(SIGPIPE, &counted, &before) == 0);
  pipe_signals = 0;
  {
    two_ends both;
    both.connected();
    both.sockets.close_end(1);
    std::size_t put = 0;
    CHECK(both.a->write(pattern(100000, 1), put) == step::failed);
    check_failed(*both.a, errc::node_lost, "has ended the connection without a word");
    both.a->say_close();
  }
  {
    two_ends both;
    both.connected();
    both.sockets.close_end(1);
    both.a->say_close();
  }
  {
    two_ends both;
    both.sockets.close_end(1);
    CHECK(both.a->handshake() == step::failed);
    check_failed(*both.a, errc::node_lost, "is lost: Broken pipe");
  }
  CHECK(pipe_signals == 0);
  // The test could see one.
  wires sockets;
  sockets.close_end(1);
  CHECK(write(sockets[0], "x", 1) == -1);
  CHECK(pipe_signals == 1);
  REQUIRE(sigaction(SIGPIPE, &before, nullptr) == 0);
}

TEST_CASE("an error that lies in the thread's queue misleads no session", "[wire][tls]") {
  const auto leave_one = [] { ERR_raise(ERR_LIB_SSL, SSL_R_BAD_LENGTH); };
  two_ends both;
  leave_one();
  CHECK(both.a->handshake() == step::wants_read);
  both.connected();
  leave_one();
  bytes came;
  CHECK(read_some(*both.b, came) == step::wants_read);
  const bytes all = pattern(1U << 20U, 3);
  std::size_t sent = 0;
  std::size_t put = 0;
  leave_one();
  while (both.a->write(bytes_view(all).subspan(sent), put) == step::done) sent += put;
  leave_one();
  CHECK(both.a->write(bytes_view(all).subspan(sent), put) == step::wants_write);
  leave_one();
  both.a->say_close();
  CHECK(ERR_peek_error() == 0);
  both.sockets.close_end(0);
  leave_one();
  while (read_some(*both.b, came) == step::done) continue;
  check_failed(*both.b, errc::node_lost, "has ended the connection without a word");
}

TEST_CASE("errors of the user's own OpenSSL are there when an identity was made", "[wire][tls]") {
  ERR_clear_error();
  ERR_raise(ERR_LIB_USER, 78);
  const unsigned long mine = ERR_peek_error();
  CHECK(tls_identity::make(token(1)));
  CHECK(ERR_get_error() == mine);
  CHECK(ERR_get_error() == 0);
}

}  // namespace tls_test
