// SPDX-License-Identifier: Apache-2.0
#include <manta/spec/error.hpp>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

namespace {

using Catch::Matchers::Contains;
using manta::errc;
using manta::error;

template <class Expected>
bool raises_exactly(errc code) {
  try {
    manta::raise(code, "asked, found, do");
  } catch (const manta::exception& e) {
    return typeid(e) == typeid(Expected) && e.code() == code &&
           e.as_error().message() == "asked, found, do" &&
           std::string(e.what()) ==
               std::string("manta::") + manta::to_string(code) + ": asked, found, do";
  }
  return false;
}

// What a task that throws `thrown` leaves.
template <class T>
error described(T&& thrown) {
  try {
    throw std::forward<T>(thrown);
  } catch (...) {
    return manta::describe_current_exception("spelled [with auto F = work]");
  }
}

struct no_words : std::exception {
  const char* what() const noexcept override { return nullptr; }
};

// Not derived from std::exception on purpose.
struct strange {
  int value = 0;
};

struct copy_throws : std::runtime_error {
  copy_throws() : std::runtime_error("copy me") {}
  copy_throws(const copy_throws& other) : std::runtime_error(other) {
    if (is_armed) throw std::logic_error("no copies");
  }
  static inline bool is_armed = false;
};

}  // namespace

TEST_CASE("every code raises the exception type of its name", "[error]") {
  CHECK(raises_exactly<manta::worker_lost>(errc::worker_lost));
  CHECK(raises_exactly<manta::node_lost>(errc::node_lost));
  CHECK(raises_exactly<manta::object_lost>(errc::object_lost));
  CHECK(raises_exactly<manta::actor_lost>(errc::actor_lost));
  CHECK(raises_exactly<manta::timed_out>(errc::timed_out));
  CHECK(raises_exactly<manta::cancelled>(errc::cancelled));
  CHECK(raises_exactly<manta::store_full>(errc::store_full));
  CHECK(raises_exactly<manta::infeasible>(errc::infeasible));
  CHECK(raises_exactly<manta::decode_failed>(errc::decode_failed));
  CHECK(raises_exactly<manta::encode_failed>(errc::encode_failed));
  CHECK(raises_exactly<manta::invalid_argument>(errc::invalid_argument));
  CHECK(raises_exactly<manta::invalid_config>(errc::invalid_config));
  CHECK(raises_exactly<manta::no_runtime>(errc::no_runtime));
  CHECK(raises_exactly<manta::not_unique>(errc::not_unique));
  CHECK(raises_exactly<manta::self_wait>(errc::self_wait));
  CHECK(raises_exactly<manta::out_of_memory>(errc::out_of_memory));
  CHECK(raises_exactly<manta::name_taken>(errc::name_taken));
  CHECK(raises_exactly<manta::mailbox_full>(errc::mailbox_full));
  CHECK(raises_exactly<manta::channel_closed>(errc::channel_closed));
  CHECK(raises_exactly<manta::group_removed>(errc::group_removed));
  CHECK(raises_exactly<manta::unsupported>(errc::unsupported));
  CHECK(raises_exactly<manta::unknown_function>(errc::unknown_function));
  CHECK(raises_exactly<manta::storage_failed>(errc::storage_failed));
}

TEST_CASE("every code has its own name", "[error]") {
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(errc::storage_failed); ++i) {
    names.emplace_back(manta::to_string(static_cast<errc>(i)));
  }
  CHECK(names.front() == "task_error");
  CHECK(names[static_cast<std::size_t>(errc::timed_out)] == "timed_out");
  CHECK(names.back() == "storage_failed");
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  CHECK(std::string(manta::to_string(static_cast<errc>(999))) == "unknown");
}

TEST_CASE("an error is a counted value: copies and moves share one body", "[error]") {
  const error first(errc::timed_out, "late");
  error second = first;
  CHECK(&second.message() == &first.message());
  error third = std::move(second);
  second = third;
  CHECK(second.code() == errc::timed_out);
  CHECK(&third.message() == &first.message());
  CHECK(first.failure() == nullptr);
  error& itself = third;
  third = itself;
  CHECK(third.message() == "late");
}

TEST_CASE("the prepared error for failed allocations is always the same one", "[error]") {
  const error a = error::out_of_memory();
  const error b = error::out_of_memory();
  CHECK(a.code() == errc::out_of_memory);
  CHECK(&a.message() == &b.message());
}

TEST_CASE("a thrown standard exception is described with type, text and function", "[error]") {
  const error e = described(std::out_of_range("index 9"));
  CHECK(e.code() == errc::task_error);
  REQUIRE(e.failure() != nullptr);
  CHECK(e.failure()->type_name == "std::out_of_range");
  CHECK(e.failure()->message == "index 9");
  CHECK(e.failure()->function == "work");
  CHECK(e.failure()->node == "local");
  CHECK(e.failure()->attempt == 0);
  CHECK(e.message() == "work threw std::out_of_range: index 9 [node local, attempt 0]");
}

