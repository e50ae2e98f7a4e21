// SPDX-License-Identifier: Apache-2.0
// Arrays: written once, shared without a copy by tasks, actors, objects and values, gone with their
// last handle.
#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/support.hpp"

namespace array_test {

namespace {

using manta::array;
using manta::array_shape;
using manta::make_array;

struct point {
  float x = 0;
  float y = 0;
  bool operator==(const point&) const = default;
};

struct model {
  std::string name;
  std::vector<array<float>> layers;
  std::optional<array<int>> labels;
};

double total(const array<double>& a) { return std::accumulate(a.begin(), a.end(), 0.0); }
double total_by_value(array<double> a) { return total(a); }
double total_of_span(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}
std::uintptr_t address(const array<double>& a) {
  return reinterpret_cast<std::uintptr_t>(a.data());
}
std::uintptr_t address_of_span(std::span<const double> a) {
  return reinterpret_cast<std::uintptr_t>(a.data());
}
array<double> same(array<double> a) { return a; }
array<double> counted(int n) {
  auto made = make_array<double>(static_cast<std::size_t>(n));
  std::iota(made.span().begin(), made.span().end(), 0.0);
  return std::move(made).seal();
}
std::size_t elements(const model& m) {
  std::size_t sum = m.labels ? m.labels->size() : 0;
  for (const array<float>& layer : m.layers) sum += layer.size();
  return sum;
}
model renamed(model m) {
  m.name += "!";
  return m;
}
double total_of_future(manta::future<array<double>> f) { return total(f.get()); }
double total_of_all(const std::vector<array<double>>& all) {
  double sum = 0;
  for (const array<double>& one : all) sum += total(one);
  return sum;
}
std::string store_failure(std::size_t bytes) {
  try {
    const auto none = make_array<char>(bytes);
    return "none";
  } catch (const manta::store_full& e) {
    return e.as_error().message();
  }
}

class keeper {
 public:
  explicit keeper(array<double> first) : kept_(std::move(first)) {}
  double add(const array<double>& more) {
    kept_ = more;
    return total(kept_);
  }
  array<double> kept() const { return kept_; }

 private:
  array<double> kept_;
};

manta::config with_store(std::int64_t bytes, int wait_ms = 50) {
  manta::config c = test::two_workers();
  c.store_bytes = bytes;
  c.store_wait_ms = wait_ms;
  return c;
}

constexpr std::int64_t mib = 1 << 20;

template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
    return "accepted";
  } catch (const manta::invalid_argument& e) {
    return e.as_error().message();
  }
}

}  // namespace

TEST_CASE("an array is made, written, sealed and read in place", "[array][stays:local]") {
  const manta::runtime rt(test::two_workers());
  auto made = make_array<double>({3, 4});
  REQUIRE(made.size() == 12);
  made.fill(0.5);
  made[11] = 2.0;
  const double* const was = made.data();
  const array<double> a = std::move(made).seal();
  CHECK(a.valid());
  CHECK(a.data() == was);
  CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % 64 == 0);
  CHECK(a.size() == 12);
  CHECK(a.shape() == array_shape{3, 4});
  CHECK(a.shape().rank() == 2);
  CHECK(a.shape()[1] == 4);
  CHECK(a[0] == 0.5);
  CHECK(a.span().back() == 2.0);
  CHECK(total(a) == 7.5);
}

TEST_CASE("an array is a copy of any range that knows its size", "[array][stays:local]") {
  const manta::runtime rt(test::two_workers());
  const std::vector<point> points{{1, 2}, {3, 4}};
  const array<point> a = make_array(points);
  CHECK(a.shape() == array_shape(2));
  CHECK(a[1] == points[1]);
  const std::list<int> numbers{1, 2, 3, 4, 5, 6};
  const array<int> b = make_array(numbers, {2, 3});
  CHECK(b.shape() == array_shape{2, 3});
  CHECK(b[5] == 6);
  const array<std::uint8_t> c =
      make_array(std::span<const std::uint8_t>(reinterpret_cast<const std::uint8_t*>("abc"), 3));
  CHECK(c[2] == 'c');
}

TEST_CASE("copies of a handle share the values, and an empty handle has none",
          "[array][stays:local]") {
  const manta::runtime rt(test::two_workers());
  array<double> a = counted(100);
  array<double> b = a;
  CHECK(a.data() == b.data());
  const array<double> c = std::move(a);
  CHECK_FALSE(a.valid());  // NOLINT: what a moved handle is
  CHECK(a.size() == 0);
  b = {};
  CHECK(b.data() == nullptr);
  CHECK(b.shape().rank() == 0);
  CHECK(c[99] == 99);
}

