// SPDX-License-Identifier: Apache-2.0
#include "spec/texts.hpp"

#include <string>

#include <catch2/catch.hpp>

namespace {

using manta::spec::fault_of_member_name;
using manta::spec::shown;
using manta::spec::usual_member_name;

}  // namespace

TEST_CASE("what others have written is shown on one line, and not all of it", "[texts]") {
  CHECK(shown("").empty());
  CHECK(shown("a b") == "a b");
  CHECK(shown("a\nb\tc\x7f") == "a?b?c?");
  CHECK(shown(std::string(60, 'x')) == std::string(60, 'x'));
  CHECK(shown(std::string(61, 'x')) == std::string(60, 'x') + "...");
  CHECK(shown("abcd", 3) == "abc...");
  CHECK(shown("\xc3\xa4") == "\xc3\xa4");
}

TEST_CASE("a member that was given no name has one of its own, however long its host's is",
          "[texts]") {
  CHECK(usual_member_name("node", "host-a", 4711) == "node-host-a-4711");
  const std::string host(64, 'h');
  const std::string first = usual_member_name("driver", host, 4711);
  CHECK(first != usual_member_name("driver", host, 4712));
  CHECK(first.size() == 64);
  CHECK(fault_of_member_name(first) == nullptr);
  CHECK(first.find("driver-hhh") == 0);
}
