// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "codec/values.hpp"

// What the fuzz targets share. Each target is one source with libFuzzer's function in it; the same
// sources are linked with libFuzzer in the preset `fuzz` and with replay.cpp everywhere else.
//
// A target that finds a property broken writes one line and aborts: then libFuzzer keeps the input.
//
// An input of the targets of codec/: byte 0 chooses the type; byte 1 how many segments (2 bits) and
// references (2 bits) there are and whether segments begin at an odd place (1 bit); 2 bytes are the
// length of the head; 4 bytes for each segment (which elements, another size of these unless 0, 2
// bytes of length); 2 bytes for each reference (kind; another type unless 0); then the bytes of the
// head and of the segments. What is missing is empty.

namespace fuzz {

namespace codec = manta::codec;

/// Says what is broken and aborts.
[[noreturn]] void fail(const char* what, const char* type, const char* detail = "");

/// Bytes that operator new gave and that were not given back; and the most since restart_peak.
std::uint64_t live_bytes() noexcept;
void restart_peak() noexcept;
std::uint64_t peak_bytes() noexcept;

/// What a segment may be said to hold.
struct element {
  std::uint64_t type;
  std::uint32_t bytes;
};

/// A handle as the engine's are: a reference beside the bytes.
struct handle {
  std::uint64_t number = 0;
};

/// A class whose objects may point at each other in circles. Those that bytes made are taken apart
/// by break_circles, or they would stay.
class knot {
 public:
  knot();
  ~knot();
  knot(const knot&) = delete;
  knot& operator=(const knot&) = delete;
  template <class Archive>
  void serialize(Archive& ar) {
    ar(value_, next_, other_);
  }
  static void break_circles() noexcept;

 private:
  int value_ = 0;
  std::shared_ptr<knot> next_;
  std::weak_ptr<knot> other_;
  knot* before_ = nullptr;  // in the list of all
  knot* after_ = nullptr;
};

/// Takes bytes from the begin of an input; zeros and empty parts when there are none left.
class cutter {
 public:
  explicit cutter(std::span<const std::uint8_t> input) : left_(std::as_bytes(input)) {}
  std::uint8_t byte();
  std::size_t length();  ///< two bytes
  std::span<const std::byte> take(std::size_t n);

 private:
  std::span<const std::byte> left_;
};

/// Bytes at a multiple of 64, or so many behind one. They end where their memory does, so that a
/// sanitizer sees a byte too many.
class block {
 public:
  block() = default;
  explicit block(std::span<const std::byte> from, std::size_t behind = 0);
  std::span<std::byte> bytes() { return {memory_.get() + behind_, size_}; }
  std::span<const std::byte> bytes() const { return {memory_.get() + behind_, size_}; }

 private:
  struct release {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte[], release> memory_;
  std::size_t behind_ = 0;
  std::size_t size_ = 0;
};

/// A parcel cut from an input.
class parcel {
 public:
  explicit parcel(std::span<const std::uint8_t> input);
  manta::spec::parcel_view view() const { return {head_.bytes(), segments_, references_}; }
  std::uint64_t size_bytes() const;

 private:
  block head_;
  std::vector<block> parts_;
  std::vector<manta::spec::segment_view> segments_;
  std::vector<manta::spec::reference> references_;
};

/// Whether equal values of T have equal bytes: not so where a hash decides the order.
template <class T>
inline constexpr bool has_order = true;

/// Aborts unless both parcels are the same.
void same(const test::kept_parcel& a, const test::kept_parcel& b, const char* type);

/// Aborts unless what was taken meanwhile is granted for the bytes of the parcel.
void memory_is_granted(const parcel& from, std::uint64_t before, const char* type);

/// The value in the parcel, or nothing when it is refused as it has to be.
template <class T>
std::optional<T> decoded(const parcel& from) {
  const std::uint64_t before = live_bytes();
  restart_peak();
  std::optional<T> value;
  try {
    value.emplace(codec::decode<T>(from.view()));
  } catch (const manta::decode_failed&) {
    value.reset();
  } catch (const std::bad_alloc&) {
    value.reset();
  } catch (const std::exception& other) {
    fail("decoding threw neither decode_failed nor bad_alloc", codec::name_of<T>(), other.what());
  } catch (...) {
    fail("decoding threw neither decode_failed nor bad_alloc", codec::name_of<T>());
  }
  memory_is_granted(from, before, codec::name_of<T>());
  return value;
}

template <class T>
void check_copies(const T& value) {
  try {
    const test::kept_parcel first = test::encoded(value);
    const T second = codec::decode<T>(first.view());
    const test::kept_parcel again = test::encoded(second);
    if constexpr (has_order<T>) {
      same(first, again, codec::name_of<T>());
    } else if (!(value == second)) {
      fail("a value and its copy differ", codec::name_of<T>());
    }
  } catch (const std::exception& other) {
    fail("a value that was decoded has no copy", codec::name_of<T>(), other.what());
  }
}

/// All properties of one type and one parcel.
template <class T>
void check_type(const parcel& from) {
  const auto once = [&from] {
    const std::uint64_t before = live_bytes();
    if (const std::optional<T> value = decoded<T>(from); value.has_value()) check_copies(*value);
    knot::break_circles();
    return live_bytes() - before;
  };
  // What is made at the first use and kept is no leak; what is kept again is.
  if (once() != 0 && once() != 0) fail("memory stays behind", codec::name_of<T>());
}

/// The target whose types are these.
template <class... T>
void run(std::span<const std::uint8_t> input) {
  constexpr void (*checks[])(const parcel&) = {&check_type<T>...};
  if (input.empty()) return;
  checks[input[0] % sizeof...(T)](parcel(input.subspan(1)));
}

}  // namespace fuzz

template <>
struct manta::codec::custom<fuzz::handle> {
  static void write(out_archive& out, const fuzz::handle& value);
  static fuzz::handle read(in_archive& in);
};

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
