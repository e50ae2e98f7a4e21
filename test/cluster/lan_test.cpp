// SPDX-License-Identifier: Apache-2.0
// The work of several nodes as it goes between machines: in networks of their own, encrypted, where
// nobody can map another's memory; also while one of them is cut off for a moment.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <list>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cluster/checks.hpp"
#include "cluster/network.hpp"

namespace cluster_lan_test {

namespace {

using namespace std::chrono_literals;
using namespace cluster_test;  // NOLINT: the words of this folder

using words = std::vector<std::string>;

const std::string sharer = MANTA_SHARER_PROGRAM;

// One program on so many machines, one after the other.
class machines {
 public:
  // A busy machine may keep either from its core for longer than the default; nobody is to be lost.
  explicit machines(int size, const std::string& dead_after = "MANTA_DEAD_AFTER_MS=15000")
      : size_(size), dead_after_(dead_after), lan_(size) {}

  const network& lan() const { return lan_; }
  std::string path() const { return here_.path(); }

  void start(const words& program, const variables& more = {}) {
    nodes_.clear();
    for (int rank = size_ - 1; rank > 0; --rank) {
      nodes_.emplace_back(lan_.in(rank, program), ranked(rank, more));
    }
    driver_.emplace(lan_.in(0, program), ranked(0, more));
  }
  child& driver() { return *driver_; }
  // Whether each node has ended in order, behind what came out as it has to.
  bool costs_no_node(const std::string& what) {
    said_ = driver_->finish();
    cluster_test::check_right(said_, what);
    bool is = true;
    for (child& one : nodes_) {
      const outcome its = one.finish();
      UNSCOPED_INFO(its.err);
      is = is && its.status == 0;
    }
    return is;
  }
  void check_right(const std::string& what) { CHECK(costs_no_node(what)); }
  // What the driver said meanwhile.
  std::string outcome_of_driver(const std::string& what) {
    check_right(what);
    return said_.out;
  }
  // What is under way to or from rank-1 waits meanwhile.
  void cut_for_a_moment() const {
    lan_.cut(1);
    std::this_thread::sleep_for(2s);  // the fault itself: of 8 s that a member may be silent
    lan_.heal(1);
  }

 private:
  variables ranked(int rank, const variables& more) const {
    variables out{"MANTA_RANK=" + std::to_string(rank), "MANTA_WORLD_SIZE=" + std::to_string(size_),
                  "MANTA_ADDRESS=" + network::address(0) + ":7400", "MANTA_MAP_ARRAYS=no",
                  dead_after_};
    out.insert(out.end(), more.begin(), more.end());
    return here_.with(out);
  }

  const int size_;
  const std::string dead_after_;
  const site here_;
  const network lan_;
  std::list<child> nodes_;
  std::optional<child> driver_;
  outcome said_;
};

// As of the test of shorter partitions in network_test.cpp.
const std::string for_a_cut = "MANTA_DEAD_AFTER_MS=8000";

// Tasks that note that they run, and where: the others' share is a third each.
class noted_spread {
 public:
  explicit noted_spread(machines& all) : all_(all), log_(all.path() + "/runs") {
    std::filesystem::remove(log_);
    all.start({sharer, "spread", std::to_string(count), "5"}, {"SHARER_LOG=" + log_});
  }
  bool has_run_at(const std::string& node) {
    if (!all_.driver().says("pid rank-2")) return false;
    const std::string its = " " + std::to_string(pids_in(all_.driver().so_far().out).at(node));
    return happens([&] { return has(runs(), its + "\n"); });
  }
  bool ran_once() const {
    std::istringstream lines(runs());
    std::set<long> which;
    std::size_t ran = 0;
    for (long one = 0, by = 0; lines >> one >> by; ++ran) which.insert(one);
    UNSCOPED_INFO(ran << " runs of " << which.size() << " tasks");
    return ran == count && which.size() == count;
  }

