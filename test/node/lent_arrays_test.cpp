// SPDX-License-Identifier: Apache-2.0
// What a node believes of a worker that speaks of arrays: nothing that it can't check. And that all
// it has for a worker ends once.
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

#include "node/array_home.hpp"
#include "node/lent_arrays.hpp"
#include "node/order_line.hpp"

namespace {

using namespace manta;
using namespace manta::node;
using store::descriptor;

constexpr std::uint64_t worker = 7;
constexpr std::uint64_t bytes = 8192;

/// Both ends of a worker's socket.
struct line {
  line() { REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0); }
  ~line() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  line(const line&) = delete;
  line& operator=(const line&) = delete;
  /// What the worker would read next.
  got_order next(came_order& into) const {
    return receive_order(ends[1], order_way::at_once, into);
  }
  int node() const { return ends[0]; }
  int ends[2] = {-1, -1};
};

config small_store() {
  config c;
  c.workers = 1;
  c.store_bytes = 4 << 20;
  c.store_wait_ms = 0;
  return c;
}

/// Grants the worker room for an array; its segment's name.
std::uint64_t grant(lent_arrays& to) {
  array_home::stored in = array_home::global().store();
  const auto got = in.in->admit_segment(bytes, worker);
  REQUIRE(got.has_value());
  const std::uint64_t key = in.key_of(*got);
  lent_array room;
  room.in = in.in;
  room.granted = *got;
  room.granted_bytes = bytes;
  to.grant(std::move(room), key);
  return key;
}

descriptor copy_of(const descriptor& file) { return descriptor(dup(file.number())); }

spec::reference of_this_node(std::uint64_t key, std::uint64_t n = bytes) {
  spec::reference out;
  out.what = {array_mark | worker, key};
  out.place = {key, 0, n};
  out.kind = spec::reference_kind::array;
  return out;
}

placed_block* block_of(const array<double>& a) {
  return static_cast<placed_block*>(detail::array_access::block(a));
}

std::uint64_t used() { return array_home::global().store_if_made()->measure().live; }
std::uint64_t reserved() { return array_home::global().store_if_made()->measure().reserved; }

}  // namespace

TEST_CASE("an array that a worker made is taken over when all of it is there", "[node][array]") {
  const runtime rt(small_store());
  lent_arrays of(worker);
  const std::uint64_t key = grant(of);
  CHECK(reserved() == bytes);
  CHECK_FALSE(of.has_file_of(of_this_node(key)));
  CHECK(of.receive(of_this_node(key)) == nullptr);  // its descriptor has not come
  auto made = store::segment::make(bytes);
  REQUIRE(made.has_value());
  made->bytes()[5] = std::byte{42};
  CHECK(of.file_came(key, copy_of(made->file())));
  CHECK(of.has_file_of(of_this_node(key)));
  placed_block* const block = of.receive(of_this_node(key));
  REQUIRE(block != nullptr);
  CHECK(block->bytes()[5] == std::byte{42});
  CHECK(used() == bytes);
  placed_block* const again = of.receive(of_this_node(key));
  CHECK(again == block);
  again->drop();
  // The worker dies; who reads it reads on.
  CHECK(of.leave().size() == 1);
  CHECK(used() == bytes);
  CHECK(block->bytes()[5] == std::byte{42});
  block->drop();
  CHECK(used() == 0);
  CHECK(reserved() == 0);
}

TEST_CASE("places and segments that can't be are refused", "[node][array]") {
  const runtime rt(small_store());
  lent_arrays of(worker);
  const std::uint64_t key = grant(of);
  auto made = store::segment::make(bytes);
  REQUIRE(made.has_value());
  auto less = store::segment::make(bytes / 2);
  REQUIRE(less.has_value());
  const descriptor plain(memfd_create("unsealed", MFD_CLOEXEC));
  REQUIRE(ftruncate(plain.number(), bytes) == 0);
  CHECK_FALSE(of.file_came(key, copy_of(less->file())));      // smaller than what was granted
  CHECK_FALSE(of.file_came(key, copy_of(plain)));             // could be made shorter
  CHECK_FALSE(of.file_came(key, descriptor()));               // none
  CHECK_FALSE(of.file_came(key + 1, copy_of(made->file())));  // never granted
  REQUIRE(of.file_came(key, copy_of(made->file())));
  CHECK(of.receive(of_this_node(key, 0)) == nullptr);
  CHECK(of.receive(of_this_node(key, bytes + 1)) == nullptr);
  CHECK(of.receive(of_this_node(key, ~std::uint64_t{0})) == nullptr);
  spec::reference wrong = of_this_node(key);
  wrong.place.at = 64;
  CHECK(of.receive(wrong) == nullptr);
  wrong = of_this_node(key);
  wrong.place.segment = key + 1;
  CHECK(of.receive(wrong) == nullptr);
  wrong = of_this_node(key);
  wrong.what.high = array_mark | (worker + 1);
  CHECK(of.receive(wrong) == nullptr);  // another worker's
  CHECK(used() == 0);
  std::vector<lent_array> ended;
  CHECK_FALSE(of.give_back(of_this_node(key).what, 2, ended));
  CHECK(of.give_back(of_this_node(key).what, 1, ended));
  CHECK_FALSE(of.give_back(of_this_node(key).what, 1, ended));
  CHECK(of.receive(of_this_node(key)) == nullptr);
  ended.clear();
  CHECK(reserved() == 0);
}

