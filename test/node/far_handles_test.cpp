// SPDX-License-Identifier: Apache-2.0
// Who has handles of other nodes' things: what is counted at the ends of a runtime. The counting
// itself is test/own's, and programs of several nodes are test/cluster's.
#include "node/far_handles.hpp"

#include <catch2/catch.hpp>

namespace manta_test::far_handles_test {

TEST_CASE("what is let go of behind a runtime's end is nobody's to hear", "[far_handles]") {
  auto& all = manta::node::far_handles::global();
  REQUIRE(all.self() == 0);
  const manta::base::id thing{7, 9};
  all.has_core(thing);  // its value came late
  all.lost_core(thing);
  CHECK_FALSE(all.is_lent(thing));
}

}  // namespace manta_test::far_handles_test
