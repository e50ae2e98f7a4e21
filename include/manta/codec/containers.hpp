// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <manta/base/machine.hpp>
#include <manta/codec/value.hpp>

// Containers into archives and out of them, by what they can do: std's own and those built alike.
//
// Memory is taken as elements arrive, never for a count alone: a reserve is for 4096 bytes at
// first. When these have come, it is for all, which are charged: a vector that grew step by step
// would hold up to three times what it needs.

namespace manta::inline v0::codec {

/// What a node of a container takes beside its value.
inline constexpr std::size_t node_bytes = 64;
/// A reserve that a count alone may cause, in bytes.
inline constexpr std::size_t first_reserve = 4096;

/// What an empty T takes beside its own size: a container of blocks, as std::deque, has one of them
/// for a few elements, or for one that is large, from the begin; and the list of its blocks.
template <class T>
constexpr std::size_t empty_bytes() noexcept {
  if constexpr (std::random_access_iterator<typename T::iterator>) {
    return std::max<std::size_t>(512, sizeof(typename T::value_type)) + 64;
  } else {
    return 0;
  }
}

/// The elements of a range of plain values where they lie, without a copy; empty when they do not
/// lie as a T has to. As long as the parcel stays.
template <class T>
requires(is_bitwise<T>) std::span<const T> view_in_place(const in_buffer::plain_range& found) {
  if (reinterpret_cast<std::uintptr_t>(found.at) % alignof(T) != 0) return {};
  return {reinterpret_cast<const T*>(found.at), found.count};
}

/// Whether a container T makes its elements of plain values that lie somewhere. Only std's own are
/// known to mean a range by two pointers: another class may take the second one for a bool.
template <class T>
constexpr bool makes_plain_ranges() noexcept {
  using element = typename T::value_type;
  if constexpr (is_made_from<element, std::basic_string> || is_made_from<element, std::vector>) {
    using part = typename element::value_type;
    // (Clang 14 looks into every part of one condition.)
    if constexpr (shape_of<element>() == shape::range && is_bitwise<part>) {
      return requires(T & values, const part* at) { values.emplace_back(at, at); };
    }
  }
  return false;
}

/// Reads one more element of a container that grows at its end.
template <class T>
void read_back(in_archive& in, T& values) {
  using element = typename T::value_type;
  if constexpr (makes_plain_ranges<T>()) {
    // Text, mostly. Made where it belongs: none that is empty first, and no move.
    using kind = coder<shape::range, element>;
    const auto found = kind::find(in);
    const auto lying = view_in_place<typename element::value_type>(found);
    if (lying.size() == found.count) {
      values.emplace_back(lying.data(), lying.data() + lying.size());
    } else {
      values.push_back(kind::copied(found));
    }
  } else if constexpr (is_read_in_place<element> && requires {
                         values.emplace_back();
                         codec::read_into(in, values.back());
                       }) {
    values.emplace_back();
    codec::read_into(in, values.back());
  } else {
    values.push_back(codec::read<element>(in));
  }
}

template <class T>
void write_elements(out_archive& out, const T& values) {
  for (const auto& one : values) codec::write(out, one);
}

/// Elements whose number the type says.
template <class T, class E>
void write_array(out_archive& out, const T& values) {
  if constexpr (is_bitwise<E>) {
    out.bytes(&values, sizeof values);
  } else {
    write_elements(out, values);
  }
}
template <class T, class E>
void read_array(in_archive& in, T& values) {
  if constexpr (is_bitwise<E>) {
    in.bytes(&values, sizeof values);
  } else {
    for (auto& one : values) codec::read_into(in, one);
  }
}

template <class E, std::size_t N>
struct coder<shape::array, E[N]> {
  static void write(out_archive& out, const E (&values)[N]) { write_array<E[N], E>(out, values); }
  static void read_into(in_archive& in, E (&values)[N]) { read_array<E[N], E>(in, values); }
};

template <class E, std::size_t N>
struct coder<shape::array, std::array<E, N>> {
  using type = std::array<E, N>;

