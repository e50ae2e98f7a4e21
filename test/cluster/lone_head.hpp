// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/support.hpp"

namespace cluster_test {

using namespace std::chrono_literals;

/// A head of its own, which can be killed and started again, and a node beside it.
class lone_head {
 public:
  /// The head, its node and its drivers have these variables.
  explicit lone_head(variables more = {}) : more_(std::move(more)) { start(); }
  void kill_and_restart() {
    head_.reset();
    std::this_thread::sleep_for(300ms);  // the fault's schedule: it is away for a while
    start();
  }
  /// The next one finds the claim of a node that it never had.
  void kill_and_haunt() {
    head_.reset();
    CHECK(here_.run({program_, "haunts", control_}, {beside_rocksdb}).status == 0);
    start();
  }
  child driver(const std::string& name, const std::string& what) const {
    return child({program_, what},
                 with({"MANTA_ROLE=driver", "MANTA_ADDRESS=" + at_, "MANTA_MEMBER_NAME=" + name}));
  }
  /// The head's records that begin so, one in a line.
  std::string records(const std::string& prefix) const {
    const std::string copy = here_.path() + "/copy";
    std::filesystem::remove_all(copy);
    const outcome made =
        here_.run({MANTA_TOOL, "control", "backup", control_, copy}, {beside_rocksdb});
    if (made.status != 0) return "no copy: " + made.err;
    return here_.run({MANTA_TOOL, "control", "dump", "--prefix", prefix, copy}, {beside_rocksdb})
        .out;
  }
  void end() {
    kill(head_->pid(), SIGINT);
    CHECK(head_->finish().status == 0);
    CHECK(helper_->finish().status == 0);
  }

 private:
  variables with(variables these) const {
    these.insert(these.end(), more_.begin(), more_.end());
    return here_.with(these);
  }
  void start() {
    head_ = std::make_unique<child>(std::vector<std::string>{program_},
                                    with({"MANTA_ROLE=head", "MANTA_ADDRESS=" + at_,
                                          "MANTA_CONTROL=" + control_, beside_rocksdb}));
    REQUIRE(head_->complains("head of a cluster at"));
    if (helper_ != nullptr) return;
    helper_ = std::make_unique<child>(std::vector<std::string>{program_},
                                      with({"MANTA_ADDRESS=" + at_, "MANTA_MEMBER_NAME=helper"}));
  }

  const std::string program_ = MANTA_SETTLER_PROGRAM;
  const variables more_;
  const site here_;
  const std::string at_ = "unix:" + here_.path() + "/head";
  const std::string control_ = here_.path() + "/control";
  std::unique_ptr<child> head_;
  std::unique_ptr<child> helper_;
};

}  // namespace cluster_test
