// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <cereal/cereal.hpp>

#include <manta/codec/codec.hpp>
#include <manta/codec/errors.hpp>

// Values of every shape, for tests that write, read, cut and flip.

namespace test {

/// The bytes of a parcel, kept: what a message would have carried.
struct kept_parcel {
  std::vector<std::byte> head;
  std::vector<std::vector<std::byte>> segments;
  std::vector<manta::spec::segment_view> views;
  std::vector<manta::spec::reference> references;

  explicit kept_parcel(const manta::spec::parcel_view& from)
      : head(from.head.begin(), from.head.end()),
        references(from.references.begin(), from.references.end()) {
    for (const auto& one : from.segments) {
      segments.emplace_back(one.bytes.begin(), one.bytes.end());
      views.push_back({segments.back(), one.type, one.element_bytes});
    }
  }
  manta::spec::parcel_view view() const { return {head, views, references}; }
};

template <class T>
kept_parcel encoded(const T& value) {
  manta::codec::out_archive out;
  return kept_parcel(manta::codec::encode(out, value));
}

template <class T>
T copied(const T& value) {
  return manta::codec::decode<T>(encoded(value).view());
}

enum class color : std::uint8_t { red, green, blue };
enum plain_enum { one = 1, two = 2 };

struct nothing {
  friend bool operator==(const nothing&, const nothing&) = default;
};

struct pixel {
  std::int16_t x = 0;
  std::int16_t y = 0;
  float depth = 0;
  friend bool operator==(const pixel&, const pixel&) = default;
};

struct padded {
  char kind = 0;
  double weight = 0;
  bool is_set = false;
  friend bool operator==(const padded&, const padded&) = default;
};

struct record {
  std::int64_t id = 0;
  double score = 0;
  std::string name;
  friend bool operator==(const record&, const record&) = default;
};

struct rich : nothing {
  record first;
  std::vector<record> more;
  std::optional<std::string> note;
  std::variant<int, std::string, pixel> either;
  std::map<std::string, std::vector<int>> lists;
  int grid[2][3] = {};
  std::array<std::string, 2> pair;
  color paint = color::red;
  friend bool operator==(const rich&, const rich&) = default;
};

struct tree {
  int value = 0;
  std::vector<tree> children;
  std::unique_ptr<tree> next;
};

struct ring {
  int value = 0;
  std::shared_ptr<ring> next;
};

/// No default constructor, fields that can't be assigned.
struct fixed {
  const int id;
  const std::string name;
};

/// A class with private data and member functions for cereal, versions included.
class counter {
 public:
  counter() = default;
  explicit counter(int n) : n_(n) {}
  int n() const { return n_; }

 private:
  friend class cereal::access;
  template <class Archive>
  void serialize(Archive& ar) {
    ar(cereal::make_nvp<Archive>("n", n_));
  }
  int n_ = 0;
};

class celsius {
 public:
  celsius() = default;
  explicit celsius(double d) : degrees_(d) {}
  double degrees() const { return degrees_; }
  template <class Archive>
  double save_minimal(const Archive& /*ar*/) const {
    return degrees_;
  }
  template <class Archive>
  void load_minimal(const Archive& /*ar*/, const double& d) {
    if (d < -273.15) throw std::range_error("colder than nothing");
    degrees_ = d;
  }

 private:
  double degrees_ = 0;
};

/// Something with free functions in its own namespace.
class split {
 public:
  std::vector<int> values;
  split() = default;
  explicit split(std::vector<int> v) : values(std::move(v)) {}
};
template <class Archive>
void save(Archive& ar, const split& s) {
  ar(cereal::make_size_tag(static_cast<std::uint64_t>(s.values.size())));
  for (const int v : s.values) ar(v);
}
template <class Archive>
void load(Archive& ar, split& s) {
  std::uint64_t n = 0;
  ar(cereal::make_size_tag(n));
  s.values.resize(n);
  for (int& v : s.values) ar(v);
}

/// Only cereal may make one from nothing.
class shy {
 public:
  explicit shy(std::string s) : text_(std::move(s)) {}
  const std::string& text() const { return text_; }

 private:
  friend class cereal::access;
  shy() = default;
  template <class Archive>
  void serialize(Archive& ar) {
    ar& text_;
  }
  std::string text_;
};

/// A trivially copyable class that shows no fields.
class opaque {
 public:
  opaque() = default;
  opaque(char a, int b) : a_(a), b_(b) {}
  friend bool operator==(const opaque& x, const opaque& y) { return x.a_ == y.a_ && x.b_ == y.b_; }

 private:
  char a_ = 0;
  int b_ = 0;
};

inline rich a_rich_value() {
  rich r;
  r.first = {1, 2.5, "first"};
  r.more = {{2, 0, ""}, {3, -1, std::string(300, 'x')}};
  r.note = "note";
  r.either = pixel{1, 2, 3};
  r.lists = {{"a", {1, 2, 3}}, {"b", {}}};
  r.grid[1][2] = 7;
  r.pair = {"p", "q"};
  r.paint = color::blue;
  return r;
}

}  // namespace test

template <>
struct manta::enum_range<test::color> {
  static constexpr test::color first = test::color::red;
  static constexpr test::color last = test::color::blue;
};
