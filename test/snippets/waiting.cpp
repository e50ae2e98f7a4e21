// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

// Waiting: for some of many, for whichever comes next, and with a line that tells how far it is.

using namespace std::chrono_literals;

namespace {

int square(int x) { return x * x; }
std::vector<manta::future<int>> ten_squares() {
  std::vector<manta::future<int>> futures;
  for (int i = 0; i < 10; ++i) futures.push_back(manta::remote<square>(i));
  return futures;
}

}  // namespace

TEST_CASE("waiting: for the first few") {
  manta::runtime rt;
  manta::wait_result<int> some = manta::wait(ten_squares(), {.count = 8, .timeout = 60s});
  CHECK(some.ready.size() == 8);  // in their order; the stragglers go on
  CHECK(some.pending.size() == 2);
  const manta::wait_options for_all = {.count = 2};
  auto [ready, pending] = manta::wait(std::move(some.pending), for_all);
  CHECK(pending.empty());
}

TEST_CASE("waiting: for one of several types") {
  manta::runtime rt;
  manta::future<std::string> text = manta::async([] { return std::string("hello"); });
  manta::future<int> number = manta::remote<square>(2);
  const manta::duration limit = 60s;  // any std::chrono duration converts
  const std::size_t which = manta::wait_any(text, number);
  CHECK((which == 0 ? text.is_ready() : number.is_ready()));
  CHECK(manta::wait_any(limit, text, number).has_value());  // with a limit: nothing when it passed
}

TEST_CASE("waiting: one by one, in the order in which they end") {
  manta::runtime rt;
  int total = 0;
  for (manta::future<int>& f : manta::as_completed(ten_squares())) total += f.get();
  CHECK(total == 285);
}

TEST_CASE("waiting: the same by hand, with a limit for each") {
  manta::runtime rt;
  manta::completion_range<int> ended = manta::as_completed(ten_squares());
  int total = 0;
  while (ended.remaining() > 0) {
    std::optional<manta::future<int>> f = ended.next(60s);
    if (f) total += f->get();
  }
  CHECK(total == 285);
  CHECK_FALSE(ended.next().has_value());
  manta::completion_range<int> again = manta::as_completed(ten_squares());
  manta::completion_range<int>::iterator first = again.begin();  // what a range-for does
  CHECK(first != again.end());
}

TEST_CASE("waiting: a line on the terminal meanwhile") {
  manta::runtime rt;
  std::vector<manta::future<int>> futures = ten_squares();
  manta::progress(futures);  // "10/10, 5213/s", on a terminal only
  std::ostringstream line;
  const manta::progress_options here = {.title = "squares", .stream = &line, .is_terminal = true};
  manta::progress(futures, here);
  CHECK(line.str().find("squares 10/10") != std::string::npos);
}