  static void write(out_archive& out, const type& values) {
    if constexpr (N == 0) {
      out.raw(std::uint8_t{0});
    } else {
      write_array<type, E>(out, values);
    }
  }
  static void read_into(in_archive& in, type& values) {
    if constexpr (N == 0) {
      in.raw<std::uint8_t>();
    } else {
      read_array<type, E>(in, values);
    }
  }
  static type read(in_archive& in) {
    if constexpr (std::is_default_constructible_v<E> || N == 0) {
      return read_fresh<type>(in);
    } else {
      return read_braced(in, std::make_index_sequence<N>{});
    }
  }

 private:
  template <std::size_t... I>
  static type read_braced(in_archive& in, std::index_sequence<I...> /*places*/) {
    return type{{(static_cast<void>(I), codec::read<E>(in))...}};
  }
};

template <class T>
struct coder<shape::bools, T> {
  static void write(out_archive& out, const T& values) {
    const std::size_t n = values.size();
    out.count(n);
    for (std::size_t i = 0; i < n; i += 8) {
      unsigned packed = 0;
      for (std::size_t k = i; k < std::min(n, i + 8); ++k) packed |= unsigned{values[k]} << (k - i);
      out.raw(static_cast<std::uint8_t>(packed));
    }
  }
  static T read(in_archive& in) {
    const std::uint64_t n = in.count();
    if (n / 8 > in.left()) in.refuse("its count is larger than what is left", name_of<T>());
    T values;
    values.resize(static_cast<std::size_t>(n));
    unsigned packed = 0;
    for (std::size_t i = 0; i < n; ++i, packed >>= 1U) {
      if (i % 8 == 0) packed = in.raw<std::uint8_t>();
      values[i] = (packed & 1U) != 0;
    }
    return values;
  }
};

template <class T>
struct coder<shape::path, T> {
  using text = typename T::string_type;
  static void write(out_archive& out, const T& value) { codec::write<text>(out, value.native()); }
  static T read(in_archive& in) { return T(codec::read<text>(in)); }
};

template <class T>
struct coder<shape::range, T> {
  using element = typename T::value_type;

  static void write(out_archive& out, const T& values) {
    if constexpr (is_bitwise<element>) {
      out.range(values.data(), values.size(), sizeof(element), type_hash<element>);
    } else {
      const writing inside(out);
      out.count(values.size());
      out.charge(values.size() * sizeof(element));
      write_elements(out, values);
    }
  }
  static T read(in_archive& in) {
    if constexpr (is_bitwise<element>) {
      return copied(find(in));
    } else {
      const reading inside(in, name_of<T>());
      const std::size_t n = in.count_of(sizeof(element), name_of<T>());
      T values;
      // Elements that would be copied to another place have theirs at once.
      constexpr bool is_moved = std::is_nothrow_move_constructible_v<element>;
      const std::size_t first = is_moved ? std::min(n, first_reserve / sizeof(element) + 1) : n;
      for (std::size_t i = 0; i < n; ++i) {
        if constexpr (requires { values.reserve(n); }) {
          if (i == 0 || i == first) values.reserve(i == 0 ? first : n);
        }
        read_back(in, values);
      }
      return values;
    }
  }

