// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "cluster/support.hpp"

// A network of the test's own: a namespace with a bridge, and one for each node, joined to it. All
// of it is held by processes that end with the test's, so nothing is left whoever dies.
//
//   node 0: 10.77.0.1 --+-- bridge in the router's namespace
//   node 1: 10.77.0.2 --'
//
// Who is not root takes a user namespace around it, where the machine allows that.

namespace cluster_test {

class network {
 public:
  explicit network(int nodes) {
    router_ = hold({});
    const std::string in = enter(router_);
    must(in + "ip link add br0 type bridge && " + in + "ip link set br0 up");
    for (int i = 0; i < nodes; ++i) {
      nodes_.push_back(hold(in));
      const std::string node = enter(nodes_.back());
      const std::string port = "p" + std::to_string(i);
      must(in + "ip link add " + port + " type veth peer name eth0 netns " +
           std::to_string(nodes_.back()->pid()));
      must(in + "ip link set " + port + " master br0 up");
      must(node + "ip addr add " + address(i) + "/24 dev eth0");
      must(node + "ip link set lo up && " + node + "ip link set eth0 up");
    }
  }
  network(const network&) = delete;
  network& operator=(const network&) = delete;

  static std::string address(int node) { return "10.77.0." + std::to_string(node + 1); }
  /// A program's words, in the network of that node, and with a folder for its sockets that no
  /// other node sees: one that does goes through these, as on one machine, and past the network.
  std::vector<std::string> in(int node, const std::vector<std::string>& words) const {
    std::vector<std::string> out = words_to_enter(nodes_.at(static_cast<std::size_t>(node)));
    const std::string own =
        "own=\"$XDG_RUNTIME_DIR/manta\" && mkdir -p -m 700 \"$own\" && "
        "mount -t tmpfs -o mode=700 own \"$own\" && exec \"$@\"";
    out.insert(out.end(), {"unshare", "--mount", "sh", "-c", own, "sh"});
    out.insert(out.end(), words.begin(), words.end());
    return out;
  }
  /// Words for the router's own network.
  std::vector<std::string> in_router(const std::vector<std::string>& words) const {
    std::vector<std::string> out = words_to_enter(router_);
    out.insert(out.end(), words.begin(), words.end());
    return out;
  }
  /// From now on what goes to it, and what comes from it, has that much room, as tc says it. False:
  /// the kernel has no such queue.
  bool slow_down(int node, const std::string& rate) const {
    const std::string shaped = " root tbf burst 32kb latency 100ms rate " + rate;
    const std::string at_router = enter(router_) + "tc qdisc replace dev p" + std::to_string(node);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): as in must
    if (std::system((at_router + shaped + " 2>/dev/null").c_str()) != 0) return false;
    must(enter(nodes_.at(static_cast<std::size_t>(node))) + "tc qdisc replace dev eth0" + shaped);
    return true;
  }
  /// From now on nothing goes to or from it, and nobody is told.
  void cut(int node) const { set(node, "down"); }
  void heal(int node) const { set(node, "up"); }
  /// All its connections that are, whatever they carry, get a reset at both ends; how many. None,
  /// also where the kernel can't do that (CONFIG_INET_DIAG_DESTROY).
  int reset_all(int node) const {
    const std::string line = enter(nodes_.at(static_cast<std::size_t>(node))) +
                             "ss --no-header --kill --tcp state established 2>/dev/null";
    // NOLINTNEXTLINE(concurrency-mt-unsafe): as in must
    FILE* const said = popen(line.c_str(), "r");
    if (said == nullptr) return 0;
    int lines = 0;
    for (int one = fgetc(said); one != EOF; one = fgetc(said)) lines += one == '\n' ? 1 : 0;
    pclose(said);
    return lines;
  }

 private:
  using holder = std::shared_ptr<child>;

  static bool is_root() { return geteuid() == 0; }

  // A process that has a network, made by who is in `around`.
  static holder hold(const std::string& around) {
    std::string line = around + "unshare --net";
    if (!is_root() && around.empty()) line += " --user --map-root-user";
    // It says when it has it, and ends when this process has.
    line = "exec " + line + " setpriv --pdeathsig KILL sh -c 'echo ready; exec sleep 3600'";
    auto made = std::make_shared<child>(std::vector<std::string>{"sh", "-c", line}, variables());
    if (!made->says("ready")) {
      FAIL(
          "no network namespace can be made here; run the tests as root, or allow user "
          "namespaces (sysctl kernel.unprivileged_userns_clone=1)");
    }
    return made;
  }

  static std::vector<std::string> words_to_enter(const holder& of) {
    std::vector<std::string> out{"nsenter", "--target", std::to_string(of->pid()), "--net"};
    if (!is_root()) out.insert(out.end(), {"--user", "--preserve-credentials"});
    // Nobody stays behind in a network whose test was killed.
    out.insert(out.end(), {"--", "setpriv", "--pdeathsig", "KILL"});
    return out;
  }
  static std::string enter(const holder& of) {
    std::string out;
    for (const std::string& word : words_to_enter(of)) out += word + " ";
    return out;
  }
  static void must(const std::string& line) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else sets variables meanwhile
    if (std::system(line.c_str()) != 0) FAIL("a network for the test: " << line);
  }
  void set(int node, const char* to) const {
    must(enter(router_) + "ip link set p" + std::to_string(node) + " " + to);
  }

  holder router_;
  std::vector<holder> nodes_;  // go first
};

}  // namespace cluster_test
