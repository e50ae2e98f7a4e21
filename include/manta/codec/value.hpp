// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <manta/base/id.hpp>
#include <manta/base/type_name.hpp>
#include <manta/codec/archive.hpp>

// Values into archives and out of them: one coder for each shape. The scalars, classes and smart
// pointers are here, containers in containers.hpp.
//
// A coder has write(out, value), read(in) -> T, which needs no default constructor where the shape
// does not, and where it pays read_into(in, value).

namespace manta::inline v0::codec {

template <shape S, class T>
struct coder;

/// Reads a T that is made from nothing first. A function of its own, so that the value is made
/// where the caller wants it, without a move.
template <class T>
T read_fresh(in_archive& in) {
  T value;
  coder<shape_of<T>(), T>::read_into(in, value);
  return value;
}

/// Whether a T is read into one that was made from nothing. Values in each other are, where they
/// can be: one that is read and then moved lies on the stack as long as what is in it is read, and
/// bytes from anybody may nest 256 large ones.
template <class T>
concept is_read_in_place = std::is_default_constructible_v<T> && std::is_move_assignable_v<T>;

template <class T>
inline constexpr std::uint64_t type_hash = base::hash_name(base::spelled_type<T>());

/// What T is called in messages.
template <class T>
constexpr const char* name_of() noexcept {
  return base::spelled_type<T>();
}

/// While it lives, a value inside of another one is written.
class writing {
 public:
  explicit writing(out_buffer& out) : out_(out) { out.enter(); }
  ~writing() { out_.leave(); }
  writing(const writing&) = delete;
  writing& operator=(const writing&) = delete;

 private:
  out_buffer& out_;
};

/// While it lives, a value inside of another one is read.
class reading {
 public:
  reading(in_buffer& in, const char* type) : in_(in) { in.enter(type); }
  ~reading() { in_.leave(); }
  reading(const reading&) = delete;
  reading& operator=(const reading&) = delete;

 private:
  in_buffer& in_;
};

template <class T>
struct coder<shape::engine, T> {
  static void write(out_archive& out, const T& value) { custom<T>::write(out, value); }
  static T read(in_archive& in) { return custom<T>::read(in); }
};

template <class T>
struct coder<shape::boolean, T> {
  static void write(out_buffer& out, bool value) { out.raw(static_cast<std::uint8_t>(value)); }
  static bool read(in_buffer& in) { return in.flag("bool"); }
};

// Of a long double 10 bytes mean something here.
template <class T>
struct coder<shape::number, T> {
  static constexpr std::size_t bytes =
      std::is_same_v<T, long double> && sizeof(T) == 16 ? 10 : sizeof(T);
  static void write(out_buffer& out, T value) { out.bytes(&value, bytes); }
  static T read(in_buffer& in) {
    T value{};
    in.bytes(&value, bytes);
    return value;
  }
};

template <class T>
struct coder<shape::enumeration, T> {
  using number = std::underlying_type_t<T>;
  static void write(out_buffer& out, T value) {
    coder<shape_of<number>(), number>::write(out, static_cast<number>(value));
  }
  static T read(in_buffer& in) {
    const auto value = coder<shape_of<number>(), number>::read(in);
    if constexpr (has_enum_range<T>) {
      constexpr auto first = static_cast<number>(enum_range<T>::first);
      constexpr auto last = static_cast<number>(enum_range<T>::last);
      if (value < first || value > last) {
        in.refuse_value(static_cast<std::uint64_t>(value), "those of its enum_range", name_of<T>());
      }
    }
    return static_cast<T>(value);
  }
};

template <class T>
struct coder<shape::plain, T> {
  static void write(out_buffer& out, const T& value) {
    // Padding would tell what lay there before, and make equal values differ.
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
    alignas(T) std::byte copy[sizeof(T)];
    std::memcpy(copy, &value, sizeof(T));
    __builtin_clear_padding(reinterpret_cast<T*>(copy));
    out.bytes(copy, sizeof(T));
    return;
#endif
#endif
    out.bytes(&value, sizeof(T));
  }
  static T read(in_buffer& in) {
    struct image {
      std::byte bytes[sizeof(T)];
    } found;
    in.bytes(&found, sizeof found);
    return std::bit_cast<T>(found);
  }
};

template <class T>
struct coder<shape::optional, T> {
  using value_type = std::remove_cv_t<typename T::value_type>;
  static void write(out_archive& out, const T& value) {
    out.raw(static_cast<std::uint8_t>(value.has_value()));
    if (!value) return;
    const writing inside(out);
    codec::write<value_type>(out, *value);
  }
  static T read(in_archive& in) {
    if constexpr (is_read_in_place<typename T::value_type>) {
      return read_fresh<T>(in);
    } else {
      if (!in.flag(name_of<T>())) return std::nullopt;
      const reading inside(in, name_of<T>());
      return T(std::in_place, codec::read<value_type>(in));
    }
  }
  static void read_into(in_archive& in,
                        T& value) requires(is_read_in_place<typename T::value_type>) {
    value.reset();
    if (!in.flag(name_of<T>())) return;
    const reading inside(in, name_of<T>());
    codec::read_into(in, value.emplace());
  }
};

template <class... A>
struct coder<shape::variant, std::variant<A...>> {
  using type = std::variant<A...>;
  static void write(out_archive& out, const type& value) {
    // A variant without a value has the index -1, which read refuses; so does writing.
    out.count(value.index());
    const writing inside(out);
    std::visit([&out](const auto& held) { codec::write(out, held); }, value);
  }
  static type read(in_archive& in) {
    const std::uint64_t index = in.count();
    const reading inside(in, name_of<type>());
    return read_at(in, index, std::index_sequence_for<A...>{});
  }