TEST_CASE("tasks and actors get an array itself, not a copy of its values",
          "[array][anywhere][actors_home]") {
  const manta::runtime rt(test::two_workers());
  const array<double> a = counted(1000);
  const auto at = reinterpret_cast<std::uintptr_t>(a.data());
  const bool is_one_process = !test::in_processes();  // each one maps the values for itself
  const bool is_one_node = !test::in_nodes();         // to others they go by copy
  CHECK(manta::remote<total>(a).get() == 499500);
  CHECK(manta::remote<total_by_value>(a).get() == 499500);
  if (is_one_process && is_one_node) CHECK(manta::remote<address>(a).get() == at);
  if (is_one_node) {
    CHECK(manta::remote<same>(a).get().data() == a.data());
    if (is_one_process) CHECK(manta::remote<address>(manta::remote<same>(a)).get() == at);
  }
  const manta::actor<keeper> k = manta::spawn<keeper>(a);
  CHECK(manta::remote<&keeper::kept>(k).get().data() == a.data());
  CHECK(manta::remote<&keeper::add>(k, manta::remote<counted>(10)).get() == 45);
  CHECK(manta::remote<&keeper::kept>(k).get().size() == 10);
}

TEST_CASE("a span of const takes an array without a copy, now and later", "[array][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const array<double> a = counted(1000);
  const auto at = reinterpret_cast<std::uintptr_t>(a.data());
  // Each process maps the values for itself, and to other nodes they go by copy.
  const bool is_one_process = !test::in_processes() && !test::in_nodes();
  CHECK(manta::remote<total_of_span>(a).get() == 499500);
  if (is_one_process) CHECK(manta::remote<address_of_span>(a).get() == at);
  CHECK(manta::remote<total_of_span>(manta::remote<counted>(10)).get() == 45);
  if (is_one_process) CHECK(manta::remote<address_of_span>(manta::put(a)).get() == at);
  CHECK(manta::remote<total_of_span>(std::vector<double>{1, 2}).get() == 3);
  CHECK(manta::remote<total_of_span>(make_array(std::vector<float>{1, 2})).get() == 3);
}

TEST_CASE("arrays lie in objects, futures, structs and containers", "[array][anywhere]") {
  const manta::runtime rt(test::two_workers());
  const array<double> a = counted(10);
  CHECK(manta::put(a).get().data() == a.data());
  CHECK(manta::remote<total_of_future>(manta::remote<counted>(10)).get() == 45);
  CHECK(manta::remote<total_of_all>(std::vector<array<double>>{a, {}, a}).get() == 90);
  std::vector<manta::future<array<double>>> several;
  for (int i = 1; i < 5; ++i) several.push_back(manta::remote<counted>(i));
  CHECK(manta::remote<total_of_all>(several).get() == 0 + 1 + 3 + 6);
  const model m{"m",
                {make_array(std::vector<float>(7)), make_array(std::vector<float>(8))},
                make_array(std::vector<int>(3))};
  CHECK(manta::remote<elements>(m).get() == 18);
  const model back = manta::remote<renamed>(m).get();
  CHECK(back.name == "m!");
  CHECK(back.layers[1].size() == 8);
  if (!test::in_nodes()) CHECK(back.layers[1].data() == m.layers[1].data());
  CHECK(back.labels->size() == 3);
}

