// SPDX-License-Identifier: Apache-2.0
// Bytes from anybody: cut, flipped, made up. Reading them ends in a value or in decode_failed, and
// takes no more memory than the bound says. Each refusal has its own message.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "codec/values.hpp"

namespace {

namespace codec = manta::codec;
using Catch::Matchers::Contains;
using manta::spec::parcel_view;
using test::encoded;
using test::kept_parcel;

/// True when it was refused with decode_failed; false when it is a value. All else goes through.
template <class T>
bool is_refused(const parcel_view& from) {
  try {
    static_cast<void>(codec::decode<T>(from));
    return false;
  } catch (const manta::decode_failed&) {
    return true;
  }
}

template <class T>
void cut_everywhere(const T& value) {
  const kept_parcel whole = encoded(value);
  REQUIRE_FALSE(is_refused<T>(whole.view()));
  for (std::size_t n = 0; n < whole.head.size(); ++n) {
    CAPTURE(n, whole.head.size());
    parcel_view part = whole.view();
    const std::vector<std::byte> copy(whole.head.begin(),
                                      whole.head.begin() + static_cast<std::ptrdiff_t>(n));
    part.head = copy;
    CHECK(is_refused<T>(part));
  }
  for (std::size_t i = 0; i < whole.views.size(); ++i) {
    kept_parcel less = encoded(value);
    less.views[i].bytes = less.views[i].bytes.first(less.views[i].bytes.size() - 1);
    CHECK(is_refused<T>(less.view()));
    less.views.erase(less.views.begin() + static_cast<std::ptrdiff_t>(i));
    CHECK(is_refused<T>(less.view()));
  }
  kept_parcel more = encoded(value);
  more.head.push_back(std::byte{0});
  CHECK(is_refused<T>(more.view()));
}

template <class T>
void flip_everywhere(const T& value) {
  kept_parcel whole = encoded(value);
  std::size_t refused = 0;
  for (std::byte& at : whole.head) {
    const std::byte good = at;
    for (const unsigned bits : {0x01U, 0x02U, 0x10U, 0x80U, 0xffU}) {
      at = good ^ std::byte{static_cast<std::uint8_t>(bits)};
      refused += is_refused<T>(whole.view()) ? 1 : 0;
    }
    at = good;
  }
  INFO(refused);
  CHECK_FALSE(is_refused<T>(whole.view()));
}

/// A parcel of these bytes.
struct bytes_of {
  std::vector<std::byte> head;
  bytes_of(std::initializer_list<int> list) {
    for (const int b : list) head.push_back(static_cast<std::byte>(b));
  }
  parcel_view view() const { return {head, {}, {}}; }
};

template <class T>
void refuses(const parcel_view& from, const std::string& why) {
  CHECK_THROWS_AS(codec::decode<T>(from), manta::decode_failed);
  CHECK_THROWS_WITH(codec::decode<T>(from),
                    Contains("decode: ") && Contains(why) && Contains("damaged"));
}

/// An allocator that knows the most bytes that were taken at one time.
struct meter {
  std::size_t live = 0;
  std::size_t most = 0;
};
meter& metered() {
  static meter of_all;
  return of_all;
}
template <class T>
struct metering {
  using value_type = T;
  metering() = default;
  template <class U>
  metering(const metering<U>& /*other*/) noexcept {}  // NOLINT(google-explicit-constructor)
  T* allocate(std::size_t n) {
    metered().live += n * sizeof(T);
    metered().most = std::max(metered().most, metered().live);
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* p, std::size_t n) noexcept {
    metered().live -= n * sizeof(T);
    std::allocator<T>().deallocate(p, n);
  }
  friend bool operator==(const metering& /*a*/, const metering& /*b*/) { return true; }
};

/// The most bytes taken at one time while the parcel of these bytes is read.
template <class T>
std::size_t taken_for(const std::vector<std::byte>& head) {
  metered() = {};
  static_cast<void>(is_refused<T>({head, {}, {}}));
  return metered().most;
}

using large = std::optional<std::array<double, 7000>>;
struct in_vector {
  large maybe;
  std::vector<in_vector> more;
};
struct in_list {
  large maybe;
  std::list<in_list> more;
};
struct in_map {
  large maybe;
  std::map<char, in_map> more;
};

/// Reads 254 values in each other: each but the last is `level`, the last `end`.
template <class T>
void deep(std::initializer_list<int> level, std::initializer_list<int> end) {
  std::vector<std::byte> head;
  const auto put = [&head](int b) { head.push_back(static_cast<std::byte>(b)); };
  for (int i = 0; i < 254; ++i) std::for_each(level.begin(), level.end(), put);
  std::for_each(end.begin(), end.end(), put);
  CHECK(codec::decode<T>({head, {}, {}}).more.size() == 1);
  head.pop_back();
  refuses<T>({head, {}, {}}, "1 bytes are needed");
}

test::tree a_tree() {
  test::tree t{1, {}, std::make_unique<test::tree>()};
  t.children.resize(3);
  t.children[2].children.resize(2);
  return t;
}

}  // namespace