TEST_CASE("raising a task's failure throws task_error with the original nested", "[error]") {
  const error e = described(std::out_of_range("index 9"));
  bool is_nested = false;
  try {
    e.raise();
  } catch (const manta::task_error& caught) {
    CHECK(caught.code() == errc::task_error);
    CHECK(caught.type_name() == "std::out_of_range");
    CHECK(caught.message() == "index 9");
    CHECK(caught.function() == "work");
    CHECK(caught.node() == "local");
    CHECK(caught.attempt() == 0);
    CHECK_THAT(caught.what(), Contains("manta::task_error: work threw std::out_of_range"));
    try {
      std::rethrow_if_nested(caught);
    } catch (const std::out_of_range& original) {
      is_nested = std::string(original.what()) == "index 9";
    }
  }
  CHECK(is_nested);
}

TEST_CASE("a task_error can be raised again and again", "[error]") {
  const error e = described(std::runtime_error("x"));
  for (int i = 0; i < 3; ++i) CHECK_THROWS_AS(e.raise(), manta::task_error);
}

TEST_CASE("a task_error raised while another exception is handled nests its own cause", "[error]") {
  const error e = described(std::out_of_range("mine"));
  std::string nested;
  try {
    throw std::logic_error("unrelated");
  } catch (const std::logic_error&) {
    try {
      e.raise();
    } catch (const manta::task_error& caught) {
      try {
        caught.rethrow_nested();
      } catch (const std::exception& original) {
        nested = original.what();
      }
    }
  }
  CHECK(nested == "mine");
}

TEST_CASE("what is no exception class is described by its type", "[error]") {
  CHECK(described(42).failure()->type_name == "int");
  CHECK(described(42).failure()->message.empty());
  CHECK(described("text").failure()->type_name == "char const*");
  CHECK_THAT(described(strange{}).failure()->type_name, Contains("strange"));
  int caught = 0;
  try {
    described(42).raise();
  } catch (const manta::task_error& e) {
    try {
      e.rethrow_nested();
    } catch (int value) {
      caught = value;
    }
  }
  CHECK(caught == 42);
}

TEST_CASE("an exception without words is described without a message", "[error]") {
  const error e = described(no_words{});
  CHECK(e.code() == errc::task_error);
  CHECK(e.failure()->message.empty());
  CHECK_THAT(e.message(), Contains("no_words [node local"));
}

TEST_CASE("an exception that can't be copied is described and nested all the same", "[error]") {
  copy_throws::is_armed = false;
  error e = error::out_of_memory();
  try {
    throw copy_throws();
  } catch (...) {
    copy_throws::is_armed = true;
    e = manta::describe_current_exception("f");
  }
  CHECK(e.code() == errc::task_error);
  CHECK(e.failure()->message == "copy me");
  CHECK_THROWS_AS(e.raise(), manta::task_error);
  copy_throws::is_armed = false;
}

TEST_CASE("a manta::exception that passes through a task keeps its code", "[error]") {
  for (int i = 1; i <= static_cast<int>(errc::storage_failed); ++i) {
    CAPTURE(i);
    error e = error::out_of_memory();
    try {
      manta::raise(static_cast<errc>(i), "first cause");
    } catch (...) {
      e = manta::describe_current_exception("f");
    }
    CHECK(e.code() == static_cast<errc>(i));
    CHECK(e.message() == "first cause");
  }
}

TEST_CASE("a task_error that passes through a second task keeps its first cause", "[error]") {
  const error first = described(std::out_of_range("deep"));
  error second = error::out_of_memory();
  try {
    first.raise();
  } catch (...) {
    second = manta::describe_current_exception("outer");
  }
  CHECK(second.failure()->function == "work");
  CHECK(&second.message() == &first.message());
}

TEST_CASE("a failure that has no exception any more is raised without one", "[error]") {
  manta::task_failure failure;
  failure.type_name = "T";
  failure.function = "f";
  failure.node = "n7";
  failure.attempt = 2;
  const error e{failure};
  CHECK(e.message() == "f threw T [node n7, attempt 2]");
  bool has_nested = true;
  try {
    throw std::logic_error("unrelated");
  } catch (const std::logic_error&) {
    try {
      e.raise();
    } catch (const manta::task_error& caught) {
      CHECK(caught.attempt() == 2);
      has_nested = caught.nested_ptr() != nullptr;
      std::rethrow_if_nested(caught);  // of a std::nested_exception without one it would end this
      CHECK_THROWS_AS(caught.rethrow_nested(), manta::task_error);
    }
  }
  CHECK_FALSE(has_nested);
}

TEST_CASE("names are readable in both compilers' spelling", "[error]") {
  CHECK(manta::readable_name("const char* s() [with T = ns::type]") == "ns::type");
  CHECK(manta::readable_name("const char* s() [T = ns::type]") == "ns::type");
  CHECK(manta::readable_name("const char* s() [with auto F = work]") == "work");
  CHECK(manta::readable_name("const char* s() [F = &ns::work]") == "ns::work");
  CHECK(manta::readable_name("plain") == "plain");
  CHECK(manta::readable_name("") == "");
  CHECK(manta::readable_name("] F = ") == "] F = ");
}
