// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <utility>

#include <manta/codec/containers.hpp>
#include <manta/spec/error.hpp>

// One value into a parcel and out of it.

namespace manta::inline v0::codec {

/// The exception being handled, thrown by reading a T, as decode_failed: its own error, or what the
/// class's functions threw. What says that an array of it could not be had stays that.
[[noreturn]] MANTA_API void raise_decode_failed(const char* type);

/// Writes `value` as a parcel of its own into an empty archive. Throws encode_failed, and what the
/// class's cereal functions throw; then the archive is to be cleared. The value has to stay as it
/// is while the parcel is used, unless the archive has a sink.
template <class T>
spec::parcel_view encode(out_archive& out, const T& value) {
  codec::write(out, value);
  out.finish();
  return out.view();
}

/// A large range of a temporary would be gone before the parcel is used.
template <class T>
spec::parcel_view encode(out_archive& out, const T&& value) = delete;

/// The value in a parcel. Throws decode_failed, whatever the bytes are; std::bad_alloc.
template <class T>
T decode(const spec::parcel_view& from) {
  in_archive in(from);
  try {
    T value = codec::read<T>(in);
    in.finish();
    return value;
  } catch (...) {
    raise_decode_failed(name_of<T>());
  }
}

}  // namespace manta::inline v0::codec