TEST_CASE("what is cut anywhere is refused", "[codec][hostile]") {
  cut_everywhere(std::int64_t{5});
  cut_everywhere(std::string("some text"));
  cut_everywhere(test::a_rich_value());
  cut_everywhere(std::vector<double>(1000, 1.0));
  cut_everywhere(a_tree());
  cut_everywhere(std::vector<std::shared_ptr<int>>(3, std::make_shared<int>(4)));
  cut_everywhere(test::counter(3));
  cut_everywhere(test::split({1, 2, 3}));
  cut_everywhere(std::vector<bool>(100, true));
  cut_everywhere(std::map<std::string, std::list<int>>{{"a", {1}}, {"b", {2, 3}}});
  cut_everywhere(std::tuple<>());
  cut_everywhere(std::vector<test::nothing>(10));
}

TEST_CASE("what is flipped anywhere is a value or refused", "[codec][hostile]") {
  flip_everywhere(std::string(200, 'f'));
  flip_everywhere(test::a_rich_value());
  flip_everywhere(a_tree());
  flip_everywhere(std::vector<std::shared_ptr<test::record>>(
      4, std::make_shared<test::record>(test::record{1, 2, "three"})));
  flip_everywhere(std::vector<std::string>(50, "text"));
  flip_everywhere(std::vector<double>(1000, 1.0));
  flip_everywhere(test::celsius(7));
  flip_everywhere(test::split({1, 2, 3}));
  flip_everywhere(std::unordered_map<int, std::vector<bool>>{{1, {true}}, {2, {false, true}}});
}

TEST_CASE("each thing that can't be has its own message", "[codec][hostile]") {
  refuses<std::int32_t>(bytes_of{1, 2, 3}.view(), "4 bytes are needed at byte 0, 3 are left");
  refuses<std::int8_t>(bytes_of{1, 2}.view(), "1 bytes are left over after byte 1");
  refuses<bool>(bytes_of{2}.view(), "bool before byte 1 is 2, allowed are 0 or 1");
  refuses<test::color>(bytes_of{3}.view(), "is 3, allowed are those of its enum_range");
  refuses<std::optional<int>>(bytes_of{7}.view(), "is 7, allowed are 0 or 1");
  refuses<std::variant<int, bool>>(bytes_of{2, 0}.view(),
                                   "is 2, allowed are one of its alternatives");
  refuses<std::vector<std::string>>(bytes_of{9, 0}.view(), "has 9 elements, 1 bytes are left");
  refuses<std::vector<int>>(bytes_of{200, 1}.view(), "has 100 elements, 0 bytes are left");
  refuses<std::vector<bool>>(bytes_of{100}.view(), "larger than what is left");
  refuses<std::vector<int>>(bytes_of{3}.view(), "asks for segment 0, there are 0");
  refuses<std::string>(bytes_of{255, 255, 255, 255, 255, 255, 255, 255, 255, 2}.view(),
                       "has more than 64 bits");
  refuses<std::shared_ptr<int>>(bytes_of{2}.view(), "points to object 2, 0 came before");
  using two = std::pair<std::shared_ptr<int>, std::shared_ptr<float>>;
  refuses<two>(bytes_of{1, 0, 0, 0, 0, 1}.view(), "points to object 1, which is of another type");
  refuses<test::counter>(bytes_of{255, 255, 255, 255, 255, 1, 0, 0, 0, 0}.view(),
                         "allowed are 32 bits of a version");
  refuses<test::split>(bytes_of{0, 90}.view(), "has 90 elements, 0 bytes are left");
}

TEST_CASE("a segment has to be what is asked for", "[codec][hostile]") {
  const std::vector<std::int32_t> large(2000, 1);
  kept_parcel p = encoded(large);
  refuses<std::vector<float>>(p.view(), "has elements of another type (4 bytes each)");
  refuses<std::vector<std::int64_t>>(p.view(), "another type");
  p.views[0].bytes = p.views[0].bytes.first(7996);
  refuses<std::vector<std::int32_t>>(p.view(),
                                     "has 7996 bytes, 2000 elements of 4 bytes were told");
  kept_parcel twice = encoded(large);
  twice.views.push_back(twice.views[0]);
  refuses<std::vector<std::int32_t>>(twice.view(), "1 of 2 segments were asked for");
}

TEST_CASE("an object that contains itself and has no default is refused", "[codec][hostile]") {
  struct knot {
    const int id;
    std::shared_ptr<knot> next;
  };
  refuses<std::shared_ptr<knot>>(bytes_of{1, 5, 0, 0, 0, 1}.view(), "which contains it");
}

