// SPDX-License-Identifier: Apache-2.0
// How values travel: into tasks by value and by future, out of them by reference and by move.
#include <array>
#include <complex>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/support.hpp"

namespace value_test {

namespace {

using test::tracked;

int by_value(int x) { return x + 1; }
int by_const_ref(const int& x) { return x + 2; }
int by_rvalue(int&& x) { return x + 3; }
int add(int a, int b) { return a + b; }
std::string join(const std::string& a, std::string b) { return a + b; }
void nothing() {}
bool negate_bool(bool b) { return !b; }
struct unit {};
unit make_unit(unit u) { return u; }
tracked make_tracked(int v) { return tracked(v); }
int read_tracked(const tracked& t) { return t.value; }
int take_tracked(tracked t) { return t.value; }
int take_tracked_rvalue(tracked&& t) {
  const tracked mine = std::move(t);
  return mine.value;
}
std::unique_ptr<int> make_unique_int(int v) { return std::make_unique<int>(v); }
int take_unique(std::unique_ptr<int> p) { return p ? *p : -1; }
int read_unique(const std::unique_ptr<int>& p) { return p ? *p : -1; }
int sum_values(std::vector<int> v) { return std::accumulate(v.begin(), v.end(), 0); }
int sum_const_vector(const std::vector<int>& v) { return std::accumulate(v.begin(), v.end(), 0); }
int sum_span(std::span<const int> v) { return std::accumulate(v.begin(), v.end(), 0); }
std::vector<int> iota_vector(int n) {
  std::vector<int> v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  return v;
}
template <class T>
T twice(T x) {
  return static_cast<T>(x + x);
}

}  // namespace

TEST_CASE("a function gets its arguments and its future the result", "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  CHECK(manta::remote<add>(2, 3).get() == 5);
  CHECK(manta::remote<join>("a", std::string("b")).get() == "ab");
  CHECK(manta::remote<negate_bool>(true).get() == false);
  CHECK(manta::remote<twice<long>>(21L).get() == 42);
  CHECK(manta::remote<twice<double>>(1.5).get() == 3.0);
  CHECK(manta::remote<[](int x) { return x * 10; }>(4).get() == 40);
  manta::future<void> none = manta::remote<nothing>();
  none.get();
  CHECK(none.is_ready());
  std::move(none).get();
  CHECK_FALSE(none.valid());
  static_cast<void>(manta::remote<make_unit>(unit{}).get());
}

TEST_CASE("an argument converts to its parameter like in a plain call", "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  CHECK(manta::remote<add>(short{2}, 'a').get() == 2 + 'a');
  CHECK(manta::remote<twice<double>>(2).get() == 4.0);
  const std::string text = "x";
  CHECK(manta::remote<join>(text, text).get() == "xx");
}

TEST_CASE("a future stands for its value where the function takes it", "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const manta::future<int> f = manta::remote<add>(1, 1);
  CHECK(manta::remote<by_value>(f).get() == 3);
  CHECK(manta::remote<by_const_ref>(f).get() == 4);
  CHECK(manta::remote<by_rvalue>(f).get() == 5);
  CHECK(manta::remote<by_value>(manta::remote<add>(1, 1)).get() == 3);
  CHECK(f.get() == 2);
  manta::future<std::string> s = manta::remote<join>("a", "b");
  CHECK(manta::remote<join>(s, s).get() == "abab");
  CHECK(manta::remote<join>(manta::remote<join>(s, "-"), s).get() == "ab-ab");
}

TEST_CASE("the same future may be given twice", "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  test::scoped_gate go;
  const auto late = manta::async([&go] {
    go.wait();
    return 21;
  });
  const auto sum = manta::remote<add>(late, late);
  CHECK_FALSE(sum.is_ready());
  go.open();
  CHECK(sum.get() == 42);
  CHECK(manta::remote<add>(late, late).get() == 42);
}

TEST_CASE("chains of 1,000 futures give the right value", "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  test::scoped_gate go;
  manta::future<int> f = manta::async([&go] {
    go.wait();
    return 0;
  });
  for (int i = 0; i < 1000; ++i) f = manta::remote<by_value>(std::move(f));
  go.open();
  CHECK(f.get() == 1000);
}

TEST_CASE("a vector of futures is gathered into a vector, a const vector and a span",
          "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  test::scoped_gate go;
  std::vector<manta::future<int>> parts;
  for (int i = 0; i < 100; ++i) {
    parts.push_back(manta::async([&go, i] {
      if (i % 10 == 0) go.wait();
      return i;
    }));
  }
  const auto a = manta::remote<sum_values>(parts);
  const auto b = manta::remote<sum_const_vector>(parts);
  const auto c = manta::remote<sum_span>(std::move(parts));
  CHECK_FALSE(a.is_ready());
  go.open();
  CHECK(a.get() == 4950);
  CHECK(b.get() == 4950);
  CHECK(c.get() == 4950);
  CHECK(manta::remote<sum_values>(std::vector<manta::future<int>>{}).get() == 0);
}

TEST_CASE("a span of const reads vectors, arrays and the value of a future in place",
          "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  CHECK(manta::remote<sum_span>(std::vector<int>{1, 2, 3}).get() == 6);
  CHECK(manta::remote<sum_span>(std::array<int, 3>{1, 2, 4}).get() == 7);
  const manta::future<std::vector<int>> made = manta::remote<iota_vector>(10);
  CHECK(manta::remote<sum_span>(made).get() == 45);
  const std::vector<int> plain{5, 6};
  CHECK(manta::remote<sum_span>(plain).get() == 11);
}

TEST_CASE("order is kept and movable values are moved when futures are gathered",
          "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  std::vector<manta::future<std::unique_ptr<int>>> parts;
  for (int i = 0; i < 10; ++i) parts.push_back(manta::remote<make_unique_int>(i));
  constexpr auto digits = [](std::vector<std::unique_ptr<int>> v) {
    std::string text;
    for (const auto& p : v) text += std::to_string(*p);
    return text;
  };
  CHECK(manta::remote<digits>(std::move(parts)).get() == "0123456789");
}

namespace {

struct bundle {
  manta::future<int> one;
  std::vector<manta::future<int>> many;
  std::map<std::string, manta::future<int>> named;
};
int open_future(manta::future<int> f) { return f.get(); }
int open_future_ref(const manta::future<int>& f) { return f.get(); }
int open_vector(const std::vector<manta::future<int>>& v) {
  int sum = 0;
  for (const auto& f : v) sum += f.get();
  return sum;
}
int open_bundle(const bundle& b) {
  return b.one.get() + open_vector(b.many) + b.named.at("x").get();
}
bool sees_pending(manta::future<int> f) { return !f.is_ready(); }
bundle make_bundle() {
  return {manta::remote<by_value>(1), {manta::remote<by_value>(2)}, {{"x", manta::put(7)}}};
}

}  // namespace

TEST_CASE("a function that takes a future gets the handle and not the value", "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto f = manta::remote<by_value>(4);
  CHECK(manta::remote<open_future>(f).get() == 5);
  CHECK(manta::remote<open_future_ref>(f).get() == 5);
  CHECK(manta::remote<open_vector>(std::vector{f, f}).get() == 10);
  test::scoped_gate go;
  const auto late = manta::async([&go] {
    go.wait();
    return 1;
  });
  CHECK(manta::remote<sees_pending>(late).get());
  go.open();
  CHECK(late.get() == 1);  // it looks at the gate as long as it runs
}

TEST_CASE("futures nested in structs and containers stay futures", "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const auto f = manta::remote<by_value>(1);
  bundle b{f, {f, f}, {{"x", f}}};
  CHECK(manta::remote<open_bundle>(b).get() == 8);
  CHECK(manta::remote<open_bundle>(std::move(b)).get() == 8);
  // Returned inside a struct they are not waited for, and live by the struct.
  const manta::future<bundle> made = manta::remote<make_bundle>();
  CHECK(manta::remote<open_bundle>(made).get() == 2 + 3 + 7);
  const auto inner = manta::remote<make_bundle>().get().many[0];
  CHECK(inner.get() == 3);
}

TEST_CASE("get by const reference copies nothing and gives the same object", "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  tracked::reset();
  const manta::future<tracked> f = manta::remote<make_tracked>(5);
  const tracked& a = f.get();
  const manta::future<tracked> other = f;
  const tracked& b = other.get();
  CHECK(a.value == 5);
  CHECK(&a == &b);
  CHECK(manta::remote<read_tracked>(f).get() == 5);
  CHECK(&f.try_get().value() == &a);
  CHECK(&f.get(test::patience) == &a);
  CHECK(tracked::copies == 0);
  CHECK(tracked::moves == (test::copies_values() ? 1 : 0));
}

TEST_CASE("get by rvalue moves out when nobody else holds the value, else copies",
          "[value][anywhere][stays:engine]") {
  const manta::runtime rt(test::two_workers());
  tracked::reset();
  {
    manta::future<tracked> f = manta::remote<make_tracked>(6);
    const tracked mine = std::move(f).get();
    CHECK(mine.value == 6);
    CHECK_FALSE(f.valid());
    CHECK(tracked::copies == 0);
    CHECK(tracked::moves == (test::copies_values() ? 2 : 1));
  }
  tracked::reset();
  {
    manta::future<tracked> f = manta::remote<make_tracked>(7);
    const manta::future<tracked> other = f;
    const tracked mine = std::move(f).get();
    CHECK(mine.value == 7);
    CHECK(other.get().value == 7);
    CHECK(tracked::copies == 1);
  }
}

// The queue's entry of a task that was run in place stays behind; it must not count as a holder.
TEST_CASE("get by rvalue moves out whoever ran the task and in whatever order",
          "[value][anywhere]") {
  const manta::runtime rt(test::workers(1));
  for (const bool is_forward : {true, false}) {
    for (int round = 0; round < 20; ++round) {
      tracked::reset();
      std::vector<manta::future<tracked>> many;
      std::vector<manta::future<std::unique_ptr<int>>> unique;
      for (int i = 0; i < 200; ++i) {
        many.push_back(manta::remote<make_tracked>(i));
        unique.push_back(manta::remote<make_unique_int>(i));
      }
      int wrong = 0;
      for (int k = 0; k < 200; ++k) {
        const auto i = static_cast<std::size_t>(is_forward ? k : 199 - k);
        wrong += std::move(many[i]).get().value != static_cast<int>(i) ? 1 : 0;
        wrong += *std::move(unique[i]).get() != static_cast<int>(i) ? 1 : 0;
      }
      CHECK(wrong == 0);
      CHECK(tracked::copies == 0);
    }
  }
}

TEST_CASE("a pending task that uses the value makes an rvalue get copy it", "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  test::scoped_gate go;
  const auto blocker = manta::async([&go] {
    go.wait();
    return 1;
  });
  manta::future<tracked> f = manta::remote<make_tracked>(8);
  f.get();
  tracked::reset();
  constexpr auto later = [](const tracked& t, int x) { return t.value + x; };
  const auto use = manta::remote<later>(f, blocker);
  const tracked mine = std::move(f).get();
  CHECK(mine.value == 8);
  CHECK(tracked::copies == 1);
  go.open();
  CHECK(use.get() == 9);
}

// Of one node: another one reads a value of its own, whose copies nobody here counts.
TEST_CASE("a task gets the last holder's value by move and a shared one by copy",
          "[value][one_node]") {
  const manta::runtime rt(test::two_workers());
  tracked::reset();
  CHECK(manta::remote<take_tracked>(manta::remote<make_tracked>(1)).get() == 1);
  CHECK(manta::remote<take_tracked_rvalue>(manta::remote<make_tracked>(2)).get() == 2);
  CHECK(tracked::copies == 0);
  const auto kept = manta::remote<make_tracked>(3);
  CHECK(manta::remote<take_tracked>(kept).get() == 3);
  CHECK(manta::remote<take_tracked_rvalue>(kept).get() == 3);
  CHECK(kept.get().value == 3);
  CHECK(tracked::copies == 2);
}

TEST_CASE("a value given by move is moved all the way and by name copied once",
          "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  tracked::reset();
  CHECK(manta::remote<take_tracked>(tracked(4)).get() == 4);
  CHECK(tracked::copies == 0);
  const tracked named(5);
  CHECK(manta::remote<read_tracked>(named).get() == 5);
  CHECK(manta::remote<take_tracked>(named).get() == 5);
  CHECK(tracked::copies == 2);
}

TEST_CASE("move-only values are arguments and results", "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  CHECK(manta::remote<take_unique>(std::make_unique<int>(3)).get() == 3);
  CHECK(manta::remote<take_unique>(manta::remote<make_unique_int>(4)).get() == 4);
  manta::future<std::unique_ptr<int>> f = manta::remote<make_unique_int>(5);
  CHECK(*f.get() == 5);
  CHECK(manta::remote<read_unique>(f).get() == 5);
  CHECK(*std::move(f).get() == 5);
}

// Likewise: what is read there is nobody else's.
TEST_CASE("a move-only value that is shared can't be moved out: not_unique", "[value][one_node]") {
  const manta::runtime rt(test::two_workers());
  manta::future<std::unique_ptr<int>> f = manta::remote<make_unique_int>(6);
  const auto other = f;
  CHECK_THROWS_AS(std::move(f).get(), manta::not_unique);
  CHECK_THROWS_AS(manta::remote<take_unique>(other).get(), manta::not_unique);
  const std::string said =
      test::message_of<manta::not_unique>([&] { manta::remote<take_unique>(other).get(); });
  CHECK(said.find("unique_ptr") != std::string::npos);
  CHECK(*other.get() == 6);
}

namespace {

template <std::size_t N>
struct alignas(N) aligned {
  std::array<unsigned char, N> bytes{};
  explicit aligned(unsigned char v = 0) { bytes.fill(v); }
};
template <std::size_t N>
bool is_aligned(const aligned<N>& a) {
  return reinterpret_cast<std::uintptr_t>(&a) % N == 0;
}
template <std::size_t N>
bool is_aligned_and(const aligned<N>& a, unsigned char v) {
  return is_aligned(a) && a.bytes[0] == v && a.bytes[N - 1] == v;
}
template <std::size_t N>
aligned<N> make_aligned(unsigned char v) {
  return aligned<N>(v);
}
template <std::size_t N>
void check_alignment() {
  for (unsigned char v = 0; v < 20; ++v) {
    const auto f = manta::remote<make_aligned<N>>(v);
    CHECK(is_aligned(f.get()));
    CHECK(manta::remote<is_aligned_and<N>>(f, v).get());
    CHECK(manta::remote<is_aligned_and<N>>(aligned<N>(v), v).get());
    CHECK(is_aligned(manta::put(aligned<N>(v)).get()));
  }
}
template <std::size_t N>
aligned<N> fail_aligned() {
  throw std::runtime_error("aligned");
}
template <std::size_t N>
manta::future<aligned<N>> delegate_aligned(unsigned char v) {
  return manta::remote<make_aligned<N>>(v);
}

}  // namespace

TEST_CASE("over-aligned values are aligned as results, arguments and objects",
          "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  check_alignment<16>();
  check_alignment<32>();
  check_alignment<64>();
  CHECK_THROWS_AS(manta::remote<fail_aligned<64>>().get(), manta::task_error);
  const auto through = manta::remote<delegate_aligned<32>>(static_cast<unsigned char>(9));
  CHECK(is_aligned(through.get()));
  CHECK(through.get().bytes[31] == 9);
}

TEST_CASE("values of 10 MiB and of 64 KiB in place arrive whole", "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  constexpr auto fill = [](std::size_t n, unsigned char v) {
    return std::vector<unsigned char>(n, v);
  };
  constexpr auto checksum = [](const std::vector<unsigned char>& v) {
    return std::accumulate(v.begin(), v.end(), std::size_t{0});
  };
  constexpr std::size_t size = 10U << 20U;
  const auto big = manta::remote<fill>(size, static_cast<unsigned char>(3));
  CHECK(manta::remote<checksum>(big).get() == 3 * size);
  CHECK(manta::remote<checksum>(std::vector<unsigned char>(size, 2)).get() == 2 * size);
  CHECK(big.get().size() == size);
  using block = std::array<std::uint64_t, 8192>;
  constexpr auto make_block = [](std::uint64_t v) {
    block b{};
    b.fill(v);
    return b;
  };
  constexpr auto sum_block = [](const block& b) {
    return std::accumulate(b.begin(), b.end(), std::uint64_t{0});
  };
  CHECK(manta::remote<sum_block>(manta::remote<make_block>(std::uint64_t{5})).get() == 5 * 8192);
}

