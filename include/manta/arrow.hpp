// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include <manta/array.hpp>
#include <manta/base/export.hpp>

// Arrays for other libraries and from them, in one process: Arrow's C data interface
// (https://arrow.apache.org/docs/format/CDataInterface.html), whose two structs are all that both
// sides need. Not a part of manta.hpp. The numbers go there one after the other; how many there are
// in each direction, which Arrow's primitive arrays do not know, is to be said beside it.

/// @cond Arrow's names, which its specification explains; each library that uses them has these.
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

extern "C" {
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  std::int64_t length;
  std::int64_t null_count;
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};
}
#endif
/// @endcond

namespace manta::inline v0 {

namespace detail {

/// Arrow's letter for a type; null: it has none.
template <class T>
constexpr const char* arrow_format() noexcept {
  if constexpr (std::same_as<T, float>) {
    return "f";
  } else if constexpr (std::same_as<T, double>) {
    return "g";
  } else if constexpr (std::integral<T> && !std::same_as<T, bool>) {
    constexpr bool is_signed = std::is_signed_v<T>;
    switch (sizeof(T)) {
      case 1:
        return is_signed ? "c" : "C";
      case 2:
        return is_signed ? "s" : "S";
      case 4:
        return is_signed ? "i" : "I";
      case 8:
        return is_signed ? "l" : "L";
      default:
        return nullptr;
    }
  } else {
    return nullptr;
  }
}

template <class T>
inline constexpr bool has_arrow_format = arrow_format<T>() != nullptr;

template <class T>
concept arrow_number = has_arrow_format<T>;

MANTA_API void export_arrow(node::array_block* block, std::size_t count, const char* format,
                            ArrowSchema* schema, ArrowArray* values);

/// What came from elsewhere; released when this goes.
class MANTA_API arrow_import {
 public:
  arrow_import(ArrowSchema* schema, ArrowArray* values) noexcept
      : schema_(schema), values_(values) {}
  ~arrow_import();
  arrow_import(const arrow_import&) = delete;
  arrow_import& operator=(const arrow_import&) = delete;

  /// How many numbers there are. Throws invalid_argument unless they are of that format.
  std::size_t count(const char* format) const;
  /// The first of them; after count().
  const std::byte* data(std::size_t element_bytes) const noexcept {
    return static_cast<const std::byte*>(values_->buffers[1]) +
           static_cast<std::size_t>(values_->offset) * element_bytes;
  }

 private:
  ArrowSchema* schema_;
  ArrowArray* values_;
};

}  // namespace detail

/// Lets another library of this process read the values where they lie: fills both structs, which
/// the other side releases, each by itself, as Arrow says; the values stay until then. T: an
/// integer or a floating point number. Throws invalid_argument for an empty handle, std::bad_alloc;
/// both structs are untouched then. Any thread. Nothing is copied.
template <detail::arrow_number T>
void export_to_arrow(const array<T>& values, ArrowSchema* schema, ArrowArray* into) {
  detail::export_arrow(detail::array_access::block(values), values.size(),
                       detail::arrow_format<T>(), schema, into);
}

/// An array with a copy of what another library exported, since workers in other processes could
/// not read that: of the shape given, or of one direction. Releases both structs, also when it
/// throws. Throws invalid_argument for elements that are not T, for missing ones (nulls) and for
/// none at all, and what make_array throws.
template <detail::arrow_number T>
[[nodiscard]] array<T> import_from_arrow(ArrowSchema* schema, ArrowArray* values,
                                         const array_shape& shape = {}) {
  const detail::arrow_import from(schema, values);
  const std::size_t count = from.count(detail::arrow_format<T>());
  const array_shape asked = shape.rank() == 0 ? array_shape(count) : shape;
  detail::check_array_shape(asked, count, sizeof(T));
  unsealed_array<T> made = make_array<T>(asked);
  detail::copy_into_array(std::as_writable_bytes(made.span()), from.data(sizeof(T)));
  return std::move(made).seal();
}

}  // namespace manta::inline v0