 private:
  static constexpr std::size_t count = 2000;
  std::string runs() const {
    std::ifstream file(log_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  machines& all_;
  const std::string log_;
};

// Starts one of the settler's programs, cuts rank-1 off when that is at it, and tells it when it is
// healed.
void cut_while(const std::string& what) {
  machines all(3, for_a_cut);
  all.start({settler, what});
  const bool is_ready = all.driver().says("may be cut");
  if (is_ready) all.cut_for_a_moment();
  if (is_ready) kill(all.driver().pid(), SIGUSR1);
  all.check_right(what);
}

}  // namespace

TEST_CASE("arrays and their futures go between machines, encrypted", "[cluster][settle][network]") {
  machines all(3);
  for (const std::string what : {"stays", "given", "arrays"}) {
    all.start({settler, what});
    all.check_right(what);
  }
}

TEST_CASE("futures, tasks that follow arrays, and groups go between machines, encrypted",
          "[cluster][settle][network]") {
  machines all(4);  // as many as the groups are to lie in
  for (const std::string what : {"follows", "futures", "nomads", "groups"}) {
    all.start({settler, what, "20"}, {"MANTA_WORKERS=2", "MANTA_GPUS=0"});
    all.check_right(what);
  }
}

// Each task reads 2 MiB of its own, and takes 50 ms (sanitizers: 400): less than those take at
// 2 MB/s, and far more than where nothing holds them up. The first ones go before that is known.
TEST_CASE("tasks stay with arrays that come slowly, and go where they come fast",
          "[cluster][share][network]") {
  machines all(2);
  const int tasks = manta_test::is_sanitized ? 20 : 60;
  const words program{sharer, "paced", std::to_string(tasks),
                      manta_test::is_sanitized ? "400" : "50", "2097152"};
  const auto run_at_home = [&] {
    all.start(program, {"MANTA_WORKERS=2"});
    const std::string out = all.outcome_of_driver("paced");
    const std::string mark = "at home: ";
    const std::size_t at = out.find(mark);
    return at == std::string::npos ? -1 : std::atoi(out.c_str() + at + mark.size());
  };
  const int with_fast_path = run_at_home();
  CHECK((with_fast_path >= 0 && with_fast_path < tasks));
  if (!all.lan().slow_down(1, "16mbit")) {
    WARN("this machine can't make a path slow (tc, sch_tbf): that half was not run");
    return;
  }
  CHECK(run_at_home() * 3 >= tasks * 2);
}

TEST_CASE("channels go between machines, encrypted", "[cluster][settle][network]") {
  machines all(3);
  all.start({settler, "channels"});
  all.check_right("channels");
}

TEST_CASE("generators go between machines, encrypted", "[cluster][settle][network]") {
  machines all(3);
  all.start({settler, "streams", "20"});
  all.check_right("streams");
}

TEST_CASE("a machine that is cut off for a moment runs each of its tasks once",
          "[cluster][share][network]") {
  machines all(3, for_a_cut);
  noted_spread spread(all);
  REQUIRE(spread.has_run_at("rank-1"));
  all.cut_for_a_moment();
  all.check_right("spread");
  CHECK(spread.ran_once());
}

// A head gives who has lost its connection the time of a trip there and back: on a busy machine one
// is too late now and then, and what it had runs again; what is wrong costs each.
TEST_CASE("tasks run once over a network that resets every connection each moment",
          "[cluster][share][network]") {
  machines all(3);
  const auto limit = std::chrono::steady_clock::now() + 90s;  // of a case's two minutes
  int tries = 0;
  for (; tries < 10 && std::chrono::steady_clock::now() < limit; ++tries) {
    noted_spread spread(all);
    REQUIRE(spread.has_run_at("rank-1"));
    int resets = 0;
    for (int i = 0; i < (has_tsan ? 4 : 8); ++i) {
      std::this_thread::sleep_for(150ms);  // the fault's schedule
      resets += all.lan().reset_all(1);
    }
    const bool is_whole = all.costs_no_node("spread");
    if (resets == 0) {
      WARN("this kernel resets nobody's connections: nothing was tested");
      return;
    }
    if (!is_whole) continue;
    CHECK(resets >= 4);
    CHECK(spread.ran_once());
    return;
  }
  FAIL("each of " << tries << " tries has cost a member");
}

TEST_CASE("calls of actors over a cut are all answered, once and in their order",
          "[cluster][settle][network]") {
  cut_while("cut-calls");
}

TEST_CASE("large arrays that a cut finds on their way come whole", "[cluster][settle][network]") {
  cut_while("cut-pulls");
}

}  // namespace cluster_lan_test
