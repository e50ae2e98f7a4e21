// SPDX-License-Identifier: Apache-2.0
// Every shape goes out and comes back the same; identity, order and what has no default.
#include <algorithm>
#include <complex>
#include <cstring>
#include <deque>
#include <filesystem>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <manta/codec/obstacle.hpp>

#include <catch2/catch.hpp>

#include "codec/values.hpp"

namespace {

namespace codec = manta::codec;
using Catch::Matchers::Contains;
using test::copied;
using test::encoded;
using namespace std::chrono_literals;

template <class T>
void stays(const T& value) {
  CHECK(copied(value) == value);
}

template <class T>
void stays_at_sizes(T (*make)(std::size_t)) {
  for (const std::size_t n : {0U, 1U, 2U, 63U, 64U, 127U, 128U, 4095U, 4096U, 4097U, 20000U}) {
    CAPTURE(n);
    stays(make(n));
  }
}

}  // namespace

TEST_CASE("numbers come back the same at their limits", "[codec]") {
  stays(std::numeric_limits<std::int64_t>::min());
  stays(std::numeric_limits<std::uint64_t>::max());
  stays(std::int8_t{-1});
  stays('x');
  stays(true);
  stays(false);
  stays(-0.0);
  stays(std::numeric_limits<double>::infinity());
  stays(3.25F);
  stays(0.1L);
  CHECK(std::isnan(copied(std::numeric_limits<double>::quiet_NaN())));
  stays(test::color::green);
  stays(test::two);
  stays(std::complex<double>(1, -2));
}

TEST_CASE("containers come back at every size around the limits", "[codec]") {
  stays_at_sizes(+[](std::size_t n) { return std::string(n, 'c'); });
  stays_at_sizes(+[](std::size_t n) { return std::u16string(n, u'c'); });
  stays_at_sizes(+[](std::size_t n) {
    std::vector<double> v(n);
    std::iota(v.begin(), v.end(), 0.5);
    return v;
  });
  stays_at_sizes(+[](std::size_t n) { return std::vector<test::pixel>(n, {1, 2, 3}); });
  stays_at_sizes(+[](std::size_t n) { return std::vector<test::padded>(n, {'a', 2, true}); });
  stays_at_sizes(+[](std::size_t n) { return std::vector<std::string>(n, "text"); });
  stays_at_sizes(+[](std::size_t n) { return std::vector<test::opaque>(n, {'a', 7}); });
  stays_at_sizes(+[](std::size_t n) { return std::vector<test::nothing>(n); });
  stays_at_sizes(+[](std::size_t n) {
    std::vector<bool> v(n);
    for (std::size_t i = 0; i < n; i += 3) v[i] = true;
    return v;
  });
  stays_at_sizes(+[](std::size_t n) { return std::deque<int>(n, 4); });
  stays_at_sizes(+[](std::size_t n) { return std::list<std::string>(n, "l"); });
  stays_at_sizes(+[](std::size_t n) {
    std::forward_list<int> l;
    for (std::size_t i = 0; i < n; ++i) l.push_front(static_cast<int>(i));
    return l;
  });
  stays_at_sizes(+[](std::size_t n) {
    std::map<std::string, int> m;
    for (std::size_t i = 0; i < n; ++i) m[std::to_string(i)] = static_cast<int>(i);
    return m;
  });
  stays_at_sizes(+[](std::size_t n) {
    std::unordered_multimap<int, std::string> m;
    for (std::size_t i = 0; i < n; ++i) m.emplace(static_cast<int>(i / 2), std::to_string(i));
    return m;
  });
  stays_at_sizes(+[](std::size_t n) {
    std::unordered_set<std::uint64_t> s;
    for (std::size_t i = 0; i < n; ++i) s.insert(i * i);
    return s;
  });
  stays(std::multiset<int>{3, 1, 3, 2});
  stays(std::array<int, 0>{});
  stays(std::array<std::string, 3>{"a", "b", "c"});
}

namespace {

// Bytes in a row, as a string has them, and two pointers to a constructor mean something else.
struct row {
  using value_type = char;
  using iterator = std::string::iterator;
  std::string letters;
  row() = default;
  explicit row(const char* text, bool is_doubled = false)
      : letters(is_doubled ? text + std::string(text) : text) {}
  char* data() { return letters.data(); }
  const char* data() const { return letters.data(); }
  std::size_t size() const { return letters.size(); }
  void push_back(char c) { letters.push_back(c); }
  void clear() { letters.clear(); }
  auto begin() { return letters.begin(); }
  auto begin() const { return letters.begin(); }
  auto end() { return letters.end(); }
  auto end() const { return letters.end(); }
};
struct own_string : std::string {};

}  // namespace

