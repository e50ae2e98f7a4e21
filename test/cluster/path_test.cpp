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
  explicit far_head(int delay_ms = 0)
      : port_(free_port()),
        driver_({program, "watch"}, here_.with({"MANTA_LISTEN=127.0.0.1:" + port_})) {
    REQUIRE(driver_.says("sees rank-0\n"));
    path_.emplace(static_cast<std::uint16_t>(std::stoi(port_)));
    path_->having().delay_ms = delay_ms;
    path_->having().shreds = delay_ms > 0;
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
  /// The work is done, and the node hears it. Whether it was a member all the time.
  bool ends_with(child& node) {
    kill(driver_.pid(), SIGINT);
    CHECK(driver_.finish().status == 130);
    const outcome o = node.finish();
    UNSCOPED_INFO(o.err);
    return o.status == 0 && count_of(driver_.so_far().out, "sees rank-0\n") == 1;
  }

 private:
  site here_;
  std::string port_;
  child driver_;
  std::optional<proxy> path_;
};

// A head, its node at the other end of the path, and who was a member when that was.
struct far_member {
  explicit far_member(int delay_ms = 0) : head(delay_ms) {}
  far_head head;
  child node{{program, "hello"}, head.of_node()};
  std::vector<std::string> before = when_seen(head);

  static std::vector<std::string> when_seen(far_head& at) {
    REQUIRE(at.driver().says("sees far rank-0\n"));
    const std::vector<std::string> both = at.epochs();
    REQUIRE(both.size() == 2);
    return both;
  }
  std::uint64_t connections() { return head.path().connections(); }
  // Whether so many connections have come to be, and they are its. Who is no member ends instead.
  bool comes_back(std::uint64_t more) {
    REQUIRE(happens([&] { return connections() >= more || !is_there(node.pid()); }));
    return connections() >= more && head.epochs() == before;
  }
};

// The head waits so long for who has lost its connection, and a busy machine may keep either from
// its core for longer: that costs a member now and then, and what is wrong costs each. Answers
// whether one of ten has stayed a member to its end.
template <class Fault>
bool costs_no_member(Fault fault, int delay_ms = 0) {
  for (int tries = 0; tries < 10; ++tries) {
    far_member all(delay_ms);
    if (fault(all) && all.head.ends_with(all.node)) return true;
  }
  return false;
}

// The same fault three times.
template <class Fault>
bool comes_back_thrice(far_member& all, Fault fault) {
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t made = all.connections();
    fault();
    if (!all.comes_back(made + 1)) return false;
  }
  return true;
}

}  // namespace

// Who has lost its connection needs several trips over the path until it is heard again; a head
// that gives everybody as long as a path without delays takes would end this node at the first
// reset.
TEST_CASE("a path that is slow and resets every connection costs no member", "[cluster][network]") {
  const auto resets = [](far_member& all) {
    const std::uint64_t made = all.connections();
    all.head.path().having().lives_ms = 600;
    const bool is_back = all.comes_back(made + 5);
    all.head.path().having().lives_ms = 0;
    return is_back && all.head.epochs() == all.before;
  };
  CHECK(costs_no_member(resets, 30));
}

TEST_CASE("a path that resets connections every moment costs no member", "[cluster][network]") {
  CHECK(costs_no_member([](far_member& all) {
    const std::uint64_t made = all.connections();
    all.head.path().having().lives_ms = 200;
    const bool is_back = all.comes_back(made + 15);
    all.head.path().having().lives_ms = 0;
    return is_back && all.head.epochs() == all.before;
  }));
}

// A machine that is busy may leave a process without a core for longer than its connections take.
TEST_CASE("a process that is not on a core as its connection is reset is no dead one",
          "[cluster][network]") {
  CHECK(costs_no_member([](far_member& all) {
    return comes_back_thrice(all, [&] {
      kill(all.node.pid(), SIGSTOP);
      all.head.path().reset_all();
      std::this_thread::sleep_for(50ms);  // the fault: many times what a way back takes
      kill(all.node.pid(), SIGCONT);
    });
  }));
}

// The node hears the end and makes another connection, though the old one would still carry what it
// says.
TEST_CASE("a connection that is closed in one direction is made anew", "[cluster][network]") {
  if (MANTA_HAS_TSAN != 0) return;  // so slow that a member may not be back in closed_grace
  CHECK(costs_no_member([](far_member& all) {
    return comes_back_thrice(all, [&] { all.head.path().half_close(); });
  }));
}

// The kernel still takes connections; nobody answers them.
TEST_CASE("a door that is shut keeps newcomers out, and costs no member", "[cluster][network]") {
  far_member all;
  far_head& head = all.head;
  head.path().having().shuts = true;
  const outcome late =
      child({program, "hello"}, head.of_node({"MANTA_MEMBER_NAME=late", "MANTA_JOIN_MS=4000"}))
          .finish();
  CHECK(late.status == 2);
  CHECK_THAT(late.err,
             Contains("late is not a member of its cluster yet") && Contains("within 4000 ms"));
  CHECK(head.epochs() == all.before);
  head.path().having().shuts = false;
  child again({program, "hello"}, head.of_node({"MANTA_MEMBER_NAME=late"}));
  CHECK(head.driver().says("sees far late rank-0\n"));
  CHECK(head.ends_with(all.node));
  CHECK(again.finish().status == 0);
}

}  // namespace cluster_path_test
