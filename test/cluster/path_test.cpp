// SPDX-License-Identifier: Apache-2.0
// What a bad path between a node and its head costs. One that shreds, delays and stalls:
// network_test.cpp.
#include "cluster/proxy.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

#include "cluster/support.hpp"
#include "life/membership.hpp"

namespace cluster_path_test {

namespace {

using namespace std::chrono_literals;
using namespace cluster_test;  // NOLINT: the words of this folder
using Catch::Matchers::Contains;

// No case here is about a node that says nothing.
const std::string never_silent = "MANTA_DEAD_AFTER_MS=15000";

// A driver that listens, and a path to it. What the driver sees of a node is in its output.
class far_head {
 public:
  explicit far_head(int delay_ms = 0)
      : port_(free_port()),
        driver_({program, "watch"}, here_.with({"MANTA_LISTEN=127.0.0.1:" + port_, never_silent})) {
    REQUIRE(driver_.says("sees rank-0\n"));
    path_.emplace(static_cast<std::uint16_t>(std::stoi(port_)));
    path_->having().delay_ms = delay_ms;
    path_->having().shreds = delay_ms > 0;
  }

  proxy& path() { return *path_; }
  child& driver() { return driver_; }
  variables of_node(const variables& more = {}) const {
    variables out{"MANTA_ADDRESS=" + path_->address(), "MANTA_MEMBER_NAME=far", never_silent};
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
  /// The work is done, which its nodes hear. Whether none of them was lost before.
  bool ends() {
    kill(driver_.pid(), SIGINT);
    const outcome o = driver_.finish();
    UNSCOPED_INFO(o.err);
    CHECK(o.status == 130);
    return count_of(o.out, "sees rank-0\n") == 1;
  }

 private:
  site here_;
  std::string port_;
  child driver_;
  std::optional<proxy> path_;
};

// For how long threads of these processes were ready to run and had no core, since this was made,
// as the kernel counts it. A process has to be looked at while it lives.
class core_waits {
 public:
  explicit core_waits(std::vector<pid_t> of) : of_(std::move(of)) {
    look();
    before_ = all();
  }
  void look() {
    for (const pid_t one : of_) {
      std::error_code gone;
      const std::filesystem::path threads = "/proc/" + std::to_string(one) + "/task";
      for (const auto& thread : std::filesystem::directory_iterator(threads, gone)) {
        // Who looks does nothing else.
        if (thread.path().filename() == std::to_string(gettid())) continue;
        std::ifstream file(thread.path() / "schedstat");
        std::uint64_t ran = 0;
        std::uint64_t waited = 0;
        if (file >> ran >> waited) waited_[thread.path()] = waited;
      }
    }
  }
  /// As of the last look. No number: this kernel doesn't count.
  std::optional<std::chrono::nanoseconds> since() const {
    if (waited_.empty()) return std::nullopt;
    return all() - before_;
  }

 private:
  std::chrono::nanoseconds all() const {
    std::chrono::nanoseconds out = stolen();
    for (const auto& [thread, waited] : waited_) out += std::chrono::nanoseconds(waited);
    return out;
  }
  // What the machine itself has had no core for, where it is one of several in another.
  static std::chrono::nanoseconds stolen() {
    std::ifstream file("/proc/stat");
    std::string word;
    for (int i = 0; i < 8; ++i) file >> word;
    std::int64_t ticks = 0;
    file >> ticks;
    return std::chrono::nanoseconds(1s) * ticks / sysconf(_SC_CLK_TCK);
  }

  const std::vector<pid_t> of_;
  std::map<std::filesystem::path, std::uint64_t> waited_;  // by thread, nanoseconds
  std::chrono::nanoseconds before_{};
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
  // This process has the path.
  core_waits waits{{node.pid(), head.driver().pid(), getpid()}};

