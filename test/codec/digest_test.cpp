// SPDX-License-Identifier: Apache-2.0
// Ids and digests of calls: the same when a task is run again, and others when its control flow is
// another, so that no call is taken for another one's.
#include <manta/codec/digest.hpp>
#include <manta/exceptions.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "codec/plugin.hpp"
#include "codec/values.hpp"

namespace {

namespace codec = manta::codec;
using manta::base::id;

template <class... A>
id digest_of(const A&... arguments) {
  codec::out_archive out;
  (codec::write(out, arguments), ...);
  out.finish();
  return codec::digest(out.view());
}

int square(int value) { return value * value; }

struct abstract_error {
  virtual ~abstract_error() = default;
  virtual const char* why() const = 0;
};
struct concrete_error final : abstract_error {
  const char* why() const override { return "why not"; }
};

/// A call as its record has it.
struct call {
  id name;
  id digest;
  friend bool operator==(const call&, const call&) = default;
};

/// What a run of a task calls: names follow from the parent, the number of the call and the
/// function, as exec::id_of makes them.
class run {
 public:
  explicit run(id parent) : parent_(parent) {}
  template <class... A>
  run& calls(const char* function, const A&... arguments) {
    made_.push_back({manta::base::derive(parent_, made_.size(), manta::base::hash_name(function)),
                     digest_of(arguments...)});
    return *this;
  }
  const std::vector<call>& made() const { return made_; }

 private:
  id parent_;
  std::vector<call> made_;
};

}  // namespace

TEST_CASE("equal values have equal digests, whatever they are in memory", "[codec][digest]") {
  CHECK(digest_of(1, std::string("a")) == digest_of(1, std::string("a")));
  std::vector<int> grown;
  for (int i = 0; i < 5000; ++i) grown.push_back(i);
  std::vector<int> reserved(grown);
  reserved.reserve(100000);
  CHECK(digest_of(grown) == digest_of(reserved));
  CHECK(digest_of(test::a_rich_value()) == digest_of(test::a_rich_value()));
}

TEST_CASE("values that differ anywhere have other digests", "[codec][digest]") {
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  std::size_t made = 0;
  const auto see = [&](const id& d) {
    seen.insert({d.high, d.low});
    ++made;
  };
  for (int i = 0; i < 1000; ++i) see(digest_of(i));
  for (int i = 0; i < 1000; ++i) see(digest_of(std::int64_t{i}));
  std::vector<std::uint8_t> bytes(64);
  see(digest_of(bytes));
  for (auto& at : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      at ^= static_cast<std::uint8_t>(1U << static_cast<unsigned>(bit));
      see(digest_of(bytes));
      at ^= static_cast<std::uint8_t>(1U << static_cast<unsigned>(bit));
    }
  }
  for (std::size_t n = 0; n < 100; ++n) see(digest_of(std::string(n, '\xff')));
  std::vector<double> large(1000);
  see(digest_of(large));
  large[999] = 1;
  see(digest_of(large));
  see(digest_of(large, 1));
  see(digest_of());
  CHECK(seen.size() == made);
  // A range of another type is another value, though its bytes are the same.
  CHECK_FALSE(digest_of(std::vector<std::int64_t>(1000)) ==
              digest_of(std::vector<std::uint64_t>(1000)));
}

TEST_CASE("a task that is run again makes the same calls by the same names", "[codec][digest]") {
  const id task{11, 12};
  const auto body = [&] {
    run r(task);
    for (int i = 0; i < 100; ++i) r.calls("f", i, std::string(static_cast<std::size_t>(i), 'x'));
    r.calls("g", std::vector<double>(2000, 0.5));
    return r.made();
  };
  CHECK(body() == body());
  CHECK_FALSE(run({11, 13}).calls("f", 1).made() == run({11, 12}).calls("f", 1).made());
}

TEST_CASE("a run with another control flow is told from the first by the digests",
          "[codec][digest]") {
  // The second run skips a call: from there on names meet, which are of other calls. The digests
  // tell, even where the function is the same one.
  const id task{21, 22};
  const auto first = run(task).calls("f", 1).calls("f", 2).calls("f", 3).made();
  const auto second = run(task).calls("f", 1).calls("f", 3).made();
  CHECK(second[0] == first[0]);
  CHECK(second[1].name == first[1].name);
  CHECK_FALSE(second[1].digest == first[1].digest);
  // Another function has another name from the start.
  const auto third = run(task).calls("f", 1).calls("g", 2).made();
  CHECK_FALSE(third[1].name == first[1].name);
}

