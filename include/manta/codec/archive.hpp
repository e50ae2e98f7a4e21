// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <manta/codec/in_buffer.hpp>
#include <manta/codec/out_buffer.hpp>
#include <manta/codec/shape.hpp>

// The archives that a class's cereal functions are called with: buffers that take values by a call,
// `ar(a, b, c)`, and know cereal's wrappers (name-value pairs, size tags, binary data, bases).

namespace cereal {
template <class Base>
struct base_class;
template <class Base>
struct virtual_base_class;
}  // namespace cereal

namespace manta::inline v0::codec {

/// Values into archives and out of them: value.hpp, containers.hpp.
template <class T>
void write(out_archive& out, const T& value);
template <class T>
T read(in_archive& in);
/// Into an object that is there already.
template <class T>
void read_into(in_archive& in, T& value);

/// cereal's wrappers, which are no values of their own.
template <class T>
struct wrapper {
  static constexpr bool is_one = false;
};

/// Writes values into a buffer. `Adl`: see shape.hpp.
template <class Adl>
class out_archive_of : public out_buffer {
 public:
  using is_loading = std::false_type;  ///< as cereal's archives have it
  using is_saving = std::true_type;    ///< as cereal's archives have it
  using out_buffer::out_buffer;

  /// Writes the values one after the other.
  template <class... T>
  out_archive_of& operator()(T&&... values) {
    (one(values), ...);
    return *this;
  }
  /// The same for one.
  template <class T>
  out_archive_of& operator&(T&& value) {
    return (*this)(std::forward<T>(value));
  }
  /// The same for one.
  template <class T>
  out_archive_of& operator<<(T&& value) {
    return (*this)(std::forward<T>(value));
  }

 private:
  template <class T>
  void one(T& value) {
    using plain = std::remove_cv_t<T>;
    if constexpr (wrapper<plain>::is_one) {
      wrapper<plain>::write(*this, value);
    } else {
      codec::write<plain>(*this, value);
    }
  }
};

/// Reads values out of a parcel. `Adl`: see shape.hpp.
template <class Adl>
class in_archive_of : public in_buffer {
 public:
  using is_loading = std::true_type;  ///< as cereal's archives have it
  using is_saving = std::false_type;  ///< as cereal's archives have it
  using in_buffer::in_buffer;

  /// Reads into the values one after the other.
  template <class... T>
  in_archive_of& operator()(T&&... values) {
    (one(values), ...);
    return *this;
  }
  /// The same for one.
  template <class T>
  in_archive_of& operator&(T&& value) {
    return (*this)(std::forward<T>(value));
  }
  /// The same for one.
  template <class T>
  in_archive_of& operator>>(T&& value) {
    return (*this)(std::forward<T>(value));
  }

 private:
  template <class T>
  void one(T& value) {
    using plain = std::remove_cv_t<T>;
    if constexpr (wrapper<plain>::is_one) {
      wrapper<plain>::read(*this, value);
    } else {
      codec::read_into(*this, const_cast<plain&>(value));
    }
  }
};

template <class T>
struct wrapper<cereal::NameValuePair<T>> {
  static constexpr bool is_one = true;
  template <class Pair>
  static void write(out_archive& out, Pair& pair) {
    out(pair.value);
  }
  template <class Pair>
  static void read(in_archive& in, Pair& pair) {
    in(pair.value);
  }
};

template <class T>
struct wrapper<cereal::SizeTag<T>> {
  static constexpr bool is_one = true;
  template <class Tag>
  static void write(out_archive& out, Tag& tag) {
    out.count(static_cast<std::uint64_t>(tag.size));
  }
  // What follows takes a byte for each at least.
  template <class Tag>
  static void read(in_archive& in, Tag& tag) {
    tag.size = static_cast<std::remove_cvref_t<decltype(tag.size)>>(
        in.bounded_count("the size of a container that has cereal functions"));
  }
};

template <class T>
struct wrapper<cereal::BinaryData<T>> {
  static constexpr bool is_one = true;
  template <class Data>
  static void write(out_archive& out, Data& from) {
    out.bytes(from.data, static_cast<std::size_t>(from.size));
  }
  template <class Data>
  static void read(in_archive& in, Data& to) {
    in.bytes(to.data, static_cast<std::size_t>(to.size));
  }
};

/// A base's part of an object.
template <class Base>
struct base_wrapper {
  static constexpr bool is_one = true;
  template <class Of>
  static void write(out_archive& out, Of& of) {
    codec::write<Base>(out, *of.base_ptr);
  }
  template <class Of>
  static void read(in_archive& in, Of& of) {
    codec::read_into<Base>(in, *of.base_ptr);
  }
};
template <class Base>
struct wrapper<cereal::base_class<Base>> : base_wrapper<Base> {};
template <class Base>
struct wrapper<cereal::virtual_base_class<Base>> : base_wrapper<Base> {};

}  // namespace manta::inline v0::codec