 private:
  template <std::size_t... I>
  static type read_at(in_archive& in, std::uint64_t index, std::index_sequence<I...> /*places*/) {
    std::optional<type> found;
    static_cast<void>(
        ((index == I && (found.emplace(std::in_place_index<I>,
                                       codec::read<std::variant_alternative_t<I, type>>(in)),
                         true)) ||
         ...));
    if (!found) in.refuse_value(index, "one of its alternatives", name_of<type>());
    return *std::move(found);
  }
};

template <class T>
struct coder<shape::unique, T> {
  using pointee = std::remove_cv_t<typename T::element_type>;
  static void write(out_archive& out, const T& value) {
    out.raw(static_cast<std::uint8_t>(value != nullptr));
    if (value == nullptr) return;
    const writing inside(out);
    out.charge(sizeof(pointee));
    codec::write<pointee>(out, *value);
  }
  static T read(in_archive& in) {
    if (!in.flag(name_of<T>())) return nullptr;
    const reading inside(in, name_of<T>());
    in.charge(sizeof(pointee), name_of<T>());
    return T(new pointee(codec::read<pointee>(in)));
  }
};

// Objects keep their identity within one value: what two pointers share is written once.
template <class T>
struct coder<shape::shared, T> {
  using pointee = std::remove_cv_t<typename T::element_type>;
  static void write(out_archive& out, const T& value) {
    if (!out.shared(value.get(), type_hash<pointee>)) return;
    const writing inside(out);
    out.charge(sizeof(pointee));
    codec::write<pointee>(out, *value);
  }
  static T read(in_archive& in) {
    auto place = in.shared(type_hash<pointee>, name_of<T>());
    if (!place.follows) return std::static_pointer_cast<pointee>(std::move(place.object));
    const reading inside(in, name_of<T>());
    in.charge(sizeof(pointee), name_of<T>());
    if constexpr (std::is_default_constructible_v<pointee>) {
      // Known before its content, which may point back to it.
      auto made = std::make_shared<pointee>();
      in.made_shared(place.number, made);
      read_into(in, *made);
      return made;
    } else {
      auto made = std::make_shared<pointee>(codec::read<pointee>(in));
      in.made_shared(place.number, made);
      return made;
    }
  }
};

template <class T>
struct coder<shape::weak, T> {
  using owner = std::shared_ptr<typename T::element_type>;
  static void write(out_archive& out, const T& value) { codec::write<owner>(out, value.lock()); }
  static T read(in_archive& in) { return codec::read<owner>(in); }
};

template <class T>
struct coder<shape::duration, T> {
  using rep = typename T::rep;
  static void write(out_archive& out, const T& value) { codec::write<rep>(out, value.count()); }
  static T read(in_archive& in) { return T(codec::read<rep>(in)); }
};

template <class T>
struct coder<shape::time_point, T> {
  using duration = typename T::duration;
  static void write(out_archive& out, const T& value) {
    codec::write<duration>(out, value.time_since_epoch());
  }
  static T read(in_archive& in) { return T(codec::read<duration>(in)); }
};

template <class A, class B>
struct coder<shape::tuple, std::pair<A, B>> {
  using type = std::pair<A, B>;
  static void write(out_archive& out, const type& value) {
    codec::write<std::remove_cv_t<A>>(out, value.first);
    codec::write<std::remove_cv_t<B>>(out, value.second);
  }
  static type read(in_archive& in) {
    return type{codec::read<std::remove_cv_t<A>>(in), codec::read<std::remove_cv_t<B>>(in)};
  }
};

template <class... A>
struct coder<shape::tuple, std::tuple<A...>> {
  using type = std::tuple<A...>;
  static void write(out_archive& out, const type& value) {
    if constexpr (sizeof...(A) == 0) out.raw(std::uint8_t{0});
    std::apply([&out](const auto&... part) { (codec::write(out, part), ...); }, value);
  }
  static type read(in_archive& in) {
    if constexpr (sizeof...(A) == 0) in.raw<std::uint8_t>();
    return type{codec::read<std::remove_cv_t<A>>(in)...};
  }
};

template <class T>
struct coder<shape::aggregate, T> {
  static constexpr std::size_t fields = count_fields<T>();