TEST_CASE("options are values", "[codec]") {
  manta::options asked;
  asked.cpus = 0.5;
  asked.resources = {{"license", 2}};
  asked.timeout = std::chrono::seconds(3);
  asked.name = "fit";
  asked.where = manta::with_labels({{"zone", "a"}});
  asked.priority = manta::priority::high;
  const manta::options back = test::copied(asked);
  CHECK(back.cpus == 0.5);
  CHECK(back.resources.at(0).second == 2);
  CHECK(back.timeout == asked.timeout);
  CHECK(back.name == "fit");
  CHECK(back.where.by == manta::placement::rule::labels);
  CHECK(back.priority == manta::priority::high);
  CHECK_FALSE(back.retry_exceptions);
  const auto thrown = std::make_exception_ptr(std::range_error("far"));
  asked.retry_exceptions = manta::any_exception();
  CHECK(test::copied(asked).retry_exceptions.matches(thrown));
  asked.retry_exceptions = manta::exceptions<std::logic_error, std::runtime_error>();
  CHECK(test::copied(asked).retry_exceptions.matches(thrown));
  CHECK(test::copied(asked).retry_exceptions.entry == asked.retry_exceptions.entry);
  asked.retry_exceptions = manta::exceptions<std::logic_error>();
  CHECK(test::copied(asked).retry_exceptions);
  CHECK_FALSE(test::copied(asked).retry_exceptions.matches(thrown));
  asked.retry_exceptions = {[](const std::exception_ptr&) { return true; }};
  CHECK_THROWS_AS(test::encoded(asked), manta::encode_failed);
  CHECK_THROWS_WITH(test::encoded(asked), Catch::Matchers::Contains("made by hand"));
  asked.retry_exceptions.entry = manta::any_exception().entry;  // which means another test
  CHECK_THROWS_AS(test::encoded(asked), manta::encode_failed);
  asked.retry_exceptions = manta::exceptions<abstract_error>();
  CHECK(test::copied(asked).retry_exceptions.matches(std::make_exception_ptr(concrete_error())));
  const manta::call_options call{.timeout = std::chrono::seconds(1), .group = "io"};
  CHECK(test::copied(call).group == "io");
  const manta::actor_options actor{.name = "a", .groups = {{"io", 4}}};
  CHECK(test::copied(actor).groups.at(0).limit == 4);
}

TEST_CASE("bytes of a retry filter name a filter of this program, or are refused", "[codec]") {
  const auto refusal_of = [](std::uint8_t has_one, const manta::spec::function_id& named) {
    codec::out_archive out;
    out(has_one, named.module, named.offset);
    const auto from = out.view();
    try {
      static_cast<void>(codec::decode<manta::exception_filter>(from));
      return std::string();
    } catch (const manta::decode_failed& e) {
      return std::string(e.what());
    }
  };
  const manta::spec::function_id filter = codec::id_of(*manta::any_exception().entry);
  CHECK(refusal_of(1, filter).empty());
  using Catch::Matchers::Contains;
  CHECK_THAT(refusal_of(2, filter), Contains("allowed are 0 or 1"));
  CHECK_THAT(refusal_of(0, filter), Contains("16 bytes are left over"));
  CHECK_THAT(refusal_of(1, {filter.module, filter.offset + 1}), Contains("function"));
  CHECK_THAT(refusal_of(1, {filter.module + 1, filter.offset}), Contains("build"));
  const auto& function = manta_test::entry_of<square>();
  CHECK_THAT(refusal_of(1, codec::id_of(function)),
             Contains("a retry filter is named by the id of the function"));
}

TEST_CASE("errors are values", "[codec]") {
  const manta::error plain(manta::errc::timed_out, "asked, found, do");
  CHECK(test::copied(plain).code() == manta::errc::timed_out);
  CHECK(test::copied(plain).message() == "asked, found, do");
  const manta::error thrown(manta::task_failure{"my::error", "text", "f(int)", "node", 2, nullptr});
  const manta::error back = test::copied(thrown);
  REQUIRE(back.failure() != nullptr);
  CHECK(back.message() == thrown.message());
  CHECK(back.failure()->attempt == 2);
  test::kept_parcel damaged = test::encoded(plain);
  damaged.head[0] = std::byte{0xff};
  CHECK_THROWS_AS(codec::decode<manta::error>(damaged.view()), manta::decode_failed);
}
