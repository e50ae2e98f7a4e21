// SPDX-License-Identifier: Apache-2.0
// Classes with functions for cereal, in the forms that it knows.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "fuzz/harness.hpp"

namespace {

struct versioned {
  std::int32_t value = 0;
  std::string since_two;
  template <class Archive>
  void serialize(Archive& ar, const std::uint32_t version) {
    ar(value);
    if (version >= 2) ar(since_two);
  }
};

struct base {
  std::int16_t kind = 0;
  template <class Archive>
  void serialize(Archive& ar) {
    ar(kind);
  }
};

struct derived : base {
  std::vector<std::string> names;
  template <class Archive>
  void serialize(Archive& ar) {
    ar(cereal::base_class<base>(this), CEREAL_NVP(names));
  }
};

// Says how many bytes follow, then has them as they are.
class blob {
 public:
  template <class Archive>
  void save(Archive& ar) const {
    ar(cereal::make_size_tag(static_cast<cereal::size_type>(bytes_.size())));
    ar(cereal::binary_data(bytes_.data(), bytes_.size()));
  }
  template <class Archive>
  void load(Archive& ar) {
    cereal::size_type n = 0;
    ar(cereal::make_size_tag(n));
    bytes_.resize(static_cast<std::size_t>(n));
    ar(cereal::binary_data(bytes_.data(), bytes_.size()));
  }

 private:
  std::vector<char> bytes_;
};

// Its function refuses what it does not like in ways of its own.
class moody {
 public:
  template <class Archive>
  void serialize(Archive& ar) {
    ar(mood_, inner_);
    if (mood_ == 1) throw std::runtime_error("a bad mood");
    if (mood_ == 2) throw 7;
  }

 private:
  std::uint8_t mood_ = 0;
  std::optional<std::string> inner_;
};

// Itself within itself, by way of its function.
class nested {
 public:
  template <class Archive>
  void serialize(Archive& ar) {
    ar(value_, parts_);
  }

 private:
  std::int8_t value_ = 0;
  std::vector<nested> parts_;
};

}  // namespace

CEREAL_CLASS_VERSION(versioned, 3)

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::run<test::counter, test::celsius, test::split, test::shy, versioned, base, derived, blob,
            moody, nested, std::vector<test::counter>, std::map<std::string, test::celsius>,
            std::vector<test::split>, std::unique_ptr<derived>, std::vector<std::shared_ptr<blob>>,
            std::vector<nested>, std::optional<versioned>, std::vector<test::shy>>({data, size});
  return 0;
}