TEST_CASE("std types of every kind are values", "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  constexpr auto pair_up = [](int a, std::string b) { return std::pair(a, b); };
  CHECK(manta::remote<pair_up>(1, "x").get() == std::pair<int, std::string>(1, "x"));
  constexpr auto split = [](int a) { return std::tuple(a, a + 1, std::string(3, 'z')); };
  CHECK(std::get<2>(manta::remote<split>(1).get()) == "zzz");
  constexpr auto maybe = [](bool yes) { return yes ? std::optional<int>(1) : std::nullopt; };
  CHECK_FALSE(manta::remote<maybe>(false).get().has_value());
  constexpr auto either = [](bool b) {
    return b ? std::variant<int, std::string>(1) : std::variant<int, std::string>("s");
  };
  CHECK(std::get<std::string>(manta::remote<either>(false).get()) == "s");
  constexpr auto square = [](std::complex<double> z) { return z * z; };
  CHECK(manta::remote<square>(std::complex<double>(0, 1)).get().real() == -1);
}

TEST_CASE("put makes a value a ready future that many tasks read in place", "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  tracked::reset();
  const manta::future<tracked> object = manta::put(tracked(11));
  CHECK(object.is_ready());
  CHECK(tracked::copies == 0);
  std::vector<manta::future<int>> reads;
  for (int i = 0; i < 100; ++i) reads.push_back(manta::remote<read_tracked>(object));
  for (const int v : manta::get(reads)) CHECK(v == 11);
  CHECK(tracked::copies == 0);
  const tracked named(12);
  CHECK(manta::put(named).get().value == 12);
  CHECK(tracked::copies == 1);
  CHECK(manta::put(std::string("text")).get() == "text");
}

