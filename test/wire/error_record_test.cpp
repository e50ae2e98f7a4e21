// SPDX-License-Identifier: Apache-2.0
#include "wire/error_record.hpp"

#include <stdexcept>
#include <string>

#include <catch2/catch.hpp>

#include "wire/messages.hpp"

namespace {

using namespace wire_test;
using manta::errc;

struct own_type {
  const char* words = "mine";
};

// The innermost of `depth` exceptions is thrown first; each of the others holds the one before.
void throw_nested(int depth) {
  try {
    if (depth > 1) throw_nested(depth - 1);
  } catch (...) {
    std::throw_with_nested(std::out_of_range("level " + std::to_string(depth)));
  }
  throw std::range_error("level 1");
}

template <class Throw>
manta::error described(const Throw& thrower) {
  try {
    thrower();
  } catch (...) {
    return manta::describe_current_exception("work", 2);
  }
  return manta::error::out_of_memory();
}

// Over the wire and back.
manta::error carried(const manta::error& from) {
  const wire::error_record record(from);
  wire::result_view done;
  done.task = {1, 2};
  done.outcome = record.view();
  wire::message_writer writer;
  REQUIRE(writer.write({{1, 1}, 1, 0}, done));
  const frame bytes(writer);
  wire::message_reader reader;
  const auto back = reader.read(bytes.bytes());
  REQUIRE(back);
  return to_error(std::get<wire::error_view>(std::get<wire::result_view>(back->body).outcome));
}

std::string nested_text(const std::exception& outer) {
  try {
    std::rethrow_if_nested(outer);
  } catch (const std::exception& inner) {
    return std::string(inner.what()) + "; " + nested_text(inner);
  }
  return "end";
}

}  // namespace

TEST_CASE("an error of every code is carried", "[wire]") {
  for (int i = 1; i <= static_cast<int>(errc::storage_failed); ++i) {
    CAPTURE(i);
    const manta::error back = carried(manta::error(static_cast<errc>(i), "asked, found, do"));
    CHECK(back.code() == static_cast<errc>(i));
    CHECK(back.message() == "asked, found, do");
    CHECK(back.failure() == nullptr);
  }
}

TEST_CASE("a user's exception is carried with all that is known of it", "[wire]") {
  const manta::error from = described([] { throw std::out_of_range("index 9"); });
  const manta::error back = carried(from);
  CHECK(back.code() == errc::task_error);
  CHECK(back.message() == from.message());
  REQUIRE(back.failure() != nullptr);
  CHECK(back.failure()->type_name == "std::out_of_range");
  CHECK(back.failure()->message == "index 9");
  CHECK(back.failure()->function == "work");
  CHECK(back.failure()->node == "local");
  CHECK(back.failure()->attempt == 2);
  CHECK_THROWS_AS(std::rethrow_exception(back.failure()->cause), std::out_of_range);
}

TEST_CASE("what is no standard exception is carried as text", "[wire]") {
  const manta::error back = carried(described([] { throw own_type(); }));
  CHECK(back.failure()->type_name.find("own_type") != std::string::npos);
  CHECK(back.failure()->cause == nullptr);
}

TEST_CASE("nested exceptions are carried and nested again", "[wire]") {
  const manta::error back = carried(described([] { throw_nested(3); }));
  try {
    back.raise();
  } catch (const manta::task_error& caught) {
    CHECK(nested_text(caught) == "level 3; level 2; level 1; end");
  }
}

TEST_CASE("a chain has 16 descriptions at most", "[wire]") {
  const wire::error_record just(described([] { throw_nested(16); }));
  CHECK(just.view().chain.size() == 16);
  CHECK(just.view().chain.back().text == "level 1");
  const wire::error_record more(described([] { throw_nested(40); }));
  CHECK(more.view().chain.size() == 16);
  CHECK(more.view().chain.back().text == "level 25");
}
