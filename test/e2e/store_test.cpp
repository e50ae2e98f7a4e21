// SPDX-License-Identifier: Apache-2.0
// The stores of several programs of one user on one machine, and what is left of them on the disk.
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "e2e/child.hpp"
#include "folder.hpp"

namespace store_test {

namespace {

using test::child;
using test::outcome;

std::vector<std::string> holder(const manta_test::folder& in, const std::string& by) {
  return {"hold_arrays",
          by,
          "--manta-workers=1",
          "--manta-isolation=" + std::string(by == "workers" ? "processes" : "threads"),
          "--manta-store-bytes=16MiB",
          "--manta-store-wait-ms=20",
          "--manta-quota-bytes=16MiB",
          "--manta-quota-folder=" + (in.path() / "quota").string()};
}

}  // namespace

TEST_CASE("two programs have one quota, and what a killed one had is the other's", "[e2e]") {
  const std::string by = GENERATE("itself", "workers");
  const manta_test::folder where;
  child first(test::program(holder(where, by)), {});
  REQUIRE(first.says("full at 16."));
  child second(test::program(holder(where, by)), {});
  CHECK(second.says("full at 0."));
  kill(first.pid(), SIGKILL);
  CHECK(second.says("full at 16."));
}

TEST_CASE("nothing lies in the spill folder, while a program runs, when it ends, or is killed",
          "[e2e]") {
  const std::string how = GENERATE("threads", "processes");
  const manta_test::folder where;
  std::vector<std::string> words{"spill_arrays",
                                 "on",
                                 "--manta-workers=2",
                                 "--manta-isolation=" + how,
                                 "--manta-store-bytes=8MiB",
                                 "--manta-spill-folder=" + where.path().string()};
  {
    child killed(test::program(words), {});
    REQUIRE(killed.says("spilled 1."));
    REQUIRE(killed.says("right."));
    CHECK(std::filesystem::is_empty(where.path()));
    kill(killed.pid(), SIGKILL);
    CHECK(killed.finish().is_killed);
  }
  CHECK(std::filesystem::is_empty(where.path()));
  words[1] = "once";
  const outcome ended = test::run(words);
  CHECK(ended.status == 0);
  CHECK(ended.out == "spilled 1.\nright.\n");
  CHECK(std::filesystem::is_empty(where.path()));
}

}  // namespace store_test
