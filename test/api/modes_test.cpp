// SPDX-License-Identifier: Apache-2.0
// That a mode of the suite is what it says: a suite that passes in a mode must not come from
// another one.
#include <unistd.h>

#include <catch2/catch.hpp>

#include <manta/manta.hpp>

#include "api/support.hpp"

namespace modes_test {

namespace {

struct resident {
  int process() const { return getpid(); }
};

}  // namespace

TEST_CASE("tasks and actors are in this process, or in another one, as the mode says",
          "[modes][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const bool are_elsewhere = test::in_processes() || test::in_nodes();
  // One that comes to a node which is not ready yet goes back.
  int elsewhere = 0;
  for (int i = 0; i < 100; ++i) elsewhere += manta::remote<getpid>().get() != getpid() ? 1 : 0;
  CHECK((are_elsewhere ? elsewhere > 0 : elsewhere == 0));
  const auto one = manta::spawn<resident>();
  CHECK((manta::remote<&resident::process>(one).get() != getpid()) == are_elsewhere);
}

}  // namespace modes_test