TEST_CASE("elements of a container are made as their class means it", "[codec]") {
  const auto back = test::copied(std::vector<row>{row("qr"), row(""), row("stu")});
  REQUIRE(back.size() == 3);
  CHECK(back[0].letters == "qr");
  CHECK(back[1].letters.empty());
  CHECK(back[2].letters == "stu");
  own_string one;
  one.assign("mine");
  CHECK(test::copied(std::deque<own_string>{one, one}).at(1) == "mine");
  // Behind a byte, values of eight bytes lie where they can't be read as such.
  const std::pair<char, std::vector<std::vector<double>>> odd{'x', {{1.5, 2.5}, {}, {3.5}}};
  CHECK(test::copied(odd) == odd);
  const std::pair<char, std::list<std::u32string>> wide{'x',
                                                        {U"a", U"", U"long enough to be kept"}};
  CHECK(test::copied(wide) == wide);
}

TEST_CASE("std's small classes come back", "[codec]") {
  stays(std::optional<int>());
  stays(std::optional<std::string>("x"));
  stays(std::variant<int, std::string>("y"));
  stays(std::variant<std::monostate, int>());
  stays(std::pair<const int, std::string>(3, "z"));
  stays(std::tuple<int, std::string, std::vector<int>>(1, "t", {1, 2}));
  stays(std::tuple<>());
  stays(std::chrono::milliseconds(-7));
  stays(std::chrono::duration<double>(0.25));
  stays(std::chrono::system_clock::now());
  stays(std::filesystem::path("/a/b c"));
  CHECK(*copied(std::make_unique<std::string>("owned")) == "owned");
  CHECK(copied(std::unique_ptr<int>()) == nullptr);
}

TEST_CASE("structs come back field by field", "[codec]") {
  stays(test::nothing{});
  stays(test::pixel{-1, 2, 0.5F});
  stays(test::padded{'p', 1.5, true});
  stays(test::record{7, 0.5, "sixteen letters."});
  stays(test::a_rich_value());
  const test::fixed f = copied(test::fixed{4, "const"});
  CHECK((f.id == 4 && f.name == "const"));
  const auto list = copied(std::vector<std::unique_ptr<test::record>>(3));
  CHECK(list.size() == 3);
}

TEST_CASE("padding is not written", "[codec]") {
  // What lay in memory before would tell things, and equal values would differ in their digests.
  const auto written = [](int fill) {
    alignas(test::padded) std::byte raw[sizeof(test::padded)];
    std::memset(raw, fill, sizeof raw);
    const auto* const value = new (raw) test::padded{'a', 2.0, true};
    return encoded(*value).head;
  };
  CHECK(written(0) == written(0xff));
  const auto written_opaque = [](int fill) {
    alignas(test::opaque) std::byte raw[sizeof(test::opaque)];
    std::memset(raw, fill, sizeof raw);
    const auto* const value = new (raw) test::opaque('a', 2);
    return encoded(*value).head;
  };
  CHECK(written_opaque(0).size() == sizeof(test::opaque));
#ifndef __clang__
  CHECK(written_opaque(0) == written_opaque(0xff));
#endif
}

TEST_CASE("recursive types come back", "[codec]") {
  test::tree t{1, {}, std::make_unique<test::tree>()};
  t.children.resize(2);
  t.children[1].value = 5;
  t.next->value = 9;
  const test::tree back = copied(t);
  CHECK(back.children.at(1).value == 5);
  CHECK(back.next->value == 9);
  CHECK(back.next->next == nullptr);
}

TEST_CASE("shared pointers keep who shares what, within one value", "[codec]") {
  auto shared = std::make_shared<std::string>("one");
  const std::vector<std::shared_ptr<std::string>> list{shared, nullptr, shared,
                                                       std::make_shared<std::string>("two")};
  const auto back = copied(list);
  CHECK(back[0] == back[2]);
  CHECK(back[1] == nullptr);
  CHECK(*back[0] == "one");
  CHECK(*back[3] == "two");
  CHECK(back[0] != shared);
  CHECK(back[0].use_count() == 2);
  auto a = std::make_shared<test::ring>();
  a->next = std::make_shared<test::ring>(test::ring{2, a});
  const auto ring = copied(a);
  CHECK(ring->next->next == ring);
  CHECK(ring->next->value == 2);
  a->next->next.reset();
  ring->next->next.reset();
  const std::pair<std::shared_ptr<int>, std::weak_ptr<int>> seen = [] {
    auto n = std::make_shared<int>(3);
    return copied(std::pair<std::shared_ptr<int>, std::weak_ptr<int>>(n, n));
  }();
  CHECK(seen.second.lock() == seen.first);
  CHECK(copied(std::weak_ptr<int>()).expired());
}

TEST_CASE("cereal's functions are called where a class has them", "[codec]") {
  CHECK(copied(test::counter(5)).n() == 5);
  CHECK(copied(test::celsius(20)).degrees() == 20);
  CHECK(copied(test::split({1, 2, 3})).values == std::vector<int>{1, 2, 3});
  CHECK(copied(test::shy("quiet")).text() == "quiet");
  CHECK(copied(std::vector<test::counter>(3, test::counter(4))).at(2).n() == 4);
  CHECK_THROWS_WITH(copied(test::celsius(-300)), Contains("its functions threw") &&
                                                     Contains("colder than nothing") &&
                                                     Contains("celsius"));
}

