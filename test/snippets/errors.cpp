// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <manta/manta.hpp>

#include <catch2/catch.hpp>

// Failures: typed exceptions at get, or the same as values.

namespace {

int fails() { throw std::out_of_range("no such row"); }
int plus_one(int x) { return x + 1; }

}  // namespace

TEST_CASE("errors: what a task throws arrives at get, with the original") {
  manta::runtime rt;
  const manta::future<int> f = manta::remote<fails>();
  try {
    f.get();
    FAIL("get must throw");
  } catch (const manta::task_error& e) {
    CHECK(e.type_name() == "std::out_of_range");
    CHECK(e.message() == "no such row");
    CHECK(e.function().find("fails") != std::string::npos);
    CHECK(e.node() == "local");
    CHECK(e.attempt() == 0);
    CHECK_THROWS_AS(std::rethrow_if_nested(e), std::out_of_range);
    // The same, where it may have stayed in another process.
    if (e.nested_ptr() != nullptr) CHECK_THROWS_AS(e.rethrow_nested(), std::out_of_range);
  }
}

TEST_CASE("errors: as values") {
  manta::runtime rt;
  const manta::future<int> f = manta::remote<fails>();
  const manta::result<const int&> answer = f.try_get();
  REQUIRE_FALSE(answer.has_value());
  const manta::error& why = answer.error();
  CHECK(why.code() == manta::errc::task_error);
  CHECK(std::string(manta::to_string(why.code())) == "task_error");
  const manta::task_failure* first = why.failure();
  CHECK(first->type_name == "std::out_of_range");
  CHECK(first->message == "no such row");
  CHECK(first->function.find("fails") != std::string::npos);
  CHECK(first->node == "local");
  CHECK(first->attempt == 0);
  CHECK_THROWS_AS(std::rethrow_exception(first->cause), std::out_of_range);
  CHECK_THROWS_AS(why.raise(), manta::task_error);
}

TEST_CASE("errors: who depends on a failure fails with the same cause, and never runs") {
  manta::runtime rt;
  const manta::future<int> f = manta::remote<plus_one>(manta::remote<fails>());
  CHECK(f.try_get().error().failure()->type_name == "std::out_of_range");
}

TEST_CASE("errors: every manta::exception is also an error") {
  try {
    static_cast<void>(manta::remote<plus_one>(1));  // there is no runtime
    FAIL("the call must throw");
  } catch (const manta::exception& e) {
    CHECK(e.code() == manta::errc::no_runtime);
    CHECK(std::string(e.what()) == "manta::no_runtime: " + e.as_error().message());
  }
}

TEST_CASE("errors: one's own functions can answer in the same form") {
  const auto parse = [](const std::string& digits) -> manta::result<int> {
    if (digits.empty()) return manta::error(manta::errc::invalid_argument, "no digits");
    return std::stoi(digits);
  };
  CHECK(*parse("12") == 12);
  CHECK(parse("").error().message() == "no digits");
  CHECK(manta::error::out_of_memory().code() == manta::errc::out_of_memory);
  CHECK_THROWS_AS(manta::raise(manta::errc::timed_out, "too late"), manta::timed_out);
  try {
    fails();
  } catch (...) {
    const manta::error e = manta::describe_current_exception("fails");
    CHECK(e.failure()->message == "no such row");
  }
  CHECK(manta::readable_name("const char* name() [with auto F = fails]") == "fails");
}

TEST_CASE("errors: one exception type for each code") {
  const auto gives = [](manta::errc code, auto expected) {
    using type = typename decltype(expected)::type;
    try {
      manta::raise(code, "why");
    } catch (const type& e) {
      return e.code() == code;
    } catch (...) {
      return false;
    }
  };
  using manta::errc;
  CHECK(gives(errc::worker_lost, std::type_identity<manta::worker_lost>{}));
  CHECK(gives(errc::node_lost, std::type_identity<manta::node_lost>{}));
  CHECK(gives(errc::object_lost, std::type_identity<manta::object_lost>{}));
  CHECK(gives(errc::actor_lost, std::type_identity<manta::actor_lost>{}));
  CHECK(gives(errc::timed_out, std::type_identity<manta::timed_out>{}));
  CHECK(gives(errc::cancelled, std::type_identity<manta::cancelled>{}));
  CHECK(gives(errc::store_full, std::type_identity<manta::store_full>{}));
  CHECK(gives(errc::infeasible, std::type_identity<manta::infeasible>{}));
  CHECK(gives(errc::decode_failed, std::type_identity<manta::decode_failed>{}));
  CHECK(gives(errc::encode_failed, std::type_identity<manta::encode_failed>{}));
  CHECK(gives(errc::invalid_argument, std::type_identity<manta::invalid_argument>{}));
  CHECK(gives(errc::invalid_config, std::type_identity<manta::invalid_config>{}));
  CHECK(gives(errc::no_runtime, std::type_identity<manta::no_runtime>{}));
  CHECK(gives(errc::not_unique, std::type_identity<manta::not_unique>{}));
  CHECK(gives(errc::self_wait, std::type_identity<manta::self_wait>{}));
  CHECK(gives(errc::out_of_memory, std::type_identity<manta::out_of_memory>{}));
  CHECK(gives(errc::name_taken, std::type_identity<manta::name_taken>{}));
  CHECK(gives(errc::mailbox_full, std::type_identity<manta::mailbox_full>{}));
  CHECK(gives(errc::channel_closed, std::type_identity<manta::channel_closed>{}));
  CHECK(gives(errc::group_removed, std::type_identity<manta::group_removed>{}));
  CHECK(gives(errc::unsupported, std::type_identity<manta::unsupported>{}));
  CHECK(gives(errc::unknown_function, std::type_identity<manta::unknown_function>{}));
  CHECK(gives(errc::storage_failed, std::type_identity<manta::storage_failed>{}));
}
