// SPDX-License-Identifier: Apache-2.0
// Clusters over several machines, as far as one can be several: nodes with networks of their own,
// links that are cut and healed, and somebody who listens on the wire.
#include "cluster/network.hpp"
#include "cluster/proxy.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cluster_network_test {

namespace {

using namespace std::chrono_literals;
using namespace cluster_test;  // NOLINT: the words of this folder
using Catch::Matchers::Contains;

const std::string port = ":7400";
const std::string token_text = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

std::string head_address() { return network::address(0) + port; }

// The variables of rank `rank` of `size`, each in a network of its own.
variables ranked(int rank, int size, const variables& more = {}) {
  variables out{"MANTA_RANK=" + std::to_string(rank), "MANTA_WORLD_SIZE=" + std::to_string(size),
                "MANTA_ADDRESS=" + head_address()};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

// A token that all have, so that one can look for it.
variables with_token(const site& at) {
  const std::string path = at.path() + "/token";
  std::ofstream(path) << token_text << "\n";
  chmod(path.c_str(), 0600);
  return {"MANTA_TOKEN_FILE=" + path};
}

std::string token_bytes() {
  std::string out;
  for (std::size_t i = 0; i < token_text.size(); i += 2) {
    out += static_cast<char>(std::stoi(token_text.substr(i, 2), nullptr, 16));
  }
  return out;
}

// All that goes over the bridge while it lives; test/cluster/listener.cpp.
class listener {
 public:
  listener(const network& in, const site& at)
      : path_(at.path() + "/heard"),
        process_(in.in_router({MANTA_LISTENER_PROGRAM, "br0", path_}), at.with()) {
    if (!process_.says("listening")) FAIL("nobody can listen on the bridge");
  }
  std::string heard() {
    kill(process_.pid(), SIGTERM);
    process_.finish();
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
  child process_;
};

#ifdef MANTA_CLOCK_LIBRARY
// The clock of all programs that have its variables: clock.cpp.
class set_clock {
 public:
  explicit set_clock(const site& at) : path_(at.path() + "/clock") { set(0h); }
  void set(std::chrono::hours by) const {
    const std::int64_t seconds = std::chrono::seconds(by).count();
    const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(pwrite(file, &seconds, sizeof seconds, 0) == sizeof seconds);
    close(file);
  }
  std::vector<std::string> variables() const {
    // Who is kept from its core for some seconds is no dead one; one whose clock is an hour ahead
    // would be.
    return {"MANTA_TEST_CLOCK=" + path_, "LD_PRELOAD=" MANTA_CLOCK_LIBRARY,
            "MANTA_DEAD_AFTER_MS=10000"};
  }

 private:
  std::string path_;
};
#endif

}  // namespace

TEST_CASE("three machines are one cluster, and its end is the end of all", "[cluster][network]") {
  const site here;
  const network lan(3);
  child second(lan.in(1, {program, "hello"}), here.with(ranked(1, 3)));
  child third(lan.in(2, {program, "hello"}), here.with(ranked(2, 3)));
  const outcome o = child(lan.in(0, {program, "hello"}), here.with(ranked(0, 3))).finish();
  CAPTURE(o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains("rank 0 of 3,") && Contains(": rank-0 rank-1 rank-2; task 42"));
  CHECK(second.finish().status == 0);
  CHECK(third.finish().status == 0);
}

TEST_CASE("machines that share a folder find each other without an address", "[cluster][network]") {
  const site here;
  const network lan(2);
  const variables all{"MANTA_WORLD_SIZE=2", "MANTA_JOB=shared", "MANTA_RENDEZVOUS=" + here.path()};
  const auto with_rank = [&](int rank) {
    variables out = all;
    out.push_back("MANTA_RANK=" + std::to_string(rank));
    return here.with(out);
  };
  child second(lan.in(1, {program, "hello"}), with_rank(1));
  const outcome o = child(lan.in(0, {program, "hello"}), with_rank(0)).finish();
  CAPTURE(o.err);
  CHECK(o.status == 0);
  CHECK_THAT(o.out, Contains(": rank-0 rank-1; task 42"));
  CHECK(second.finish().status == 0);
}

TEST_CASE("who listens on the wire hears neither token nor names", "[cluster][network]") {
  for (const bool is_plain : {false, true}) {
    CAPTURE(is_plain);
    const site here;
    const network lan(2);
    variables more = with_token(here);
    if (is_plain) more.emplace_back("MANTA_INSECURE_PLAINTEXT=yes");
    listener ear(lan, here);
    child second(lan.in(1, {program, "hello"}), here.with(ranked(1, 2, more)));
    const outcome o = child(lan.in(0, {program, "hello"}), here.with(ranked(0, 2, more))).finish();
    CAPTURE(o.err);
    REQUIRE(o.status == 0);
    CHECK(second.finish().status == 0);
    const std::string heard = ear.heard();
    CHECK(heard.size() > 500);
    CHECK_FALSE(has(heard, token_text));
    CHECK_FALSE(has(heard, token_bytes()));
    CHECK(has(heard, "rank-1") == is_plain);  // or this would hear nothing at all
    CHECK(has(o.err, "is not encrypted") == is_plain);
  }
}

TEST_CASE("a machine that is cut off is dead for the others, and ends itself when it is back",
          "[cluster][network]") {
  const site here;
  const network lan(3);
  // The default limit: who looks sees what is between 1 s and 3 s, and no other rank comes so far.
  child driver(lan.in(0, {program, "watch"}), here.with(ranked(0, 3)));
  child second(lan.in(1, {program, "hello"}), here.with(ranked(1, 3)));
  child third(lan.in(2, {program, "hello"}), here.with(ranked(2, 3)));
  REQUIRE(driver.says("sees rank-0 rank-1 rank-2\n"));
  lan.cut(2);
  CHECK(driver.says(" rank-2?\n"));
  CHECK(driver.says("sees rank-0 rank-1\n"));
  lan.heal(2);
  const outcome o = third.finish();
  CHECK(o.status == 1);
  CHECK_THAT(o.err, Contains("this process is no member of its cluster any more"));
  child again(lan.in(2, {program, "hello"}), here.with(ranked(2, 3)));
  CHECK(driver.says("sees rank-0 rank-1 rank-2\n", 2));
  kill(driver.pid(), SIGINT);
  CHECK(driver.finish().status == 130);
  CHECK(second.finish().status == 0);
  CHECK(again.finish().status == 0);
}

TEST_CASE("partitions that are shorter than the limit cost nobody", "[cluster][network][repeats]") {
  const site here;
  const network lan(2);
  // What is left of the limit behind a partition is for heartbeats, and for SYNs that TCP repeats.
  const variables limit{"MANTA_DEAD_AFTER_MS=8000"};
  child driver(lan.in(0, {program, "watch", "100"}), here.with(ranked(0, 2, limit)));
  child second(lan.in(1, {program, "hello"}), here.with(ranked(1, 2, limit)));
  REQUIRE(driver.says("sees rank-0 rank-1\n"));
  const int rounds = manta_test::repeats(1, 20);
  for (int i = 0; i < rounds; ++i) {
    lan.cut(1);
    std::this_thread::sleep_for(2s);  // the fault itself: of 8 s that a member may be silent
    lan.heal(1);
    std::this_thread::sleep_for(1s);
  }
  CHECK(driver.says("sees rank-0 rank-1\n", 1 + static_cast<std::size_t>(rounds)));
  CAPTURE(driver.so_far().out);
  CHECK_FALSE(has(driver.so_far().out, "sees rank-0\n"));
  kill(driver.pid(), SIGINT);
  CHECK(driver.finish().status == 130);
  const outcome o = second.finish();
  CAPTURE(o.err);
  CHECK(o.status == 0);
}

TEST_CASE("a head that can't be reached is told of at once, and given up in time",
          "[cluster][network]") {
  const site here;
  const network lan(2);
  lan.cut(0);
  variables more = with_token(here);
  more.emplace_back("MANTA_JOIN_MS=2500");
  const auto start = std::chrono::steady_clock::now();
  child second(lan.in(1, {program, "hello"}), here.with(ranked(1, 2, more)));
  CHECK(second.complains("goes on trying for 2500 ms: the head at " + head_address()));
  const auto told = std::chrono::steady_clock::now() - start;
  const outcome o = second.finish();
  CHECK(o.status == 2);
  CHECK(told < 10s);
  CHECK_THAT(o.err, Contains("within 2500 ms") && Contains(head_address()));
}

// Certificates, deadlines, tokens: none may look at the machine's clock. Under a sanitizer, which
// has a clock_gettime of its own, it can't be set.
#ifdef MANTA_CLOCK_LIBRARY
TEST_CASE("clocks that are set by an hour cost nobody, and keep nobody out", "[cluster][network]") {
  const site here;
  const network lan(3);
  const set_clock all(here);
  variables as_driver = all.variables();
  as_driver.push_back("MANTA_LISTEN=" + head_address());
  child driver(lan.in(0, {program, "watch"}), here.with(as_driver));
  REQUIRE(driver.says("sees rank-0\n"));
  variables joins = all.variables();
  joins.insert(joins.end(), {"MANTA_ADDRESS=" + head_address(), "MANTA_ROLE=driver"});
  variables as_far = joins;
  as_far.emplace_back("MANTA_MEMBER_NAME=far");
  child far(lan.in(1, {program, "watch"}), here.with(as_far));
  REQUIRE(driver.says("sees far rank-0\n"));
  REQUIRE(far.says("sees far rank-0\n"));
  for (const auto by : {1h, -1h}) {
    all.set(by);
    const std::string minutes = std::to_string(by / 1min) + " min\n";
    CHECK(driver.says("has its clock set by " + minutes));
    CHECK(far.says("has its clock set by " + minutes));
    std::this_thread::sleep_for(1s);  // for what would follow, within some heartbeats
  }
  // One whose clock is another one is heard over TLS.
  child late(lan.in(2, {program, "hello"}),
             here.with({"MANTA_ADDRESS=" + head_address(), "MANTA_MEMBER_NAME=late",
                        "MANTA_DEAD_AFTER_MS=10000"}));
  CHECK(driver.says("sees far late rank-0\n"));
  kill(driver.pid(), SIGINT);
  const outcome o = driver.finish();
  CHECK(o.status == 130);
  // Behind that it may see the others leave.
  const std::string before = o.out.substr(0, o.out.rfind("sees far late rank-0\n"));
  CHECK(count_of(before, "sees rank-0\n") == 1);
  CHECK(late.finish().status == 0);
  kill(far.pid(), SIGINT);  // a driver goes on with what it has
  CHECK(far.finish().status == 130);
}
#endif

TEST_CASE("a path that shreds and delays costs no member, and one that stalls does",
          "[cluster][network]") {
  const site here;
  const std::string own_port = free_port();
  child driver({program, "watch"}, here.with({"MANTA_LISTEN=127.0.0.1:" + own_port}));
  REQUIRE(driver.says("sees rank-0\n"));
  proxy between(static_cast<std::uint16_t>(std::stoi(own_port)));
  between.having().shreds = true;
  between.having().delay_ms = 20;
  child node({program, "hello"},
             here.with({"MANTA_ADDRESS=" + between.address(), "MANTA_MEMBER_NAME=far"}));
  REQUIRE(driver.says("sees far rank-0\n"));
  const auto epochs = [&] {
    return without_loads(
        here.run({tool, "nodes", "--json", "--address", "127.0.0.1:" + own_port}).out);
  };
  const std::string before = epochs();
  std::this_thread::sleep_for(2s);  // the fault itself, for some heartbeats
  CHECK(epochs() == before);
  CHECK(between.bytes() > 1000);
  between.having().stalls = true;
  CHECK(driver.says("sees far? rank-0\n"));
  CHECK(driver.says("sees rank-0\n", 2));
  between.having().stalls = false;
  const outcome o = node.finish();
  CHECK(o.status == 1);
  CHECK_THAT(o.err, Contains("no member of its cluster any more"));
  kill(driver.pid(), SIGINT);
  CHECK(driver.finish().status == 130);
}

}  // namespace cluster_network_test
