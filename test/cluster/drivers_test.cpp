// SPDX-License-Identifier: Apache-2.0
// Drivers of one cluster that have something of each other, one of which is lost.
#include <csignal>
#include <string>

#include "cluster/checks.hpp"
#include "cluster/lone_head.hpp"

namespace cluster_drivers_test {

namespace {

using namespace cluster_test;  // NOLINT: the words of this folder
using Catch::Matchers::Contains;

void lose_lender(int signal, const std::string& maps) {
  CAPTURE(signal, maps);
  lone_head with({dead_after(signal), maps});
  child lender = with.driver("first", "lends");
  REQUIRE(lender.says("lent\n"));
  child borrower = with.driver("second", "borrows");
  const bool is_ready = borrower.says("borrowed\n");
  kill(lender.pid(), signal);
  const outcome o = borrower.finish();
  kill(lender.pid(), SIGKILL);
  CHECK(is_ready);
  check_right(o, "borrows");
  CHECK_THAT(lender.finish().out, !Contains("WRONG"));
  with.end();
}

}  // namespace

TEST_CASE("a driver is killed or stopped of which another one has futures, arrays and actors",
          "[cluster][settle]") {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    lose_lender(signal, "MANTA_MAP_ARRAYS=yes");
    lose_lender(signal, "MANTA_MAP_ARRAYS=no");
  }
}

}  // namespace cluster_drivers_test