TEST_CASE("values die with their last future", "[value][anywhere]") {
  const int before = tracked::alive;
  {
    const manta::runtime rt(test::two_workers());
    {
      manta::future<tracked> f = manta::remote<make_tracked>(1);
      const auto copy = f;
      f.get();
      f = {};
      CHECK(tracked::alive == before + 1);
    }
    static_cast<void>(manta::remote<take_tracked>(tracked(2)).get());
    static_cast<void>(manta::remote<make_tracked>(3));  // nobody waits for it
  }
  CHECK(tracked::alive == before);
}

TEST_CASE("a chain of 100,000 futures in values is freed without deep recursion",
          "[value][stays:local]") {
  const manta::runtime rt(test::two_workers());
  struct link {
    manta::future<std::shared_ptr<int>> unused;
    std::vector<manta::future<link>> next;
  };
  manta::future<link> head;
  for (int i = 0; i < 100000; ++i) {
    link l;
    if (head.valid()) l.next.push_back(std::move(head));
    head = manta::put(std::move(l));
  }
  head = {};
  CHECK_FALSE(head.valid());
}

TEST_CASE("async takes captures, move-only callables and references", "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  int outside = 0;
  manta::async([&outside] { outside = 5; }).get();
  CHECK(outside == 5);
  auto p = std::make_unique<int>(9);
  CHECK(manta::async([q = std::move(p)] { return *q; }).get() == 9);
  const std::function<int()> wrapped = [] { return 3; };
  CHECK(manta::async(wrapped).get() == 3);
  CHECK(manta::async(+[] { return 4; }).get() == 4);
  // Delegation and pass-through work as in remote.
  CHECK(manta::async([] { return manta::remote<by_value>(1); }).get() == 2);
}

