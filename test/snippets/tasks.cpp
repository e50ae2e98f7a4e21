// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

// Tasks: calls that run somewhere on the machine's cores.

using namespace std::chrono_literals;

namespace {

int square(int x) { return x * x; }
template <class T>
T twice(T x) {
  return x + x;
}
int sum(const std::vector<int>& numbers) {
  int total = 0;
  for (int each : numbers) total += each;
  return total;
}
int first_of(std::span<const int> numbers) { return numbers.front(); }
std::string describe() {
  return manta::this_task::name() + " run " + std::to_string(manta::this_task::attempt());
}
int on_third_run() {
  if (manta::this_task::attempt() < 2) throw std::range_error("not yet");
  return manta::this_task::attempt();
}

}  // namespace

TEST_CASE("tasks: any function, template instance or captureless lambda") {
  manta::runtime rt;
  manta::future<int> nine = manta::remote<square>(3);
  manta::future<std::string> text = manta::remote<twice<std::string>>("ab");
  manta::future<int> six = manta::remote<[](int x) { return 2 * x; }>(3);
  CHECK(nine.get() == 9);
  CHECK(text.get() == "abab");
  CHECK(six.get() == 6);
}

TEST_CASE("tasks: a future as an argument makes the task wait, not the caller") {
  manta::runtime rt;
  manta::future<int> nine = manta::remote<square>(3);
  manta::future<int> eighty_one = manta::remote<square>(nine);
  std::vector<manta::future<int>> all = {nine, eighty_one};
  CHECK(manta::remote<sum>(all).get() == 90);      // waits for both, gets a vector of values
  CHECK(manta::remote<first_of>(all).get() == 9);  // the same as a view
}

TEST_CASE("tasks: a callable with captures") {
  manta::runtime rt;
  auto owned = std::make_unique<int>(7);
  manta::future<int> seven = manta::async([owned = std::move(owned)] { return *owned; });
  CHECK(seven.get() == 7);
}

TEST_CASE("tasks: a value that many tasks use is stored once") {
  manta::runtime rt;
  manta::future<std::vector<int>> numbers = manta::put(std::vector<int>{4, 5, 6});
  manta::future<int> a = manta::remote<sum>(numbers);  // no copy: it takes const&
  manta::future<int> b = manta::remote<first_of>(numbers);
  CHECK(a.get() + b.get() == 19);
}

TEST_CASE("tasks: one that returns a future delegates, and nobody waits") {
  manta::runtime rt;
  constexpr auto choose = [](bool is_large) {
    return manta::remote<square>(is_large ? 100 : 1);  // future<int>
  };
  manta::future<int> result = manta::remote<choose>(true);  // future<int>, not a future of one
  CHECK(result.get() == 10000);
}

TEST_CASE("tasks: options are named, and checked at the call") {
  manta::runtime rt;
  auto careful = manta::remote<square>.with({.cpus = 0.5,
                                             .gpus = 0,
                                             .max_retries = 1,
                                             .losable = true,
                                             .timeout = 60s,
                                             .priority = manta::priority::high,
                                             .name = "square, carefully"});
  CHECK(careful(4).get() == 16);  // the same options for any number of calls
  const manta::options later = {.priority = manta::priority::low};
  const manta::remote_with_options<square> background = manta::remote<square>.with(later);
  CHECK(background(5).get() == 25);
  CHECK(manta::options{}.priority == manta::priority::normal);
  CHECK_THROWS_AS(manta::remote<square>.with({.max_retries = -1})(4), manta::invalid_argument);
}

TEST_CASE("tasks: which exceptions make a task run again") {
  manta::runtime rt;
  const manta::exception_filter flaky = manta::exceptions<std::range_error, std::bad_alloc>();
  auto patient = manta::remote<on_third_run>.with({.max_retries = 5, .retry_exceptions = flaky});
  CHECK(patient().get() == 2);
  auto stubborn = manta::remote<on_third_run>.with({.retry_exceptions = manta::any_exception()});
  CHECK(stubborn().get() == 2);
  CHECK(flaky.matches(std::make_exception_ptr(std::range_error("one of those"))));
  CHECK_FALSE(manta::exception_filter{}.test);                          // none, the default
  CHECK(flaky.entry->name().find("range_error") != std::string::npos);  // travels by its id
}

TEST_CASE("tasks: what the running task knows about itself") {
  manta::runtime rt;
  CHECK(manta::remote<describe>.with({.name = "report"})().get() == "report run 0");
  auto told = manta::async([] {
    manta::this_task::log("this goes to stderr, with the task's name and id");
    const manta::task_id id = manta::this_task::id();
    return manta::to_string(id).size() == 32 && (id.high | id.low) != 0 &&
           manta::this_task::is_inside() && !manta::this_task::deadline() &&
           manta::this_task::node() == "local";
  });
  CHECK(told.get());
  CHECK_FALSE(manta::this_task::is_inside());
}

// A class that looks copyable to the compiler but is not: its tasks are not run again. (Aggregates
// need no such line.)
class parcel {
 public:
  explicit parcel(std::size_t n) : content(n) {}

 private:
  std::vector<std::unique_ptr<int>> content;
};
template <>
struct manta::is_repeatable<parcel> : std::false_type {};

TEST_CASE("tasks: the callable behind remote<f> can be asked and kept") {
  manta::runtime rt;
  constexpr manta::remote_function<square> call = manta::remote<square>;
  static_assert(!call.is_method);
  using asked = manta::remote_function<square>::options_type;
  static_assert(std::is_same_v<asked, manta::options>);
  static_assert(!manta::is_repeatable<parcel>::value);
  CHECK(call(2).get() == 4);
}
