// SPDX-License-Identifier: Apache-2.0
// What nodes say to each other: two of them in this process, over a unix socket.
#include "node/peers.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "node/peer_node.hpp"
#include "wire/courier.hpp"

namespace manta_test::peers_test {
namespace {

using namespace std::chrono_literals;
using manta::base::id;
using manta::node::peers;
namespace spec = manta::spec;

class ear final : public deaf_ear {
 public:
  // The others that came with it are not there yet.
  void on_joined(peers& by, const spec::node_member& one) override {
    if (by.newest() >= one.epoch) ++known_too_early_;
  }
  struct heard {
    std::uint64_t from = 0;
    std::uint64_t about = 0;
    std::uint64_t number = 0;
    std::size_t size = 0;
    bool is_aligned = false;
  };

  void on_message(peers& /*by*/, std::uint64_t from, const id& about,
                  const peers::kept_message& message) override {
    const auto place = reinterpret_cast<std::uintptr_t>(message.bytes.data());
    const std::lock_guard lock(mutex_);
    all_.push_back(
        {from, about.low, number_of(message.bytes), message.bytes.size(), place % 64 == 0});
  }
  void on_gone(peers& /*by*/, std::uint64_t /*node*/, const std::string& /*why*/) override {
    ++losses_;
  }

  std::vector<heard> all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }
  int losses() const { return losses_.load(); }
  int known_too_early() const { return known_too_early_.load(); }

 private:
  mutable std::mutex mutex_;
  std::vector<heard> all_;
  std::atomic<int> losses_{0};
  std::atomic<int> known_too_early_{0};
};

using node = peer_node<ear>;

std::size_t size_of(std::uint64_t number) {
  if (number % 301 == 0) return 1'500'000;
  if (number % 97 == 0) return 100'000;
  return 8 + number % 300;
}

TEST_CASE("what is said to another node comes there once, in its order, whatever its size",
          "[node]") {
  const folder at;
  node a(1, (at.path() / "a" / "s").string());
  node b(2, (at.path() / "b" / "s").string());
  CHECK(a.others().any(0) == 0);
  a.sees(b);
  b.sees(a);
  const std::uint64_t count = 2000;
  for (std::uint64_t i = 0; i < count; ++i) {
    for (node* const from : {&a, &b}) {
      const bytes what = message(i, size_of(i));
      const std::span<const std::byte> piece(what);
      const id about{peers::task, i + 1};
      REQUIRE(from->others().send_when_room(3 - from->number(), about, {&piece, 1}, what.size()));
    }
  }
  for (node* const to : {&a, &b}) {
    CHECK(happens([&] { return to->hears().all().size() == count; }));
    const std::vector<ear::heard> all = to->hears().all();
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < all.size(); ++i) {
      const ear::heard& one = all[i];
      const bool is = one.from == 3 - to->number() && one.about == i + 1 && one.number == i &&
                      one.size == size_of(i) && one.is_aligned;
      if (!is) ++wrong;
    }
    CHECK(wrong == 0);
    CHECK(happens([&] { return to->others().is_quiet(); }));
    CHECK(to->others().any(7) == 3 - to->number());
    CHECK(to->hears().losses() == 0);
  }
}

// Who is looked for in vain, though a later one is known, counts as one that has ended.
TEST_CASE("a node counts as known when all that it was told of with are", "[node]") {
  const folder at;
  node a(1, (at.path() / "a" / "s").string());
  const std::string nobody = (at.path() / "nobody").string();
  for (std::uint64_t i = 2; i < 40; i += 2) {
    a.sees(std::vector{peer_member(i + 1, nobody), peer_member(i, nobody)});
    CHECK(happens([&] { return a.others().newest() == i + 1; }));
    CHECK((a.others().has(i) && a.others().has(i + 1)));
  }
  CHECK(a.hears().known_too_early() == 0);
  spec::node_member gone = peer_member(50, nobody);
  gone.is = spec::node_state::ended;
  a.sees(gone);
  CHECK(happens([&] { return a.others().newest() == 50; }));
  CHECK_FALSE(a.others().has(50));
  CHECK(a.hears().losses() == 1);
}

TEST_CASE("all places of a machine with many are read", "[node]") {
  std::string text;
  for (int i = 1; i <= 50; ++i)
    text += (i == 1 ? "10.0.0." : " 10.0.0.") + std::to_string(i) + ":7";
  const auto all = manta::node::places_of(text);
  REQUIRE(all.size() == 50);
  CHECK(all.back().text() == "10.0.0.50:7");
}

TEST_CASE("what is longer than a link takes comes in parts, also from who must not wait",
          "[node]") {
  const folder at;
  node a(1, (at.path() / "a" / "s").string());
  node b(2, (at.path() / "b" / "s").string());
  a.sees(b);
  b.sees(a);
  const std::size_t sizes[] = {wire::default_frame_limit + 1000, 100};
  for (std::uint64_t i = 0; i < 2; ++i) {
    const bytes what = message(i, sizes[i]);
    const std::span<const std::byte> piece(what);
    REQUIRE(a.others().send_anyway(2, {peers::task, i + 1}, {&piece, 1}, what.size()));
  }
  CHECK(happens([&] { return b.hears().all().size() == 2; }));
  for (const ear::heard& one : b.hears().all()) CHECK(one.size == sizes[one.about - 1]);
  CHECK(happens([&] { return a.others().is_quiet(); }));
}

TEST_CASE("a request that is no bundle counts as the loss of what its node has", "[node]") {
  const folder at;
  node a(1, (at.path() / "a" / "s").string());
  a.sees(peer_member(2, (at.path() / "nobody").string()));
  const auto loop = *wire::loop::start({});
  struct nobody final : wire::courier::visitor {
    void on_request(const wire::arrival& /*came*/) override {}
    void on_answer(const id& /*request*/, std::span<const std::byte> /*answer*/) override {}
  } ignores;
  wire::courier hostile({.self = {2, 1}, .epoch = 2, .peer = {1, 1}}, ignores);
  wire::greeting self = someone(2);
  self.epoch = 2;
  self.as = wire::guest_kind::peer;
  hostile.attach(*wire::connect(*loop, (at.path() / "a" / "s").string(), self));
  // One message, and half of the head of another one.
  bytes all(64 + 64 + 32);
  const std::uint64_t numbers[] = {peers::task, 5, 64};
  std::memcpy(all.data(), numbers, sizeof numbers);
  const std::span<const std::byte> piece(all);
  REQUIRE(hostile.request({1, 1}, {&piece, 1}, all.size()));
  CHECK(happens([&] { return a.hears().losses() == 1; }));
  CHECK(a.hears().all().size() == 1);
}

}  // namespace
}  // namespace manta_test::peers_test
