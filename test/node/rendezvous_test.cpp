// SPDX-License-Identifier: Apache-2.0
#include "node/rendezvous.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "folder.hpp"

namespace manta_test::rendezvous_test {

using manta::node::rendezvous;

TEST_CASE("where a head is said to be is found again", "[node]") {
  const folder where;
  const rendezvous meeting(where.path().string(), "job");
  CHECK_FALSE(meeting.find());
  CHECK(meeting.what_lies_there() == std::string("nothing"));
  REQUIRE(meeting.publish({{.host = "10.0.0.1", .port = 7}, {.host = "10.0.0.2", .port = 8}}));
  const auto found = meeting.find();
  REQUIRE(found);
  CHECK(found->size() == 2);
  CHECK(found->at(1).text() == "10.0.0.2:8");
  REQUIRE(std::filesystem::remove(meeting.path()));
  CHECK_FALSE(meeting.find());
}

// A pipe would be waited for, and a device has no end.
TEST_CASE("whatever else lies where a head is looked for is told of, and keeps nobody", "[node]") {
  const folder where;
  const rendezvous meeting(where.path().string(), "job");
  const auto is_none = [&](const std::string& is) {
    CHECK_FALSE(meeting.find());
    CHECK(meeting.what_lies_there() == is);
    std::filesystem::remove_all(meeting.path());
  };
  REQUIRE(mkfifo(meeting.path().c_str(), 0600) == 0);
  is_none("no plain file");
  std::filesystem::create_symlink("/dev/zero", meeting.path());
  is_none("no plain file");
  std::filesystem::create_directory(meeting.path());
  is_none("no plain file");
  std::ofstream(meeting.path()) << "manta rendezvous 2\n10.0.0.1:7\n";
  is_none("a file that no head of this version has written");
  std::ofstream(meeting.path()) << std::string(1 << 20, 'x');
  is_none("a file that no head of this version has written");
  std::ofstream(meeting.path()) << "manta rendezvous 1\nnonsense\n";
  is_none("a file without an address");
}

}  // namespace manta_test::rendezvous_test