TEST_CASE("the room of an array is given back with its last handle", "[array][anywhere]") {
  const manta::runtime rt(with_store(64 * mib));
  CHECK(rt.store().limit_bytes == 64 * mib);
  CHECK(rt.store().reserved_bytes == 0);  // nothing is taken before the first
  for (int i = 0; i < 100; ++i) {
    const array<double> a = manta::remote<same>(counted(1 << 20)).get();  // 8 MiB
    CHECK(a.size() == 1 << 20);
  }
  // The task's own handle goes a moment after its result is there.
  const auto end = std::chrono::steady_clock::now() + test::patience;
  while (rt.store().used_bytes != 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  CHECK(rt.store().used_bytes == 0);
  {
    const auto unsealed = make_array<char>(mib);
    CHECK(rt.store().used_bytes == mib);
  }
  CHECK(rt.store().used_bytes == 0);
}

TEST_CASE("a store without room says who holds what, and goes on when there is some",
          "[array][stays:local]") {
  const manta::runtime rt(with_store(4 * mib));
  std::optional<array<char>> most = make_array(std::vector<char>(3 * mib));
  const std::string why = store_failure(2 * mib);
  CHECK(why.find("store: asked 2097152 bytes; of 4194304 are ") == 0);
  CHECK(why.find("read by 1 holders: 3145728 by this process") != std::string::npos);
  CHECK(why.find("raise store_bytes or drop references") != std::string::npos);
  CHECK(store_failure(5 * mib) ==
        "store: asked 5242880 bytes, the whole store has 4194304; raise store_bytes or make "
        "smaller objects");
  most.reset();
  CHECK(make_array<char>(2 * mib).size() == 2 * mib);
}

TEST_CASE("shapes without elements, or with too many, are refused in one line",
          "[array][stays:refused]") {
  const manta::runtime rt(test::two_workers());
  const std::string no_elements =
      ", which has no elements; give it 1 to 8 directions with 1 or more in each";
  CHECK(refusal([] { static_cast<void>(make_array<int>(0)); }) ==
        "manta::make_array: asked an array of the shape {0}" + no_elements);
  CHECK(refusal([] {
          static_cast<void>(make_array<int>({3, 0}));
        }) == "manta::make_array: asked an array of the shape {3, 0}" + no_elements);
  CHECK(refusal([] { static_cast<void>(make_array<int>(array_shape())); }) ==
        "manta::make_array: asked an array of the shape {}" + no_elements);
  CHECK(refusal([] { static_cast<void>(make_array(std::vector<int>())); }) ==
        "manta::make_array: asked an array of the shape {0}" + no_elements);
  CHECK(refusal([] {
          static_cast<void>(make_array<int>({1UL << 40, 1UL << 40}));
        }) ==
        "manta::make_array: asked an array of the shape {1099511627776, 1099511627776} with "
        "elements of 4 bytes, which is more than 2^60 bytes; make a smaller one");
  CHECK(refusal([] {
          static_cast<void>(make_array<int>({1, 1, 1, 1, 1, 1, 1, 1, 1}));
        }) == "manta::array: asked a shape of 9 directions, allowed are 1 to 8");
  CHECK(refusal([] {
          static_cast<void>(make_array(std::vector<int>(5), {2, 3}));
        }) ==
        "manta::make_array: asked an array of the shape {2, 3}, and gave 5 values; give as many as "
        "it has elements");
}

TEST_CASE("arrays need a runtime to be made, and outlive it", "[array][anywhere]") {
  CHECK_THROWS_AS(make_array<int>(3), manta::no_runtime);
  array<double> a;
  manta::future<array<double>> f;
  {
    const manta::runtime rt(test::two_workers());
    a = counted(1000);
    f = manta::remote<counted>(10);
    f.get();
  }
  CHECK(a[999] == 999);
  CHECK(f.get()[9] == 9);
  const manta::runtime again(test::two_workers());
  const array<double> b = counted(10);
  CHECK(manta::remote<total>(a).get() + manta::remote<total>(b).get() == 499545);
}

TEST_CASE("what is written for another node has the arrays' bytes, and holds them",
          "[array][stays:local]") {
  const manta::runtime rt(with_store(64 * mib, 10'000));
  namespace codec = manta::codec;
  for (const int n : {1, 100, 300'000}) {
    CAPTURE(n);
    codec::out_archive out;
    out.for_node(1);
    std::optional<array<double>> source = counted(n);
    const manta::spec::parcel_view there = codec::encode(out, *source);
    CHECK(there.references.empty());
    source.reset();
    CHECK(rt.store().used_bytes > 0);  // until the message has gone
    const auto read = codec::decode<array<double>>(there);
    out.clear();
    CHECK(total(read) == 0.5 * n * (n - 1));
    // As before in its own node.
    out.for_node(0);
    CHECK(codec::encode(out, read).references.size() == (n == 300'000 ? 1 : 0));
  }
  CHECK(rt.store().used_bytes == 0);
}

TEST_CASE("many threads make, share and drop arrays at once", "[array][anywhere]") {
  // What could break: a block that two last holders end, or one that moves while it is read.
  const manta::runtime rt(with_store(64 * mib, 10'000));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &wrong] {
      for (int i = 0; i < 100; ++i) {
        const int n = 1000 + (t * 7919 + i * 104729) % 50000;
        const array<double> a = counted(n);
        manta::future<double> one = manta::remote<total>(a);
        manta::future<array<double>> two = manta::remote<same>(a);
        const bool is_same =
            test::in_nodes() ? total(two.get()) == total(a) : two.get().data() == a.data();
        if (one.get() != 0.5 * n * (n - 1) || !is_same) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

}  // namespace array_test