  std::uint64_t connections() { return head.path().connections(); }
  // Whether so many connections have come to be, and they are its. Who is no member ends instead.
  bool comes_back(std::uint64_t more) {
    REQUIRE(happens([&] {
      std::this_thread::sleep_for(1ms);  // a poll: those that it waits for need the cores
      waits.look();
      return connections() >= more || !is_there(node.pid());
    }));
    return connections() >= more && head.epochs() == before;
  }
};

// The head waits so long for who has lost its connection, and a busy machine may keep it, the node
// or the path from a core for longer: that costs a member now and then, and is tried anew. What
// else could cost one is not to hide behind that:
// - A node or a head that crashes, hangs, is refused or taken for another one: who is lost has been
//   given up for its closed connection, and ends in order.
// - What goes wrong now and then by itself: the three have waited for cores for half of the head's
//   time at least. Of ten members three may be lost without; a kernel does not count all that holds
//   a process up.
// - What costs each one, on a busy machine, too: one of the ten stays a member to its end.
struct path_fault {
  int delay_ms = 0;
  std::chrono::nanoseconds head_waits{};
};

const std::chrono::nanoseconds for_reset = manta::life::membership_settings().reset_grace;
const std::chrono::nanoseconds for_end = manta::life::membership_settings().closed_grace;

enum class fate { stayed, starved, lost };

template <class Fault>
fate fate_of_member(const path_fault& with, Fault fault) {
  far_member all(with.delay_ms);
  const bool is_back = fault(all);
  // Who was given up hears so, and ends before its head does.
  if (!is_back) all.node.finish();
  const bool has_stayed = all.head.ends() && is_back;
  const outcome o = is_back ? all.node.finish() : all.node.so_far();
  if (has_stayed && o.status == 0) return fate::stayed;
  const auto waited = all.waits.since();
  CAPTURE(is_back, o.err, waited.value_or(0ns).count());
  CHECK(o.status == 1);
  CHECK_THAT(o.err, Contains("no member of its cluster any more (its connection was closed)"));
  const bool is_excused = !waited.has_value() || *waited >= with.head_waits / 2;
  if (!is_excused) WARN("lost after it and its head had waited for cores for " << waited->count());
  return is_excused ? fate::starved : fate::lost;
}

template <class Fault>
void costs_no_member(const path_fault& with, Fault fault) {
  int lost = 0;
  for (int tries = 0; tries < 10 && lost <= 3; ++tries) {
    const fate is = fate_of_member(with, fault);
    if (is == fate::stayed) return;
    if (is == fate::lost) ++lost;
  }
  FAIL("a member was lost each time, " << lost << " times on a machine that had cores for it");
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
  costs_no_member({.delay_ms = 30, .head_waits = for_reset}, resets);
}

TEST_CASE("a path that resets connections every moment costs no member", "[cluster][network]") {
  costs_no_member({.head_waits = for_reset}, [](far_member& all) {
    const std::uint64_t made = all.connections();
    all.head.path().having().lives_ms = 200;
    const bool is_back = all.comes_back(made + 15);
    all.head.path().having().lives_ms = 0;
    return is_back && all.head.epochs() == all.before;
  });
}

// A machine that is busy may leave a process without a core for longer than its connections take.
TEST_CASE("a process that is not on a core as its connection is reset is no dead one",
          "[cluster][network]") {
  costs_no_member({.head_waits = for_reset}, [](far_member& all) {
    return comes_back_thrice(all, [&] {
      kill(all.node.pid(), SIGSTOP);
      all.head.path().reset_all();
      std::this_thread::sleep_for(50ms);  // the fault: many times what a way back takes
      kill(all.node.pid(), SIGCONT);
    });
  });
}

// The node hears the end and makes another connection, though the old one would still carry what it
// says.
TEST_CASE("a connection that is closed in one direction is made anew", "[cluster][network]") {
  if (MANTA_HAS_TSAN != 0) return;  // so slow that a member may not be back in closed_grace
  costs_no_member({.head_waits = for_end}, [](far_member& all) {
    return comes_back_thrice(all, [&] { all.head.path().half_close(); });
  });
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
  CHECK(head.ends());
  CHECK(all.node.finish().status == 0);
  CHECK(again.finish().status == 0);
}

}  // namespace cluster_path_test