  static void write(out_archive& out, const T& value) {
    if constexpr (is_bitwise<T> && fields != 0) {
      out.bytes(&value, sizeof value);
    } else {
      // What has no field takes a byte, too.
      if constexpr (fields == 0) out.raw(std::uint8_t{0});
      visit_fields(value, [&out](const auto&... field) { (codec::write(out, field), ...); });
    }
  }
  static T read(in_archive& in) {
    if constexpr (std::is_default_constructible_v<T>) {
      return read_fresh<T>(in);
    } else {
      return read_braced(in, field_types());
    }
  }
  static void read_into(in_archive& in, T& value) {
    if constexpr (is_bitwise<T> && fields != 0) {
      in.bytes(&value, sizeof value);
    } else {
      if constexpr (fields == 0) in.raw<std::uint8_t>();
      visit_fields(value, [&in](auto&... field) { (codec::read_into(in, field), ...); });
    }
  }

 private:
  template <class... F>
  struct types {};
  static auto field_types() {
    return decltype(visit_fields(std::declval<T&>(), [](auto&... field) {
      return types<std::remove_cvref_t<decltype(field)>...>{};
    })){};
  }
  template <class... F>
  static T read_braced(in_archive& in, types<F...> /*fields*/) {
    return T{codec::read<F>(in)...};
  }
};

template <class T>
struct coder<shape::by_cereal, T> {
  static constexpr cereal_form form = cereal_form_of<out_archive, T>();

  static void write(out_archive& out, const T& value) {
    const writing inside(out);
    const std::uint32_t version = cereal_version<T>();
    out.count(version);
    save_by_cereal<form>(out, value, version);
  }
  static void read_into(in_archive& in, T& value) {
    const reading inside(in, name_of<T>());
    const std::uint64_t version = in.count();
    if (version > UINT32_MAX) in.refuse_value(version, "32 bits of a version", name_of<T>());
    load_by_cereal<form, out_archive>(in, value, static_cast<std::uint32_t>(version));
  }
  static T read(in_archive& in) {
    if constexpr (std::is_default_constructible_v<T>) {
      return read_fresh<T>(in);
    } else {
      // A private constructor, for cereal's eyes.
      const std::unique_ptr<T> made(cereal::access::construct<T>());
      read_into(in, *made);
      return std::move(*made);
    }
  }
};

template <class T>
void write(out_archive& out, const T& value) {
  if constexpr (std::is_const_v<T>) {
    write<std::remove_const_t<T>>(out, value);
  } else {
    coder<shape_of<T>(), T>::write(out, value);
  }
}

template <class T>
T read(in_archive& in) {
  return coder<shape_of<T>(), T>::read(in);
}

/// A function of its own, so that the large value is not part of its caller's frame.
template <class T>
[[gnu::noinline]] void read_and_move(in_archive& in, T& value) {
  value = coder<shape_of<T>(), T>::read(in);
}

template <class T>
void read_into(in_archive& in, T& value) {
  using kind = coder<shape_of<T>(), T>;
  if constexpr (requires { kind::read_into(in, value); }) {
    kind::read_into(in, value);
  } else if constexpr (sizeof(T) > 256) {
    read_and_move(in, value);
  } else {
    value = kind::read(in);
  }
}

}  // namespace manta::inline v0::codec
