// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <manta/base/sanitizers.hpp>

#include "bulk/bulk_support.hpp"
#include "bulk/message.hpp"

// Sockets that speak for no honest end.

namespace bulk_hostile_peer_test {

namespace {

using namespace bulk_support;

class raw_socket {
 public:
  explicit raw_socket(const bulk::place_of_holder& to)
      : file_(socket(to.at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (connect(file_, reinterpret_cast<const sockaddr*>(&to.at), to.size) != 0) FAIL("no socket");
    const timeval limit{30, 0};
    setsockopt(file_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  raw_socket(const raw_socket&) = delete;
  raw_socket& operator=(const raw_socket&) = delete;
  ~raw_socket() { close(file_); }
  void say(std::span<const std::byte> what) const {
    static_cast<void>(send(file_, what.data(), what.size(), MSG_NOSIGNAL));
  }
  // All that comes until it is closed; nothing: it is not.
  std::optional<bytes> hear_end() const {
    bytes out;
    std::array<std::byte, 4096> some{};
    for (;;) {
      const ssize_t came = recv(file_, some.data(), some.size(), 0);
      if (came == 0 || (came < 0 && errno == ECONNRESET)) return out;
      if (came < 0) return std::nullopt;
      out.insert(out.end(), some.begin(), some.begin() + came);
    }
  }
  bool hear(std::span<std::byte> to) const {
    return recv(file_, to.data(), to.size(), MSG_WAITALL) == static_cast<ssize_t>(to.size());
  }

 private:
  int file_;
};

bytes hello() {
  const std::array<std::byte, bulk::nonce_bytes> nonce{};
  const bulk::hello_block one = bulk::write_hello({}, nonce);
  return {one.begin(), one.end()};
}
bytes with_hello(std::span<const std::byte> more) {
  bytes out = hello();
  out.insert(out.end(), more.begin(), more.end());
  return out;
}
void still_serves(house& from, house& to) {
  bytes got(100);
  REQUIRE_FALSE(to.fetch(5, got, {from.as_holder()}).has_value());
  CHECK((got == random_bytes(100, 1)));
}

}  // namespace

TEST_CASE("bytes that are no hello, proof or request end their connection alone", "[bulk]") {
  for (const path_kind of : {path_kind::unix_socket, path_kind::tcp}) {
    house from(of);
    house to(of);
    from.have.put({0, 5}, random_bytes(100, 1));
    still_serves(from, to);
    const int asked = from.have.asked;
    std::vector<bytes> said{random_bytes(200, 7), with_hello(random_bytes(200, 8)),
                            with_hello(bulk::write_request({{0, 5}, 0, 0xffffffffU})),
                            with_hello(bulk::write_request({{0, 5}, ~0ULL, 100}))};
    if (of == path_kind::tcp) said.push_back(with_hello(bulk::write_request({{0, 5}, 0, 1})));
    for (const bytes& one : said) {
      const raw_socket peer(from.place());
      peer.say(one);
      const auto heard = peer.hear_end();
      REQUIRE(heard.has_value());
      CHECK(heard->size() <= bulk::hello_bytes);
      still_serves(from, to);
    }
    CHECK(from.have.asked == asked + static_cast<int>(said.size()));
  }
}

TEST_CASE("random requests get bytes that are there or nothing", "[bulk]") {
  house from(path_kind::unix_socket);
  house to(path_kind::unix_socket);
  from.have.put({0, 5}, random_bytes(100, 1));
  dice random(manta_test::run_seed());
  for (int i = 0; i < manta_test::repeats(50, 1000); ++i) {
    const raw_socket peer(from.place());
    const std::uint64_t at = random.below(200);
    const auto size = static_cast<std::uint32_t>(1 + random.below(200));
    peer.say(with_hello(bulk::write_request({{0, 4 + random.below(3)}, at, size})));
    bulk::hello_block greeted{};
    bulk::answer_block head{};
    REQUIRE(peer.hear(greeted));
    REQUIRE(peer.hear(head));
    const auto said = bulk::read_answer(head);
    REQUIRE(said.has_value());
    if (said->is == bulk::answer_status::here) REQUIRE(at + size <= 100);
  }
  still_serves(from, to);
}

TEST_CASE("who says nothing keeps nobody out and is closed", "[bulk]") {
  house from(path_kind::tcp, 1, [](bulk::station_settings& with) {
    with.greeting_limit = std::chrono::milliseconds(300);
  });
  house to(path_kind::tcp);
  from.have.put({0, 5}, random_bytes(100, 1));
  std::vector<std::unique_ptr<raw_socket>> silent;
  for (int i = 0; i < 80; ++i) silent.push_back(std::make_unique<raw_socket>(from.place()));
  still_serves(from, to);
  CHECK(from.is->counts().served_now <= 64 + 2);
  for (const auto& one : silent) CHECK(one->hear_end().has_value());
}

TEST_CASE("an answer that was not asked for ends the connection and then the fetch", "[bulk]") {
  manta_test::folder at;
  const auto place = *wire::socket_place::bind((at.path() / "p").string());
  std::atomic<bool> ends{false};
  dice random(manta_test::run_seed());
  std::thread liar([&] {
    for (int i = 0; !ends.load(); ++i) {
      pollfd one{place.file(), POLLIN, 0};
      if (poll(&one, 1, 10) <= 0) continue;
      const int peer = accept4(place.file(), nullptr, nullptr, SOCK_CLOEXEC);
      bytes said = with_hello(bulk::write_answer(
          {bulk::answer_status::here, i % 2 == 0 ? 0U : 99U, bulk::most_chunk_bytes}));
      if (i % 3 == 0) said = with_hello(random_bytes(100, random.next()));
      static_cast<void>(send(peer, said.data(), said.size(), MSG_NOSIGNAL));
      shutdown(peer, SHUT_WR);
      std::array<std::byte, 100> some{};
      while (recv(peer, some.data(), some.size(), 0) > 0) continue;
      close(peer);
    }
  });
  house to(path_kind::unix_socket);
  bytes got(100);
  const auto why = to.fetch(5, got, {{1, {}, {place_of(wire::socket_address::of(place.file()))}}});
  ends.store(true);
  liar.join();
  REQUIRE(why.has_value());
  CHECK(why->code() == errc::node_lost);
  CHECK((got == bytes(100)));
}

TEST_CASE("a process without descriptors accepts when it has some again", "[bulk]") {
  // UBSan asks the kernel by a pipe what lies at an address, and takes no answer for a wrong one.
  if (MANTA_HAS_ASAN != 0) return;
  house from(path_kind::unix_socket);
  from.have.put({0, 5}, random_bytes(100, 1));
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  bytes said = hello();
  const bulk::request_block asked = bulk::write_request({{0, 5}, 0, 100});
  said.insert(said.end(), asked.begin(), asked.end());
  const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::vector<int> filled;
  const rlimit few{64, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  for (int one = dup(file); one >= 0; one = dup(file)) filled.push_back(one);
  const bulk::place_of_holder to = from.place();
  const bool is_connected = connect(file, reinterpret_cast<const sockaddr*>(&to.at), to.size) == 0;
  pollfd one{file, POLLIN, 0};
  const int early = poll(&one, 1, 200);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  for (const int other : filled) close(other);
  CHECK(is_connected);
  CHECK(early == 0);
  static_cast<void>(send(file, said.data(), said.size(), MSG_NOSIGNAL));
  bytes all(bulk::hello_bytes + bulk::answer_bytes + 100 + bulk::sum_bytes);
  CHECK(recv(file, all.data(), all.size(), MSG_WAITALL) == static_cast<ssize_t>(all.size()));
  close(file);
}

}  // namespace bulk_hostile_peer_test
