// SPDX-License-Identifier: Apache-2.0
// The test framework's main function, compiled once for all suites.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "node/far_actors.hpp"
#include "node/trade.hpp"
#include "node/worker_pool.hpp"

namespace {

bool has_nodes() { return std::getenv("MANTA_NODES") != nullptr; }

bool is_isolated() {
  const char* const mode = std::getenv("MANTA_ISOLATION");
  return mode != nullptr && std::string_view(mode) == "processes";
}

int cases_without_workers = 0;
int cases_alone = 0;

// In the mode `processes` each case that runs anywhere says which processes did its work, and has
// failed when there were none: that a suite passes in that mode must not come from another one.
struct shows_processes : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    TestEventListenerBase::testCaseStarting(info);
    before_ = manta::node::worker_pool::global().work_of_all();
  }

  void testCaseEnded(const Catch::TestCaseStats& ended) override {
    if (!is_isolated()) return;
    const auto now = manta::node::worker_pool::global().work_of_all();
    const std::uint64_t runs = now.runs - before_.runs;
    std::printf("manta: %s: isolated workers ran %llu, %llu processes were made\n",
                ended.testInfo.name.c_str(), static_cast<unsigned long long>(runs),
                static_cast<unsigned long long>(now.workers - before_.workers));
    const auto& tags = ended.testInfo.tags;
    if (runs == 0 && std::ranges::find(tags, "anywhere") != tags.end()) {
      std::printf("manta: %s: asked for isolated workers, found that none did anything\n",
                  ended.testInfo.name.c_str());
      ++cases_without_workers;
    }
  }

 private:
  manta::node::worker_pool::work before_;
};

// Among several nodes each case says what the others had of it, and has failed when that was
// nothing, unless it has a tag that says why nothing leaves; test/README.md lists them.
struct shows_nodes : Catch::TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;

  // Actors that are given others' handles, or told apart by what their own node has, stay there; so
  // does what asks for amounts where a case counts those of one node.
  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    TestEventListenerBase::testCaseStarting(info);
    const auto has = [&info](const char* tag) {
      return std::ranges::find(info.tags, tag) != info.tags.end();
    };
    if (!has_nodes()) return;
    setenv("MANTA_CHECK", has("actors_home") ? "far-tasks" : "far", 1);
    setenv("MANTA_SHARE_RESOURCES", has("amounts_home") ? "no" : "yes", 1);
  }

  void testCaseEnded(const Catch::TestCaseStats& ended) override {
    if (!has_nodes()) return;
    const std::uint64_t tasks = manta::node::trade::global().given() - tasks_;
    const std::uint64_t actors = manta::node::far_actors::global().sent() - actors_;
    tasks_ += tasks;
    actors_ += actors;
    const Catch::TestCaseInfo& info = ended.testInfo;
    std::printf("manta: %s: other nodes had %llu tasks, %llu actors\n", info.name.c_str(),
                static_cast<unsigned long long>(tasks), static_cast<unsigned long long>(actors));
    const bool stays = std::ranges::any_of(
        info.tags, [](const std::string& tag) { return tag.starts_with("stays:"); });
    if (tasks + actors > 0 || stays) return;
    std::printf(
        "manta: %s: asked for several nodes, found that the others had nothing to do; where that "
        "is "
        "right, a tag stays: says why\n",
        info.name.c_str());
    ++cases_alone;
  }

 private:
  std::uint64_t tasks_ = 0;
  std::uint64_t actors_ = 0;
};

}  // namespace

CATCH_REGISTER_LISTENER(shows_processes)
CATCH_REGISTER_LISTENER(shows_nodes)

namespace {

// One variable for all that the mode `nodes` is: CTest's own lists of them come apart on their way
// through catch_discover_tests.
void take_mode() {
  const char* const mode = std::getenv("MANTA_TEST_MODE");
  if (mode == nullptr || std::string_view(mode) != "nodes") return;
  setenv("MANTA_NODES", "2", 1);
  // No case here is about a node that says nothing: a busy machine may keep one from it for long.
  setenv("MANTA_DEAD_AFTER_MS", "30000", 0);
}

}  // namespace

int main(int argc, char** argv) {
  take_mode();
  const int failed = Catch::Session().run(argc, argv);
  return failed != 0 ? failed : std::min(cases_without_workers + cases_alone, 255);
}
