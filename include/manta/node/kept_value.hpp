// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <manta/base/export.hpp>
#include <manta/base/type_name.hpp>
#include <manta/codec/codec.hpp>

// A value as the control store keeps it: one range of bytes that says what type it is of.
//
//     "mv" version 1, 5 zeros | hash of the spelled type, 8 | bytes of the head, 8 | segments, 8
//     for each segment: bytes, 8 | hash of the element type, 8 | bytes of an element, 8
//     head, zeros to a multiple of 64 | segment, zeros to a multiple of 64 | ...
//
// Numbers are little-endian. Handles can't be kept: who counts them may be gone when they are read.
//
// Threads: any.

namespace manta::inline v0::node {

/// The bytes of an encoded value. Throws encode_failed when it has handles in it.
MANTA_API std::string keep(const spec::parcel_view& value, const char* spelled_type);

/// Kept bytes as a parcel to decode.
class MANTA_API kept_value {
 public:
  /// Copies `bytes`. Throws decode_failed when they are no kept value, or one of another type than
  /// `spelled_type`; `key` is for the message.
  kept_value(std::string_view bytes, const char* spelled_type, std::string_view key);
  const spec::parcel_view& parcel() const noexcept { return parcel_; }

 private:
  struct free_aligned {
    void operator()(std::byte* p) const noexcept { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, free_aligned> memory_;
  std::vector<spec::segment_view> segments_;
  spec::parcel_view parcel_;
};

/// Both at once.
template <class T>
std::string keep_value(const T& value) {
  codec::out_archive out;
  return keep(codec::encode(out, value), base::spelled_type<T>());
}
template <class T>
T read_kept(std::string_view bytes, std::string_view key) {
  const kept_value kept(bytes, base::spelled_type<T>(), key);
  return codec::decode<T>(kept.parcel());
}

}  // namespace manta::inline v0::node
