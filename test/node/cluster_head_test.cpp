// SPDX-License-Identifier: Apache-2.0
#include "node/cluster_head.hpp"

#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "node/cluster_mail.hpp"

namespace cluster_head_test {

namespace {

using namespace std::chrono_literals;
namespace base = manta::base;
namespace wire = manta::wire;
using manta::node::cluster_post;
using manta::spec::node_verdict;

using letters = std::deque<std::vector<std::byte>>;

// One end of a connection that loses nothing, in one thread.
class still_link final : public wire::link {
 public:
  still_link(std::shared_ptr<letters> in, std::shared_ptr<letters> out)
      : in_(std::move(in)), out_(std::move(out)) {}

  manta::result<void> send(std::span<const std::span<const std::byte>> pieces,
                           std::size_t /*size*/) override {
    std::vector<std::byte> all;
    for (const auto& piece : pieces) all.insert(all.end(), piece.begin(), piece.end());
    out_->push_back(std::move(all));
    return {};
  }
  got take(wire::frame_buffer& to) override {
    if (in_->empty()) return got::nothing;
    std::memcpy(to.reset(in_->front().size()).data(), in_->front().data(), in_->front().size());
    in_->pop_front();
    return got::message;
  }
  bool wait(std::chrono::nanoseconds /*time*/) override { return !in_->empty(); }
  void on_arrival(std::function<void()> /*tell*/) override {}
  void close() override {}
  wire::link_state state() const override { return {}; }

 private:
  const std::shared_ptr<letters> in_;
  const std::shared_ptr<letters> out_;
};

}  // namespace

// As where a job ends while it starts: who waits for the end would wait out its limit.
TEST_CASE("a head that is dissolved before it has read its rows keeps to that", "[cluster-head]") {
  const auto rows = manta::control::make_memory_store();
  manta::node::cluster_head head({}, {1, 1}, *rows, [] {});
  REQUIRE(head.roll() == nullptr);
  head.dissolve("its work is done");
  REQUIRE(head.roll() == nullptr);
  // Its rows, its epoch, and that this is written, one after the other.
  const base::time_point now{1h};
  for (int turns = 0; turns < 10; ++turns) head.pump(now);
  REQUIRE(head.roll() != nullptr);
  REQUIRE(head.roll()->is_open());
  CHECK(head.roll()->members().empty());
  const auto asked = std::make_shared<letters>();
  const auto told = std::make_shared<letters>();
  still_link member(told, asked);
  cluster_post post({1, 2});
  const manta::life::heartbeat asks{.process = {1, 2}, .who = {.name = "n", .host = "h", .pid = 7}};
  REQUIRE(post.send(member, asks));
  head.accept(std::make_unique<still_link>(asked, told));
  for (int turns = 0; turns < 10; ++turns) head.pump(now);
  wire::frame_buffer frame;
  REQUIRE(member.take(frame) == wire::link::got::message);
  const auto came = post.read(frame.bytes());
  REQUIRE(came);
  const auto* const said = std::get_if<wire::bulletin_view>(&came->body);
  REQUIRE(said != nullptr);
  const auto answer = manta::node::to_bulletin(came->head, *said);
  CHECK(answer.verdict == node_verdict::dissolved);
  CHECK(answer.reason == "its work is done");
}

}  // namespace cluster_head_test
