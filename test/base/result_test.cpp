// SPDX-License-Identifier: Apache-2.0
#include <manta/base/result.hpp>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <catch2/catch.hpp>

namespace {

template <class T>
using result = manta::base::basic_result<T, std::string>;

}  // namespace

TEST_CASE("a result holds a value or the error", "[result]") {
  const result<int> good = 7;
  CHECK(good);
  CHECK(good.has_value());
  CHECK(*good == 7);
  CHECK(good.value() == 7);
  const result<int> bad = std::string("no");
  CHECK_FALSE(bad);
  CHECK(bad.error() == "no");
}

TEST_CASE("a result of a move-only value gives it away once it is an rvalue", "[result]") {
  result<std::unique_ptr<int>> r = std::make_unique<int>(3);
  CHECK(**r == 3);
  CHECK(*r->get() == 3);
  const std::unique_ptr<int> taken = std::move(r).value();
  CHECK(*taken == 3);
}

TEST_CASE("a result of a reference refers to the object itself", "[result]") {
  int x = 1;
  const result<int&> r = x;
  *r = 5;
  CHECK(x == 5);
  CHECK(r.operator->() == &x);
  STATIC_REQUIRE(std::is_same_v<decltype(r.value()), int&>);
  const result<const int&> bad = std::string("gone");
  CHECK_FALSE(bad);
}

TEST_CASE("a result of nothing is made without arguments", "[result]") {
  const result<void> good;
  CHECK(good);
  good.value();
  const result<void> bad = std::string("no");
  CHECK(bad.error() == "no");
}
