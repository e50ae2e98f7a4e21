// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "wire/bundle.hpp"

namespace manta_test::bundle_test {
namespace {

using manta::base::id;
using manta::wire::bundle;

std::vector<std::byte> bytes_of(std::size_t size, unsigned seed) {
  std::vector<std::byte> out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(seed + i * 7);
  return out;
}

using read_message = std::pair<id, std::vector<std::byte>>;

// With whether all of it was messages.
std::pair<bool, std::vector<read_message>> read_all(std::span<const std::byte> of) {
  std::vector<read_message> out;
  const bool is = bundle::each(of, [&](const id& about, std::span<const std::byte> message) {
    out.emplace_back(about, std::vector<std::byte>(message.begin(), message.end()));
  });
  return {is, out};
}

TEST_CASE("a bundle gives back its messages, each where it would lie alone", "[wire]") {
  const std::size_t sizes[] = {0, 1, 63, 64, 65, 200, 4096};
  bundle made;
  std::vector<read_message> sent;
  for (const std::size_t size : sizes) {
    const std::vector<std::byte> all = bytes_of(size, static_cast<unsigned>(size));
    const std::span<const std::byte> view(all);
    const std::size_t half = size / 2;
    const std::span<const std::byte> pieces[] = {view.first(half), {}, view.subspan(half)};
    made.add({size + 1, size}, pieces, size);
    sent.emplace_back(id{size + 1, size}, all);
  }
  const auto [is, got] = read_all(made.bytes());
  CHECK(is);
  CHECK(got == sent);
  bundle::each(made.bytes(), [&](const id&, std::span<const std::byte> message) {
    CHECK((message.data() - made.bytes().data()) % 64 == 0);
  });
  made.clear();
  CHECK(made.empty());
  CHECK(read_all({}).first);
}

TEST_CASE("the head of a message and the message behind it are a bundle", "[wire]") {
  const std::vector<std::byte> message = bytes_of(1001, 3);
  const auto head = bundle::head_of({5, 6}, message.size());
  std::vector<std::byte> all(head.begin(), head.end());
  all.insert(all.end(), message.begin(), message.end());
  const auto [is, got] = read_all(all);
  CHECK(is);
  CHECK(got == std::vector<read_message>{{id{5, 6}, message}});
}

TEST_CASE("a bundle that is cut or says sizes that it has not ends where it is wrong", "[wire]") {
  bundle made;
  for (unsigned i = 0; i < 3; ++i) {
    const std::vector<std::byte> one = bytes_of(100, i);
    const std::span<const std::byte> piece(one);
    made.add({1, i}, {&piece, 1}, one.size());
  }
  const std::span<const std::byte> whole = made.bytes();
  // Each message takes 192 bytes, the last 28 of which say nothing.
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const auto [is, got] = read_all(whole.first(size));
    CHECK(got.size() == size / 192 + (size % 192 >= 164 ? 1 : 0));
    CHECK(is == (size % 192 == 0 || size % 192 >= 164));
  }
  for (const std::uint64_t size : {std::uint64_t{101}, std::uint64_t{600}, ~std::uint64_t{0}}) {
    std::vector<std::byte> wrong(whole.begin(), whole.end());
    std::memcpy(wrong.data() + 2 * 192 + 16, &size, sizeof size);
    const auto [is, got] = read_all(wrong);
    CHECK(is == (size <= 128));
    CHECK(got.size() == (size <= 128 ? 3 : 2));
  }
}

}  // namespace
}  // namespace manta_test::bundle_test
