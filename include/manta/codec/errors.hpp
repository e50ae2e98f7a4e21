// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include <manta/codec/identity.hpp>
#include <manta/codec/value.hpp>
#include <manta/spec/error.hpp>
#include <manta/spec/options.hpp>

// Classes of spec/ as values, where they are more than their fields.
//
// manta::error as a value: its code and texts. The exception that it may hold stays in its process;
// one that is a task's result goes with its standard causes, see wire/error_record.hpp.

namespace manta::inline v0 {

template <>
struct enum_range<errc> {
  static constexpr errc first = errc::task_error;
  static constexpr errc last = errc::storage_failed;
};

namespace codec {

template <>
struct custom<error> {
  MANTA_API static void write(out_archive& out, const error& e);
  MANTA_API static error read(in_archive& in);
};

/// What an entry of the kind filter gives as its ops.
struct filter_parts {
  bool (*test)(const std::exception_ptr& thrown);
};

/// The filter that an entry means. Throws decode_failed when the entry is a function.
MANTA_API exception_filter filter_of(const entry& e);

/// Whether other processes know the filter: it has an entry, and that one's test.
MANTA_API bool is_known(const exception_filter& f);

/// By its entry. Throws encode_failed for one that has none, since nobody knows it elsewhere.
template <>
struct custom<exception_filter> {
  MANTA_API static void write(out_archive& out, const exception_filter& f);
  MANTA_API static exception_filter read(in_archive& in);
};

}  // namespace codec
}  // namespace manta::inline v0