TEST_CASE("values lie at most 256 deep in each other", "[codec][hostile]") {
  const auto chain = [](int links) {
    std::unique_ptr<test::tree> first;
    for (int i = 0; i < links; ++i) {
      first = std::make_unique<test::tree>(test::tree{i, {}, std::move(first)});
    }
    return first;
  };
  // The last one has a list of children, which is one deeper.
  CHECK(test::copied(chain(254))->value == 253);
  CHECK(test::copied(chain(255))->value == 254);
  codec::out_archive out;
  const auto deep = chain(256);
  CHECK_THROWS_AS(codec::encode(out, deep), manta::encode_failed);
  out.clear();
  CHECK_THROWS_WITH(codec::encode(out, deep),
                    Contains("more than 256 deep") && Contains("as a vector"));
  std::vector<std::byte> endless;
  for (int i = 0; i < 100000; ++i) {
    // There is one; its value; it has no children; and so on.
    for (const int b : {1, 0, 0, 0, 0, 0}) endless.push_back(static_cast<std::byte>(b));
  }
  refuses<std::unique_ptr<test::tree>>({endless, {}, {}}, "lies more than 256 deep");
}

TEST_CASE("memory is bounded by the bytes that were sent", "[codec][hostile]") {
  struct fat {
    std::optional<std::array<double, 4096>> maybe;
  };
  CHECK(codec::most_memory(0) == 16U << 20U);
  CHECK(codec::most_memory(1000) == (16U << 20U) + 256000);
  CHECK(codec::most_memory(UINT64_MAX) == UINT64_MAX);
  // 32 KiB for each byte: 512 of them fit in 16 MiB.
  const auto of = [](std::size_t n) { return std::vector<fat>(n); };
  CHECK(test::copied(of(500)).size() == 500);
  codec::out_archive out;
  const auto many = of(1000);
  CHECK_THROWS_AS(codec::encode(out, many), manta::encode_failed);
  out.clear();
  CHECK_THROWS_WITH(codec::encode(out, many),
                    Contains("would become") && Contains("send it in parts"));
  std::vector<std::byte> made_up{std::byte{0xe8}, std::byte{0x07}};
  made_up.resize(2 + 1000);
  refuses<std::vector<fat>>({made_up, {}, {}}, "bytes of memory");
}

TEST_CASE("a vector that is read takes no more than is charged for it", "[codec][hostile]") {
  struct fat {
    std::optional<std::array<double, 4096>> maybe;
  };
  // 500 elements of 32 KiB, which are within the bound; grown step by step it took 24 MiB.
  std::vector<std::byte> head{std::byte{0xf4}, std::byte{0x03}};
  head.resize(2 + 500);
  const std::size_t taken = taken_for<std::vector<fat, metering<fat>>>(head);
  CHECK(taken >= 500 * sizeof(fat));
  CHECK(taken <= codec::most_memory(head.size()));
  // One element too few: the rest was granted, and is given back.
  head.resize(2 + 499);
  CHECK(taken_for<std::vector<fat, metering<fat>>>(head) <= codec::most_memory(head.size()));
  CHECK(metered().live == 0);
}

TEST_CASE("empty deques take the memory that is charged for them", "[codec][hostile]") {
  // An empty one has a block already: of 512 bytes for small elements, of one that is large.
  struct large {
    std::optional<std::array<char, 32768>> maybe;
  };
  using deques = std::vector<std::deque<large, metering<large>>>;
  std::vector<std::byte> head{std::byte{0xf4}, std::byte{0x07}};
  head.resize(2 + 1012);
  CHECK(taken_for<deques>(head) <= codec::most_memory(head.size()));
  refuses<deques>({head, {}, {}}, "bytes of memory");
  using small = std::list<std::deque<char, metering<char>>>;
  std::vector<std::byte> many{std::byte{0xa0}, std::byte{0x8d}, std::byte{0x06}};  // 100,000
  many.resize(3 + 100'000);
  CHECK(taken_for<small>(many) <= codec::most_memory(many.size()));
  refuses<small>({many, {}, {}}, "bytes of memory");
  codec::out_archive out;
  const deques written(1000);
  CHECK_THROWS_AS(codec::encode(out, written), manta::encode_failed);
  CHECK(test::copied(deques(300)).size() == 300);
}

TEST_CASE("large values in each other need no stack of their size", "[codec][hostile]") {
  // 56 KB for each of 254 levels: a copy of each on the stack would be 14 MB, and a crash.
  deep<in_vector>({0, 1}, {0, 0});
  deep<in_list>({0, 1}, {0, 0});
  deep<in_map>({0, 1, 7}, {0, 0});
}

TEST_CASE("an exception in the middle leaves the archive usable", "[codec][hostile]") {
  codec::out_archive out;
  struct bomb {
    int n = 0;
    void save(codec::out_archive& ar) const {
      ar(n);
      if (n == 3) throw std::runtime_error("boom");
    }
    void load(codec::in_archive& ar) { ar(n); }
  };
  const std::vector<std::unique_ptr<bomb>> list = [] {
    std::vector<std::unique_ptr<bomb>> l;
    for (int i = 0; i < 5; ++i) l.push_back(std::make_unique<bomb>(bomb{i}));
    return l;
  }();
  CHECK_THROWS_WITH(codec::encode(out, list), "boom");
  out.clear();
  const int seven = 7;
  CHECK(codec::decode<int>(codec::encode(out, seven)) == 7);
}