namespace {

// As an array whose bytes could not be had.
template <manta::errc Why>
struct without_array {
  template <class Archive>
  void save(Archive& to) const {
    to(1);
  }
  template <class Archive>
  void load(Archive& /*from*/) {
    manta::error(Why, "it is gone").raise();
  }
};

template <manta::errc Why>
manta::errc thrown_by_reading() {
  codec::out_archive out;
  const without_array<Why> value;
  const auto bytes = codec::encode(out, value);
  try {
    static_cast<void>(codec::decode<without_array<Why>>(bytes));
  } catch (const manta::exception& thrown) {
    return thrown.code();
  }
  return {};
}

}  // namespace

TEST_CASE("what an array is missed for is thrown as that", "[codec]") {
  using manta::errc;
  CHECK(thrown_by_reading<errc::object_lost>() == errc::object_lost);
  CHECK(thrown_by_reading<errc::store_full>() == errc::store_full);
  CHECK(thrown_by_reading<errc::node_lost>() == errc::node_lost);
  CHECK(thrown_by_reading<errc::actor_lost>() == errc::decode_failed);
}

TEST_CASE("large ranges lie beside the bytes and are read in place", "[codec]") {
  const std::vector<double> large(1000, 2.5);
  codec::out_archive out;
  const auto parcel = codec::encode(out, large);
  REQUIRE(parcel.segments.size() == 1);
  CHECK(parcel.head.size() < 8);
  CHECK(static_cast<const void*>(parcel.segments[0].bytes.data()) == large.data());
  codec::in_archive in(parcel);
  const auto found = in.range(sizeof(double), codec::type_hash<double>, "doubles");
  in.finish();
  const auto view = codec::view_in_place<double>(found);
  CHECK(view.data() == large.data());
  CHECK(view.size() == 1000);
  CHECK(codec::view_in_place<double>({found.at + 1, 10, true}).empty());
}

TEST_CASE("a sink says where segments are written to", "[codec]") {
  struct arena final : codec::segment_sink {
    alignas(64) std::byte memory[16384];
    std::size_t used = 0;
    std::byte* take(std::size_t bytes) override {
      std::byte* const at = memory + used;
      used += (bytes + 63) / 64 * 64;
      return at;
    }
  } to;
  codec::out_archive out(&to);
  const std::vector<int> large(1500, 3);
  std::pair both(large, std::string(5000, 's'));
  const auto parcel = codec::encode(out, both);
  REQUIRE(parcel.segments.size() == 2);
  CHECK(parcel.segments[0].bytes.data() == to.memory);
  CHECK(reinterpret_cast<std::uintptr_t>(parcel.segments[1].bytes.data()) % 64 == 0);
  std::fill(both.first.begin(), both.first.end(), 0);
  CHECK(codec::decode<std::pair<std::vector<int>, std::string>>(parcel).first.at(1499) == 3);
}

TEST_CASE("what keeps a value in its process is found wherever it is", "[codec]") {
  using codec::obstacle;
  struct deep {
    std::map<int, std::vector<std::shared_ptr<int*>>> at;
  };
  struct base_with_field {
    int x;
  };
  struct derived : base_with_field {
    int y;
  };
  enum open { one };
  const auto in = []<class T>(std::type_identity<T>) {
    return decltype(codec::find_obstacle<T>())::kind;
  };
  CHECK(in(std::type_identity<test::rich>()) == obstacle::none);
  CHECK(in(std::type_identity<test::tree>()) == obstacle::none);
  CHECK(in(std::type_identity<deep>()) == obstacle::pointer);
  CHECK(in(std::type_identity<derived>()) == obstacle::full_base);
  CHECK(in(std::type_identity<std::optional<open>>()) == obstacle::open_enum);
  CHECK(in(std::type_identity<std::shared_ptr<int[]>>()) == obstacle::stranger);
  CHECK(in(std::type_identity<std::weak_ptr<int[]>>()) == obstacle::stranger);
  CHECK(in(std::type_identity<std::shared_ptr<void>>()) == obstacle::stranger);
  CHECK(in(std::type_identity<std::unique_ptr<int[]>>()) == obstacle::deleter);
}

TEST_CASE("an archive is used again after it was cleared", "[codec]") {
  codec::out_archive out;
  auto shared = std::make_shared<int>(1);
  for (int i = 0; i < 3; ++i) {
    out.clear();
    const std::tuple value(std::vector<long>(1000, i), shared, i);
    const auto parcel = codec::encode(out, value);
    CHECK(parcel.segments.size() == 1);
    const auto back =
        codec::decode<std::tuple<std::vector<long>, std::shared_ptr<int>, int>>(parcel);
    CHECK(std::get<2>(back) == i);
    CHECK(std::get<0>(back).back() == i);
  }
}
