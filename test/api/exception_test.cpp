// SPDX-License-Identifier: Apache-2.0
// What a user's function throws arrives at get, typed and with its first cause.
#include <atomic>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "api/support.hpp"

namespace exception_test {

namespace {

struct not_an_exception {
  int code = 0;
};
struct custom : std::runtime_error {
  using std::runtime_error::runtime_error;
  int extra = 17;
};
test::everywhere<std::atomic<bool>> is_armed;
struct copy_throws : std::exception {
  copy_throws() = default;
  copy_throws(const copy_throws& other) : std::exception(other) {
    if (*is_armed) throw std::runtime_error("copying the exception failed");
  }
  copy_throws& operator=(const copy_throws&) = default;
  const char* what() const noexcept override { return "can not be copied"; }
};
// what() can't throw, since the base declares it noexcept, but it can give no text.
struct null_text : std::exception {
  const char* what() const noexcept override { return nullptr; }
};
struct deep_base {
  virtual ~deep_base() = default;
};
struct two_bases : deep_base, std::logic_error {
  two_bases() : std::logic_error("two bases") {}
};

int identity(int x) { return x; }
int add(int a, int b) { return a + b; }
int throw_int(int v) { throw v; }
int throw_text() { throw "a text"; }
int throw_custom() { throw custom("custom message"); }
int throw_plain(int c) { throw not_an_exception{c}; }
int throw_nested() {
  try {
    throw std::out_of_range("inner");
  } catch (...) {
    std::throw_with_nested(std::runtime_error("outer"));
  }
}

/// Whether exceptions of any class arrive themselves: not where they go through bytes.
bool originals_arrive() {
  return !test::copies_values() && !test::in_processes() && !test::in_nodes();
}

/// What the failed future nests, thrown again, as T.
template <class T>
T original(const manta::future<int>& f) {
  try {
    f.get();
  } catch (const manta::task_error& e) {
    try {
      std::rethrow_if_nested(e);
    } catch (std::conditional_t<std::is_pointer_v<T>, T, const T&> inner) {
      // Clang 14 gives null for a thrown pointer that is caught by reference.
      return inner;
    }
  }
  throw std::runtime_error("the original did not arrive");
}

}  // namespace

TEST_CASE("an exception arrives as task_error with type, message, function and attempt",
          "[exception][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto f = manta::remote<throw_custom>();
  try {
    f.get();
    FAIL("nothing was thrown");
  } catch (const manta::task_error& e) {
    CHECK(e.type_name().find("custom") != std::string::npos);
    CHECK(e.message() == "custom message");
    CHECK(e.function().find("throw_custom") != std::string::npos);
    CHECK(e.attempt() == 0);
    CHECK(e.code() == manta::errc::task_error);
    const std::string what = e.what();
    CHECK(what.find("custom message") != std::string::npos);
    CHECK(what.find("throw_custom") != std::string::npos);
  }
  CHECK_THROWS_AS(f.get(), manta::exception);
  CHECK_THROWS_AS(f.get(), std::runtime_error);
}

// Of one process: of those that come from another one std's classes are nested, and no others.
TEST_CASE("the original exception is nested with its dynamic type", "[exception][one_node]") {
  if (test::copies_values()) return;
  const manta::runtime rt(test::two_workers());
  CHECK(original<custom>(manta::remote<throw_custom>()).extra == 17);
  CHECK(original<int>(manta::remote<throw_int>(42)) == 42);
  CHECK(std::string(original<const char*>(manta::remote<throw_text>())) == "a text");
  CHECK(original<not_an_exception>(manta::remote<throw_plain>(5)).code == 5);
  constexpr auto bases = []() -> int { throw two_bases(); };
  CHECK(std::string(original<two_bases>(manta::remote<bases>()).what()) == "two bases");
}

TEST_CASE("exceptions of every standard kind keep their text", "[exception][anywhere]") {
  const manta::runtime rt(test::two_workers());
  constexpr auto message = [](const manta::future<int>& f) {
    return test::message_of<manta::task_error>([&] { f.get(); });
  };
  constexpr auto throws = [](int kind) -> int {
    switch (kind) {
      case 0:
        throw std::invalid_argument("t1");
      case 1:
        throw std::bad_alloc();
      case 2:
        throw std::system_error(std::make_error_code(std::errc::io_error), "t2");
      case 3:
        throw null_text();
      case 4:
        throw std::string("no exception class");
      case 5:
        throw 3.5;
      case 6:
        throw nullptr;
      default:
        throw true;
    }
  };
  int kind = 0;
  for (const std::string text :
       {"t1", "bad_alloc", "t2", "null_text", "string", "double", "nullptr", "bool"}) {
    CHECK(message(manta::remote<throws>(kind++)).find(text) != std::string::npos);
  }
}

TEST_CASE("a move-only object can be thrown", "[exception][anywhere]") {
  const manta::runtime rt(test::two_workers());
  constexpr auto throws = []() -> int { throw std::make_unique<int>(3); };
  const auto f = manta::remote<throws>();
  CHECK_THROWS_AS(f.get(), manta::task_error);
}

TEST_CASE("an exception whose copy throws gives a typed error and no hang",
          "[exception][anywhere]") {
  *is_armed = false;
  const manta::runtime rt(test::two_workers());
  constexpr auto first = []() -> int { throw copy_throws(); };
  const auto f = manta::remote<first>();
  *is_armed = true;
  CHECK_THROWS_AS(f.get(), manta::exception);
  constexpr auto second = []() -> int {
    const copy_throws e;
    throw e;  // copying it throws another one in its place
  };
  const auto g = manta::remote<second>();
  CHECK_THROWS_AS(g.get(), manta::task_error);
  *is_armed = false;
}

TEST_CASE("a message of 10 MiB arrives whole", "[exception][anywhere]") {
  const manta::runtime rt(test::two_workers());
  constexpr std::size_t size = 10U << 20U;
  constexpr auto throws = []() -> int { throw std::runtime_error(std::string(size, 'm')); };
  const auto f = manta::remote<throws>();
  try {
    f.get();
    FAIL("nothing was thrown");
  } catch (const manta::task_error& e) {
    // In messages texts are cut.
    const bool is_cut = test::in_processes() || test::in_nodes() || test::copies_values();
    CHECK(e.message().size() == (is_cut ? 4096 : size));
  }
  // Dependents share it.
  const auto g = manta::remote<identity>(manta::remote<identity>(f));
  CHECK_THROWS_AS(g.get(), manta::task_error);
}

TEST_CASE("nested exceptions keep their chain", "[exception][anywhere]") {
  const manta::runtime rt(test::two_workers());
  std::vector<std::string> seen;
  try {
    manta::remote<throw_nested>().get();
  } catch (const manta::task_error& e) {
    try {
      std::rethrow_if_nested(e);
    } catch (const std::runtime_error& outer) {
      seen.emplace_back(outer.what());
      try {
        std::rethrow_if_nested(outer);
      } catch (const std::out_of_range& inner) {
        seen.emplace_back(inner.what());
      }
    }
  }
  CHECK(seen == std::vector<std::string>{"outer", "inner"});
}

TEST_CASE("the first cause is kept through a chain of dependents", "[exception][anywhere]") {
  const manta::runtime rt(test::two_workers());
  manta::future<int> f = manta::remote<throw_custom>();
  for (int i = 0; i < 100; ++i) f = manta::remote<add>(f, manta::put(i));
  try {
    f.get();
    FAIL("nothing was thrown");
  } catch (const manta::task_error& e) {
    CHECK(e.function().find("throw_custom") != std::string::npos);
    CHECK(e.message() == "custom message");
  }
  const bool is_carried = originals_arrive();
  if (is_carried) CHECK(original<custom>(f).extra == 17);
  // Also where a task got it and let it pass.
  const auto passing = manta::async([f] { return f.get() + 1; });
  if (is_carried) CHECK(original<custom>(passing).extra == 17);
  const std::string said = test::message_of<manta::task_error>([&] { passing.get(); });
  CHECK(said.find("throw_custom") != std::string::npos);
}

TEST_CASE("of several failed arguments the first one's error is given", "[exception][anywhere]") {
  const manta::runtime rt(test::two_workers());
  constexpr auto fail = [](const std::string& text) -> int { throw std::runtime_error(text); };
  const auto a = manta::remote<fail>("first");
  const auto b = manta::remote<fail>("second");
  const std::string said =
      test::message_of<manta::task_error>([&] { manta::remote<add>(a, b).get(); });
  CHECK(said.find("first") != std::string::npos);
  constexpr auto size = [](const std::vector<int>& v) { return v.size(); };
  CHECK_THROWS_AS(manta::remote<size>(std::vector{manta::put(1), a, b}).get(), manta::task_error);
}

TEST_CASE("a failed argument keeps the function from running", "[exception][anywhere]") {
  static const test::everywhere<std::atomic<bool>> has_run;
  *has_run = false;
  const manta::runtime rt(test::two_workers());
  constexpr auto f = [](int x) {
    *has_run = true;
    return x;
  };
  CHECK_THROWS_AS(manta::remote<f>(manta::remote<throw_int>(1)).get(), manta::task_error);
  CHECK_FALSE(*has_run);
}

TEST_CASE("the option's name is shown in the error", "[exception][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto f = manta::remote<throw_custom>.with({.name = "my step"})();
  try {
    f.get();
    FAIL("nothing was thrown");
  } catch (const manta::task_error& e) {
    CHECK(std::string(e.what()).find("my step") != std::string::npos);
    CHECK(e.function() == "my step");
  }
}

TEST_CASE("an argument whose copy or move throws fails the call or the task, never hangs",
          "[exception][anywhere]") {
  const manta::runtime rt(test::two_workers());
  struct moody {
    bool is_bad = false;
    moody() = default;
    explicit moody(bool bad) : is_bad(bad) {}
    moody(const moody& o) : is_bad(o.is_bad) {
      if (is_bad) throw std::runtime_error("copy refused");
    }
    moody(moody&& o) : is_bad(o.is_bad) {
      if (is_bad) throw std::runtime_error("move refused");
    }
    void save(manta::codec::out_archive& ar) const { ar(is_bad); }
    void load(manta::codec::in_archive& ar) { ar(is_bad); }
  };
  constexpr auto take = [](moody m) { return m.is_bad; };
  constexpr auto make = [](bool bad) { return moody(bad); };
  CHECK(manta::remote<take>(moody(false)).get() == false);
  const moody bad(true);
  CHECK_THROWS_AS(manta::remote<take>(bad), std::runtime_error);
  // What refuses to be moved is found when it is read, where it goes through bytes.
  const auto why = manta::remote<take>(manta::remote<make>(true)).try_get().error().code();
  const bool is_read = test::in_processes() || test::in_nodes();
  CHECK((why == manta::errc::task_error || (is_read && why == manta::errc::decode_failed)));
  manta::future<moody> f = manta::remote<make>(true);
  CHECK(f.get().is_bad);
  CHECK_THROWS_WITH(std::move(f).get(), "move refused");
}

TEST_CASE("10,000 throwing tasks each answer with their own error", "[exception][anywhere]") {
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<int>> many;
  for (int i = 0; i < 10000; ++i) many.push_back(manta::remote<throw_int>(i));
  int right = 0;
  for (int i = 0; i < 10000; ++i) {
    const auto& f = many[static_cast<std::size_t>(i)];
    if (!originals_arrive()) {
      right += f.try_get().error().code() == manta::errc::task_error ? 1 : 0;
    } else {
      right += original<int>(f) == i ? 1 : 0;
    }
  }
  CHECK(right == 10000);
}

}  // namespace exception_test
