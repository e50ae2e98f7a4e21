// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <catch2/catch.hpp>

#include <manta/manta.hpp>

#include "isolation/support.hpp"

// Handles that workers give away as soon as they have them.

namespace early_handle_test {

namespace {

using test::comes_true;
using test::shared;

struct sum_keeper {
  int sum;
  explicit sum_keeper(int first) : sum(first) {}
  int add(int n) { return sum += n; }
};

// When the test lets it.
int late_one() {
  ++shared(0);
  comes_true([] { return shared(1) != 0; });
  return 1;
}

int total_of(manta::actor<sum_keeper> a) { return manta::remote<&sum_keeper::add>(a, 0).get(); }

// Gives a handle away right behind calls of its own.
int gives_early(manta::future<int> first, int calls) {
  const auto a = manta::spawn<sum_keeper>(first);
  for (int i = 0; i < calls; ++i) static_cast<void>(manta::remote<&sum_keeper::add>(a, 1));
  return manta::remote<total_of>(a).get();
}
int gives_at_once(int calls) { return gives_early(manta::put(1), calls); }
// The same before the constructor has its argument.
int gives_too_early(int calls) { return gives_early(manta::remote<late_one>(), calls); }

}  // namespace

TEST_CASE("a worker's new actor is called in its maker's order, whoever has its handle next",
          "[isolation]") {
  const test::shared_numbers numbers;
  const manta::runtime rt(test::isolated());
  for (int i = 0; i < 20; ++i) CHECK(manta::remote<gives_at_once>(10).get() == 11);
}

TEST_CASE("a handle waits until the node knows its actor", "[isolation]") {
  const test::shared_numbers numbers;
  const manta::runtime rt(test::isolated());
  const auto late = manta::remote<gives_too_early>(10);
  REQUIRE(comes_true([&] { return numbers[0] == 1; }));
  numbers[1] = 1;
  CHECK(late.get() == 11);
}

}  // namespace early_handle_test
