// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

// Between tasks, actors and threads: channels, select, semaphores and barriers. All are handles, to
// be copied to whoever takes part; who waits lends its core.

using namespace std::chrono_literals;

namespace {

void count_to(int n, manta::channel<int> out) {
  for (int i = 1; i <= n; ++i) out.send(i);  // waits while the channel is full
  out.close();
}

}  // namespace

TEST_CASE("channels: a bounded queue from a task to this thread") {
  manta::runtime rt;
  manta::channel<int> numbers(4);
  manta::future<void> producer = manta::remote<count_to>(100, numbers);
  int total = 0;
  for (int& each : numbers) total += each;  // until it is closed and empty
  CHECK(total == 5050);
  CHECK(producer.try_get().has_value());
}

TEST_CASE("channels: with a limit, or without waiting") {
  manta::runtime rt;
  manta::channel<std::string> texts(1);
  CHECK(texts.try_send("first"));
  CHECK_FALSE(texts.send("second", 1ms));  // full all the time
  CHECK((texts.size() == 1 && texts.capacity() == 1 && texts.valid()));
  CHECK(texts.receive() == "first");
  CHECK_FALSE(texts.try_receive().has_value());
  CHECK_FALSE(texts.receive(1ms).has_value());
}

TEST_CASE("channels: the end") {
  manta::runtime rt;
  manta::channel<int> numbers(2);
  numbers.send(1);
  CHECK(numbers.close());
  CHECK(numbers.is_closed());
  CHECK(numbers.next() == 1);  // what is in it can still be received
  CHECK_FALSE(numbers.next().has_value());
  CHECK_THROWS_AS(numbers.receive(), manta::channel_closed);
  CHECK_THROWS_AS(numbers.send(2), manta::channel_closed);
  manta::channel<int>::iterator at = numbers.begin();  // what a range-for does
  CHECK(at == numbers.end());
}

TEST_CASE("channels: whichever of several can go on") {
  manta::runtime rt;
  manta::channel<int> numbers(1);
  manta::channel<std::string> texts(1);
  numbers.send(5);
  std::string seen;
  const std::size_t which =
      manta::select(manta::on_receive(numbers, [&](int n) { seen = std::to_string(n); }),
                    manta::on_receive(texts, [&](std::string s) { seen = std::move(s); }));
  CHECK((which == 0 && seen == "5"));
  CHECK(manta::select(manta::on_send(texts, "out", [&] { seen = "sent"; })) == 0);
  CHECK(seen == "sent");
  // Nothing can happen: the channel is full, the other one empty.
  CHECK_FALSE(
      manta::select(1ms, manta::on_send(texts, "more"), manta::on_receive(numbers, [](int) {}))
          .has_value());
}

TEST_CASE("channels: a case can be made before") {
  manta::runtime rt;
  manta::channel<int> numbers(1);
  int got = 0;
  const auto keep = [&got](int n) { got = n; };
  manta::send_case put = manta::on_send(numbers, 3, [] {});
  manta::select(std::move(put));
  manta::receive_case take = manta::on_receive(numbers, keep);
  manta::select(std::move(take));
  CHECK(got == 3);
}

TEST_CASE("semaphore: at most two at a time") {
  manta::runtime rt;
  manta::semaphore doors(2);
  std::vector<manta::future<void>> guests;
  for (int i = 0; i < 8; ++i) {
    guests.push_back(manta::async([doors] {
      const manta::permit mine = doors.acquire();  // given back when it goes
    }));
  }
  manta::get(guests);
  CHECK((doors.available() == 2 && doors.total() == 2 && doors.valid()));
  manta::permit both = doors.acquire(2);
  CHECK(both.count() == 2);
  CHECK_FALSE(doors.try_acquire().has_value());
  CHECK_FALSE(doors.acquire(1, 1ms).has_value());
  both.release();
  CHECK(doors.try_acquire().has_value());
}

TEST_CASE("barrier: nobody goes on before all have come") {
  manta::runtime rt;
  manta::barrier all(3);  // two tasks and this thread
  std::vector<manta::future<bool>> parties;
  for (int i = 0; i < 2; ++i) {
    parties.push_back(manta::async([all] { return all.arrive_and_wait().is_last; }));
  }
  const manta::barrier_arrival mine = all.arrive_and_wait();
  CHECK(mine.generation == 0);
  CHECK(mine.is_last + parties[0].get() + parties[1].get() == 1);
  CHECK((all.parties() == 3 && all.valid()));
}