namespace {

struct over {
  static int f(int /*x*/) { return 1; }
  static int f(double /*x*/) { return 2; }
  static int g() noexcept { return 3; }
};

}  // namespace

TEST_CASE("noexcept functions, static members and overloads by cast are called",
          "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  constexpr auto quiet = []() noexcept { return 1; };
  CHECK(manta::remote<quiet>().get() == 1);
  CHECK(manta::remote<static_cast<int (*)(int)>(&over::f)>(0).get() == 1);
  CHECK(manta::remote<static_cast<int (*)(double)>(&over::f)>(0).get() == 2);
  CHECK(manta::remote<&over::g>().get() == 3);
}

TEST_CASE("an empty future is refused wherever it is used", "[value][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const manta::future<int> empty;
  CHECK_FALSE(empty.valid());
  CHECK_THROWS_AS(empty.get(), manta::invalid_argument);
  CHECK_THROWS_AS(empty.get(std::chrono::seconds(1)), manta::invalid_argument);
  CHECK_THROWS_AS(empty.is_ready(), manta::invalid_argument);
  CHECK(empty.try_get().error().code() == manta::errc::invalid_argument);
  CHECK_THROWS_AS(manta::remote<by_value>(empty), manta::invalid_argument);
  CHECK_THROWS_AS(manta::remote<sum_values>(std::vector<manta::future<int>>(2)),
                  manta::invalid_argument);
  manta::future<int> spent = manta::remote<by_value>(1);
  CHECK(std::move(spent).get() == 2);
  CHECK_THROWS_AS(spent.get(), manta::invalid_argument);
}

TEST_CASE("text that is put becomes a string", "[put][stays:local]") {
  const manta::runtime rt(test::two_workers());
  const manta::future<std::string> text = manta::put("some text");
  CHECK(text.get() == "some text");
}

}  // namespace value_test
