// SPDX-License-Identifier: Apache-2.0
// What a bad path between a node and its head costs. One that shreds, delays and stalls:
// network_test.cpp.
#include "cluster/proxy.hpp"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "cluster/support.hpp"

namespace cluster_path_test {

namespace {

using namespace std::chrono_literals;
using namespace cluster_test;  // NOLINT: the words of this folder
using Catch::Matchers::Contains;

// A driver that listens, and a path to it. What the driver sees of a node is in its output.
class far_head {
 public:
  far_head()
      : port_(free_port()),
        driver_({program, "watch"}, here_.with({"MANTA_LISTEN=127.0.0.1:" + port_})) {
    REQUIRE(driver_.says("sees rank-0\n"));
    path_.emplace(static_cast<std::uint16_t>(std::stoi(port_)));
  }

  proxy& path() { return *path_; }
  child& driver() { return driver_; }
  variables of_node(const variables& more = {}) const {
    variables out{"MANTA_ADDRESS=" + path_->address(), "MANTA_MEMBER_NAME=far"};
    out.insert(out.end(), more.begin(), more.end());
    return here_.with(out);
  }
  /// Of all members, with their names, as the head has them.
  std::vector<std::string> epochs() const {
    std::vector<std::string> out;
    const std::string said =
        here_.run({tool, "nodes", "--json", "--address", "127.0.0.1:" + port_}).out;
    std::istringstream lines(said);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t at = line.find("\"epoch\":");
      REQUIRE(at != std::string::npos);
      out.push_back(line.substr(0, line.find(',')) + line.substr(at, line.find(',', at) - at));
    }
    return out;
  }
  /// The work is done, and the node hears it.
  void end(child& node) {
    kill(driver_.pid(), SIGINT);
    CHECK(driver_.finish().status == 130);
    const outcome o = node.finish();
    CAPTURE(o.err);
    CHECK(o.status == 0);
  }
  bool has_lost_it() const { return count_of(driver_.so_far().out, "sees rank-0\n") > 1; }

 private:
  site here_;
  std::string port_;
  child driver_;
  std::optional<proxy> path_;
};

// A head, its node at the other end of the path, and who was a member when that was.
struct far_member {
  far_head head;
  child node{{program, "hello"}, head.of_node()};
  std::vector<std::string> before = when_seen(head);

  static std::vector<std::string> when_seen(far_head& at) {
    REQUIRE(at.driver().says("sees far rank-0\n"));
    return at.epochs();
  }
};

}  // namespace

// Who has lost its connection needs several trips over the path until it is heard again; a head
// that gives everybody as long as a path without delays takes would end this node at the first
// reset.
TEST_CASE("a path that is slow and resets every connection costs no member", "[cluster][network]") {
  far_head head;
  head.path().having().delay_ms = 30;
  head.path().having().shreds = true;
  child node({program, "hello"}, head.of_node());
  REQUIRE(head.driver().says("sees far rank-0\n"));
  const auto before = head.epochs();
  REQUIRE(before.size() == 2);
  const std::uint64_t made = head.path().connections();
  head.path().having().lives_ms = 600;
  CHECK(happens([&] { return head.path().connections() >= made + 5; }));
  head.path().having().lives_ms = 0;
  CHECK(head.epochs() == before);
  head.end(node);
  CHECK_FALSE(head.has_lost_it());
}

TEST_CASE("a path that resets connections every moment costs no member", "[cluster][network]") {
  far_member all;
  far_head& head = all.head;
  const std::uint64_t made = head.path().connections();
  head.path().having().lives_ms = 200;
  CHECK(happens([&] { return head.path().connections() >= made + 15; }));
  head.path().having().lives_ms = 0;
  CHECK(head.epochs() == all.before);
  head.end(all.node);
  CHECK_FALSE(head.has_lost_it());
}

// A machine that is busy may leave a process without a core for longer than its connections take.
TEST_CASE("a process that is not on a core as its connection is reset is no dead one",
          "[cluster][network]") {
  far_member all;
  far_head& head = all.head;
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t made = head.path().connections();
    kill(all.node.pid(), SIGSTOP);
    head.path().reset_all();
    std::this_thread::sleep_for(150ms);  // the fault: many times what a way back takes
    kill(all.node.pid(), SIGCONT);
    CHECK(happens([&] { return head.path().connections() > made; }));
    CHECK(head.epochs() == all.before);
  }
  head.end(all.node);
  CHECK_FALSE(head.has_lost_it());
}

// The node hears the end and makes another connection, though the old one would still carry what it
// says.
TEST_CASE("a connection that is closed in one direction is made anew", "[cluster][network]") {
  if (MANTA_HAS_TSAN != 0) return;  // so slow that a member may not be back in closed_grace
  far_member all;
  far_head& head = all.head;
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t made = head.path().connections();
    head.path().half_close();
    CHECK(happens([&] { return head.path().connections() > made; }));
    CHECK(head.epochs() == all.before);
  }
  head.end(all.node);
  CHECK_FALSE(head.has_lost_it());
}

// The kernel still takes connections; nobody answers them.
TEST_CASE("a door that is shut keeps newcomers out, and costs no member", "[cluster][network]") {
  far_member all;
  far_head& head = all.head;
  head.path().having().shuts = true;
  const outcome late =
      child({program, "hello"}, head.of_node({"MANTA_MEMBER_NAME=late", "MANTA_JOIN_MS=1500"}))
          .finish();
  CHECK(late.status == 2);
  CHECK_THAT(late.err,
             Contains("late is not a member of its cluster yet") && Contains("within 1500 ms"));
  CHECK(head.epochs() == all.before);
  head.path().having().shuts = false;
  child again({program, "hello"}, head.of_node({"MANTA_MEMBER_NAME=late"}));
  CHECK(head.driver().says("sees far late rank-0\n"));
  head.end(all.node);
  CHECK(again.finish().status == 0);
  CHECK_FALSE(head.has_lost_it());
}

}  // namespace cluster_path_test