TEST_CASE("what a worker was lent is held until it has given all of it back", "[node][array]") {
  const runtime rt(small_store());
  const line socket;
  lent_arrays of(worker);
  array<double> a = make_array(std::vector<double>(1000, 0.5));
  spec::reference named;
  named.kind = spec::reference_kind::array;
  block_of(a)->name(named);
  CHECK(of.receive(named) == nullptr);  // it was not lent yet
  of.lend(named.what, socket.node());
  of.lend(named.what, socket.node());
  came_order came;
  REQUIRE(socket.next(came) == got_order::order);
  CHECK(came.order.what == worker_order::kind::segment);
  CHECK(came.order.number == named.place.segment);
  const auto view = store::segment_view::map(std::move(came.file));
  REQUIRE(view.has_value());
  CHECK(std::memcmp(view->bytes().data() + named.place.at, a.data(), 8000) == 0);
  CHECK(socket.next(came) == got_order::nothing);  // once
  spec::reference elsewhere = named;
  elsewhere.place.at += 64;
  CHECK(of.receive(elsewhere) == nullptr);
  placed_block* const back = of.receive(named);
  REQUIRE(back == block_of(a));
  back->drop();
  a = {};
  CHECK(used() != 0);
  std::vector<lent_array> ended;
  CHECK(of.give_back(named.what, 1, ended));
  CHECK(ended.empty());
  CHECK(of.give_back(named.what, 1, ended));
  CHECK(ended.size() == 1);
  CHECK(used() != 0);
  ended.clear();
  CHECK(used() == 0);
  of.segment_gone(named.place.segment, socket.node());
  REQUIRE(socket.next(came) == got_order::order);
  CHECK(came.order.what == worker_order::kind::drop);
  of.segment_gone(named.place.segment, socket.node());
  CHECK(socket.next(came) == got_order::nothing);
}

TEST_CASE("orders that a full socket has no room for go later, in their order", "[node][array]") {
  const line socket;
  lent_arrays of(worker);
  constexpr std::uint64_t many = 2000;
  for (std::uint64_t i = 1; i <= many; ++i) {
    of.say({worker_order::kind::drop, i, 0}, -1, socket.node(), "why");
  }
  came_order came;
  std::uint64_t next = 1;
  while (next <= many) {
    while (socket.next(came) == got_order::order) {
      REQUIRE(came.order.number == next++);
      REQUIRE(came.text == "why");
    }
    of.flush(socket.node());
  }
  CHECK(socket.next(came) == got_order::nothing);
}

TEST_CASE("what is no order is nothing, and a closed line is one", "[node][array]") {
  line socket;
  came_order came;
  REQUIRE(::send(socket.node(), "x", 1, 0) == 1);
  CHECK(socket.next(came) == got_order::nothing);
  // Descriptors that nobody asked for are closed, however many come.
  const auto open_files = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = open_files();
  const worker_order order{};
  iovec part{const_cast<worker_order*>(&order), sizeof order};
  const std::array<int, 2> files{0, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof files)> room{};
  msghdr two{};
  two.msg_iov = &part;
  two.msg_iovlen = 1;
  two.msg_control = room.data();
  two.msg_controllen = room.size();
  cmsghdr* const head = CMSG_FIRSTHDR(&two);
  *head = {CMSG_LEN(sizeof files), SOL_SOCKET, SCM_RIGHTS};
  std::memcpy(CMSG_DATA(head), files.data(), sizeof files);
  REQUIRE(::sendmsg(socket.node(), &two, 0) > 0);
  CHECK(socket.next(came) == got_order::order);
  came = {};
  CHECK(open_files() == before);
  const std::string text(5000, 't');
  REQUIRE(send_order(socket.node(), {}, order_way::waits, -1, text));
  CHECK(socket.next(came) == got_order::order);
  CHECK(came.text == text.substr(0, 1024));
  CHECK(came.file.number() == -1);
  ::close(std::exchange(socket.ends[0], -1));
  CHECK(socket.next(came) == got_order::closed);
  CHECK_FALSE(send_order(socket.ends[1], {}, order_way::at_once));
}
