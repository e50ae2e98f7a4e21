// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

// Actors: objects that live in the runtime and run one method at a time.

using namespace std::chrono_literals;

namespace {

class account {
 public:
  account() = default;
  explicit account(int balance) : balance_(balance) {
    if (balance < 0) throw std::invalid_argument("no credit");
  }
  int deposit(int amount) { return balance_ += amount; }
  int balance() const { return balance_; }

 private:
  int balance_ = 0;
};

int pay_in(const manta::actor<account>& to, int amount) {
  return manta::remote<&account::deposit>(to, amount).get();
}

}  // namespace

TEST_CASE("actors: made by spawn, called by remote") {
  manta::runtime rt;
  manta::actor<account> savings = manta::spawn<account>(100);  // the constructor runs on a worker
  manta::future<int> f = manta::remote<&account::deposit>(savings, 20);
  CHECK(f.get() == 120);
  CHECK(manta::remote<&account::balance>(savings).get() == 120);
}

TEST_CASE("actors: the calls of one caller run in the order they were made") {
  manta::runtime rt;
  manta::actor<account> savings = manta::spawn<account>();
  std::vector<manta::future<int>> balances;
  for (int i = 0; i < 3; ++i) balances.push_back(manta::remote<&account::deposit>(savings, 1));
  CHECK(manta::get(balances) == std::vector<int>{1, 2, 3});
}

TEST_CASE("actors: handles travel, and futures are arguments here, too") {
  manta::runtime rt;
  manta::actor<account> savings = manta::spawn<account>(manta::put(5));
  manta::future<int> paid = manta::remote<pay_in>(savings, 10);
  manta::future<int> again = manta::remote<&account::deposit>(savings, paid);  // waits for it
  CHECK(again.get() == 30);
  const manta::actor<account> same = savings;
  CHECK((same == savings && same.valid()));
}

TEST_CASE("actors: a constructor that throws fails the calls, with its cause") {
  manta::runtime rt;
  manta::actor<account> broken = manta::spawn<account>(-1);
  const manta::future<int> f = manta::remote<&account::balance>(broken);
  CHECK_THROWS_AS(f.get(), manta::actor_lost);
}

TEST_CASE("actors: options of an actor and of a call") {
  manta::runtime rt;
  const manta::actor_options with = {.gpus = 0, .max_restarts = 1, .name = "savings"};
  manta::actor<account> savings = manta::spawn<account>.with(with)(1);
  const manta::call_options soon = {.timeout = 60s, .name = "the last deposit"};
  CHECK(manta::remote<&account::deposit>.with(soon)(savings, 2).get() == 3);
}

TEST_CASE("actors: the callables behind spawn<T> and remote<&T::m> can be kept") {
  manta::runtime rt;
  const manta::spawn_function<account> open = manta::spawn<account>;
  const manta::spawn_with_options<account> open_named = open.with({.name = "kept"});
  const manta::actor<account> savings = open_named(7);
  const manta::method_with_options<& account::deposit> deposit_soon =
      manta::remote<&account::deposit>.with({.timeout = 60s});
  CHECK(deposit_soon(savings, 1).get() == 8);
}
