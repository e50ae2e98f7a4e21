// SPDX-License-Identifier: Apache-2.0
// Pointers: one owner, several owners of one object, circles; what may be there or not.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "fuzz/harness.hpp"

namespace {

// An object that can't be there before its content is.
struct late {
  const int id;
  std::shared_ptr<late> next;
};

struct both {
  std::shared_ptr<test::record> first;
  std::weak_ptr<test::record> seen;
  std::shared_ptr<std::int32_t> number;
  std::shared_ptr<test::record> second;
  std::shared_ptr<float> real;
};

struct chain {
  std::optional<std::unique_ptr<chain>> next;
};

using either = std::variant<std::monostate, std::int32_t, std::string, test::pixel,
                            std::unique_ptr<std::string>, std::vector<std::shared_ptr<int>>>;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::run<std::unique_ptr<std::int32_t>, std::unique_ptr<test::rich>, test::tree,
            std::unique_ptr<test::tree>, std::shared_ptr<std::string>,
            std::vector<std::shared_ptr<test::record>>, both, std::vector<both>,
            std::shared_ptr<late>, std::vector<std::shared_ptr<late>>, std::shared_ptr<fuzz::knot>,
            std::vector<std::pair<std::shared_ptr<fuzz::knot>, std::weak_ptr<fuzz::knot>>>,
            std::weak_ptr<test::record>, std::optional<std::string>,
            std::optional<std::optional<bool>>, either, std::vector<either>, chain,
            std::vector<std::unique_ptr<test::tree>>, std::shared_ptr<test::tree>,
            std::vector<std::shared_ptr<std::vector<double>>>,
            std::variant<test::color, bool, fuzz::handle>, std::shared_ptr<fuzz::handle>>(
      {data, size});
  return 0;
}