  /// Of plain values: where they are, and a container of copies.
  static in_buffer::plain_range find(in_archive& in) requires(is_bitwise<element>) {
    return in.range(sizeof(element), type_hash<element>, name_of<T>());
  }
  static T copied(const in_buffer::plain_range& found) requires(is_bitwise<element>) {
    T values;
    if (found.count == 0) return values;
    if constexpr (requires { values.reserve(1U), values.data(); }) {
      values.reserve(found.count);
      const element* const at = values.data();
      base::welcome_large_pages(const_cast<element*>(at), found.count * sizeof(element));
    }
    if constexpr (requires(const element* p) { values.assign(p, p); }) {
      const auto lying = view_in_place<element>(found);
      if (!lying.empty()) {
        // Without making zeros first.
        values.assign(lying.data(), lying.data() + lying.size());
        return values;
      }
    }
    if constexpr (std::is_default_constructible_v<element> && requires { values.resize(1U); }) {
      values.resize(found.count);
      std::memcpy(static_cast<void*>(values.data()), found.at, found.count * sizeof(element));
    } else {
      for (std::size_t i = 0; i < found.count; ++i) {
        struct image {
          std::byte bytes[sizeof(element)];
        } one;
        std::memcpy(&one, found.at + i * sizeof(element), sizeof one);
        values.push_back(std::bit_cast<element>(one));
      }
    }
    return values;
  }
};

/// Writes a range of E, or of references to them, as the vector of them.
template <class E, class Range>
void write_as_vector(out_archive& out, const Range& values) {
  static_assert(!is_bitwise<E>);
  const writing inside(out);
  out.count(std::size(values));
  out.charge(std::size(values) * sizeof(E));
  for (const E& one : values) codec::write(out, one);
}

/// Containers of nodes: `Put` adds an element to one that is read.
template <class T>
struct node_coder {
  using element = typename T::value_type;

  static void write_all(out_archive& out, const T& values, std::size_t n) {
    const writing inside(out);
    out.count(n);
    out.charge(empty_bytes<T>() + n * (sizeof(element) + node_bytes));
    write_elements(out, values);
  }
  template <class Put>
  static T read_all(in_archive& in, Put&& put) {
    const reading inside(in, name_of<T>());
    in.charge(empty_bytes<T>(), name_of<T>());
    const std::size_t n = in.count_of(sizeof(element) + node_bytes, name_of<T>());
    T values;
    for (std::size_t i = 0; i < n; ++i) put(values);
    return values;
  }
};

template <class T>
struct coder<shape::sequence, T> : node_coder<T> {
  static void write(out_archive& out, const T& values) {
    node_coder<T>::write_all(out, values, values.size());
  }
  static T read(in_archive& in) {
    return node_coder<T>::read_all(in, [&in](T& values) { read_back(in, values); });
  }
};

template <class T>
struct coder<shape::forward, T> : node_coder<T> {
  static void write(out_archive& out, const T& values) {
    const auto n = std::distance(values.begin(), values.end());
    node_coder<T>::write_all(out, values, static_cast<std::size_t>(n));
  }
  static T read(in_archive& in) {
    T values = node_coder<T>::read_all(
        in, [&in](T& so_far) { so_far.push_front(codec::read<typename T::value_type>(in)); });
    values.reverse();
    return values;
  }
};

template <class T>
struct coder<shape::set, T> : node_coder<T> {
  static void write(out_archive& out, const T& values) {
    node_coder<T>::write_all(out, values, values.size());
  }
  static T read(in_archive& in) {
    return node_coder<T>::read_all(in, [&in](T& values) {
      values.insert(values.end(), codec::read<typename T::value_type>(in));
    });
  }
};

template <class T>
struct coder<shape::map, T> : node_coder<T> {
  using key = typename T::key_type;
  using mapped = typename T::mapped_type;

  static void write(out_archive& out, const T& values) {
    node_coder<T>::write_all(out, values, values.size());
  }
  static T read(in_archive& in) {
    return node_coder<T>::read_all(in, [&in](T& values) {
      key k = codec::read<key>(in);
      if constexpr (sizeof(mapped) > 256 && is_read_in_place<mapped>) {
        const auto at =
            values.emplace_hint(values.end(), std::piecewise_construct,
                                std::forward_as_tuple(std::move(k)), std::forward_as_tuple());
        codec::read_into(in, at->second);
      } else {
        values.emplace_hint(values.end(), std::move(k), codec::read<mapped>(in));
      }
    });
  }
};

}  // namespace manta::inline v0::codec
