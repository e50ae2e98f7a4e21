// SPDX-License-Identifier: Apache-2.0
#include <manta/spec/resources.hpp>

#include <limits>
#include <string>

#include <catch2/catch.hpp>

#include "constants.hpp"

namespace {

using Catch::Matchers::Contains;
using manta::bundle;
using manta::label_list;
using manta::resource_list;
using namespace manta::spec;
using manta_test::inf;
using manta_test::no_number;

}  // namespace

TEST_CASE("amounts are kept to a thousandth, sorted, without zeros", "[resources]") {
  const demand d = to_demand({1.0 / 3, 0.5, 7, {{"b", 0.0014}, {"a", 2}, {"none", 0}}});
  CHECK(d.cpus == 333);
  CHECK(d.gpus == 500);
  CHECK(d.memory_bytes == 7);
  CHECK(d.custom == decltype(d.custom){{"a", 2000}, {"b", 1}});
  CHECK(to_string(d) == "0.333 cpus, 0.5 gpus, 7 memory_bytes, 2 a, 0.001 b");
  CHECK(to_demand(to_bundle(d)) == d);
  CHECK(to_string(demand{}) == "nothing");
  CHECK(demand{}.is_empty());
}

TEST_CASE("a bundle's fields are refused with index, field, value and what is allowed",
          "[resources]") {
  CHECK_NOTHROW(check(bundle{}, 0));
  CHECK_NOTHROW(check(bundle{0.001, 0.5, 1, {{"disk/a.b-c_1", 1e9}}}, 0));
  CHECK_THROWS_WITH(check(bundle{-1, 0, 0, {}}, 3), Contains("bundle 3, cpus: asked -1"));
  CHECK_THROWS_AS(check(bundle{no_number, 0, 0, {}}, 0), manta::invalid_argument);
  CHECK_THROWS_AS(check(bundle{0.0001, 0, 0, {}}, 0), manta::invalid_argument);
  CHECK_THROWS_WITH(check(bundle{0, 1.5, 0, {}}, 0), Contains("gpus: asked 1.5"));
  CHECK_THROWS_AS(check(bundle{0, inf, 0, {}}, 0), manta::invalid_argument);
  CHECK_THROWS_WITH(check(bundle{0, 0, static_cast<std::size_t>(-5), {}}, 0),
                    Contains("memory_bytes") && Contains("negative"));
  CHECK_THROWS_WITH(check(bundle{0, 0, 0, {{"a b", 1}}}, 0), Contains("a b"));
  CHECK_THROWS_AS(check(bundle{0, 0, 0, {{"", 1}}}, 0), manta::invalid_argument);
  CHECK_THROWS_AS(check(bundle{0, 0, 0, {{std::string(65, 'x'), 1}}}, 0), manta::invalid_argument);
  CHECK_THROWS_WITH(check(bundle{0, 0, 0, {{"cpus", 1}}}, 0), Contains("field of its own"));
  CHECK_THROWS_WITH(check(bundle{0, 0, 0, {{"a", 1}, {"a", 2}}}, 0), Contains("twice"));
  CHECK_THROWS_WITH(check(bundle{0, 0, 0, {{"a", -2}}}, 0), Contains("asked -2 of \"a\""));
  manta::resource_list many;
  for (int i = 0; i < 256; ++i) many.emplace_back("k" + std::to_string(i), 1);
  CHECK_NOTHROW(check(bundle{0, 0, 0, many}, 0));
  many.emplace_back("one more", 1);
  CHECK_THROWS_WITH(check(bundle{0, 0, 0, many}, 0), Contains("257 keys, allowed are 256 at most"));
}

TEST_CASE("wishes are checked", "[resources]") {
  CHECK_NOTHROW(check(manta::placement{}));
  CHECK_NOTHROW(check(manta::spread()));
  CHECK_NOTHROW(check(manta::on_node("local")));
  CHECK_NOTHROW(check(manta::with_labels({{"zone", "a"}})));
  CHECK_THROWS_AS(check(manta::on_node("")), manta::invalid_argument);
  // What a node may be called (config::member_name) can be asked for.
  CHECK_NOTHROW(check(manta::on_node("left hand")));
  CHECK_NOTHROW(check(manta::on_node(std::string(64, 'm'))));
  CHECK_THROWS_AS(check(manta::on_node(std::string(65, 'm'))), manta::invalid_argument);
  CHECK_THROWS_WITH(check(manta::on_node("a\nb")), Contains("asked the node \"a?b\", allowed"));
  CHECK_THROWS_AS(check(manta::with_labels({{"zone", ""}})), manta::invalid_argument);
  CHECK_THROWS_WITH(check(manta::with_labels({{"zone", "a"}, {"zone", "b"}})), Contains("twice"));
  const auto many = [](std::size_t n) {
    manta::label_list labels;
    for (std::size_t i = 0; i < n; ++i) labels.emplace_back("k" + std::to_string(i), "v");
    return labels;
  };
  CHECK_NOTHROW(check(manta::with_labels(many(256))));
  CHECK_THROWS_WITH(check(manta::with_labels(many(257))),
                    Contains("with_labels: asked 257 keys, allowed are 256 at most"));
}

TEST_CASE("sizes are read with their unit", "[resources]") {
  CHECK(*parse_bytes("0") == 0);
  CHECK(*parse_bytes("1048576") == 1048576);
  CHECK(*parse_bytes("64KiB") == 65536);
  CHECK(*parse_bytes("1.5MiB") == 1572864);
  CHECK(*parse_bytes("8GiB") == std::int64_t{8} << 30U);
  CHECK(*parse_bytes("2TiB") == std::int64_t{2} << 40U);
  for (const char* wrong :
       {"", "GiB", "8G", "8gib", "-1", "1e300TiB", "8 GiB", "nan", "inf", "0x8"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_bytes(wrong));
  }
}

TEST_CASE("lists of amounts and labels are read", "[resources]") {
  CHECK(*parse_resources("") == resource_list{});
  CHECK(*parse_resources("license:3,disk:0.5") == resource_list{{"license", 3}, {"disk", 0.5}});
  for (const char* wrong :
       {"a", "a:", "a:x", ":1", "a:1,", "a:1,a:2", "a:-1", "a:1 ,b:2", "gpus:1"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_resources(wrong));
  }
  CHECK(*parse_labels("zone=a,kind=big") == label_list{{"zone", "a"}, {"kind", "big"}});
  for (const char* wrong : {"a", "a=", "=a", "a=b,", "a=b,a=c", "a=b=c"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_labels(wrong));
  }
  CHECK_THAT(parse_resources("disk:x").error().message(), Contains("\"disk:x\""));
  const auto many = [](int n, const std::string& value) {
    std::string text;
    for (int i = 0; i < n; ++i) text += (i == 0 ? "k" : ",k") + std::to_string(i) + value;
    return text;
  };
  CHECK(parse_resources(many(256, ":1"))->size() == 256);
  CHECK(parse_labels(many(256, "=v"))->size() == 256);
  CHECK_THAT(parse_resources(many(257, ":1")).error().message(), Contains("more than 256 keys"));
  CHECK_THAT(parse_labels(many(257, "=v")).error().message(), Contains("more than 256 keys"));
}
