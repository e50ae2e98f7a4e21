// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include <manta/base/export.hpp>
#include <manta/codec/out_buffer.hpp>
#include <manta/spec/parcel.hpp>

// Where values are read from. The bytes may come from anybody: each step looks before it reads.
//
// Bounds, all checked before memory is taken: a count is at most the number of bytes left; memory
// is charged against most_memory(bytes); values lie at most most_nested deep in each other; a
// segment and a reference have the type that is asked for; each is taken once. A breach throws
// decode_failed, which says at which byte what was found.
//
// Threads: one at a time. The parcel has to stay while it is read.

namespace manta::inline v0::codec {

class MANTA_API in_buffer {
 public:
  explicit in_buffer(const spec::parcel_view& from) noexcept;
  ~in_buffer();
  in_buffer(const in_buffer&) = delete;
  in_buffer& operator=(const in_buffer&) = delete;

  std::size_t left() const noexcept { return static_cast<std::size_t>(end_ - at_); }

  void bytes(void* to, std::size_t n) {
    if (n == 0) return;
    need(n);
    std::memcpy(to, at_, n);
    at_ += n;
  }
  template <class T>
  requires(std::is_trivially_copyable_v<T>) T raw() {
    T value;
    bytes(&value, sizeof value);
    return value;
  }
  std::uint64_t count() {
    need(1);
    const auto first = std::to_integer<std::uint8_t>(*at_);
    if (first >= 0x80) [[unlikely]]
      return long_count();
    ++at_;
    return first;
  }
  /// A count of values that follow, each of which takes a byte at least.
  std::size_t bounded_count(const char* type) {
    const std::uint64_t n = count();
    if (n > left()) [[unlikely]]
      refuse_count(n, type);
    return static_cast<std::size_t>(n);
  }
  /// The same for values for which `each` bytes of memory are taken.
  std::size_t count_of(std::size_t each, const char* type) {
    const std::size_t n = bounded_count(type);
    charge_each(n, each, type);
    return n;
  }
  /// A range of plain values: how many, and where their bytes are; those may lie anywhere, and stay
  /// as long as the parcel.
  struct plain_range {
    const std::byte* at;
    std::size_t count;
    bool is_segment;
  };
  plain_range range(std::size_t element_bytes, std::uint64_t type_hash, const char* type) {
    const std::uint64_t told = count();
    const std::uint64_t n = told / 2;
    if (told % 2 == 1) [[unlikely]]
      return segment(n, element_bytes, type_hash, type);
    if (n > left() / element_bytes) [[unlikely]]
      refuse_count(n, type);
    const std::byte* const begin = at_;
    at_ += n * element_bytes;
    return {begin, static_cast<std::size_t>(n), false};
  }

  /// A yes or a no.
  bool flag(const char* type) {
    const auto found = raw<std::uint8_t>();
    if (found > 1) [[unlikely]]
      refuse_value(found, "0 or 1", type);
    return found == 1;
  }
  void charge(std::uint64_t bytes, const char* type) {
    if (bytes > memory_left_) [[unlikely]]
      refuse_memory(bytes, type);
    memory_left_ -= bytes;
  }
  void charge_each(std::uint64_t n, std::size_t each, const char* type) {
    std::uint64_t bytes = 0;
    if (__builtin_mul_overflow(n, std::uint64_t{each}, &bytes)) bytes = UINT64_MAX;
    charge(bytes, type);
  }
  void enter(const char* type) {
    if (++depth_ > most_nested) [[unlikely]]
      refuse_depth(type);
  }
  void leave() noexcept { --depth_; }

  /// What a shared pointer points to: nothing, an object read before, or one that follows.
  struct shared_place {
    std::shared_ptr<void> object;  // read before
    std::size_t number = 0;        // 0: a null pointer; else of the object
    bool follows = false;
  };
  shared_place shared(std::uint64_t type_hash, const char* type);
  /// The object that followed is there; may be told before its content was read.
  void made_shared(std::size_t number, std::shared_ptr<void> object);

  /// The next handle of the kind and the type.
  const spec::reference& reference(spec::reference_kind kind, std::uint64_t type_hash,
                                   const char* type);

  /// What is read lies in a cell, whose readers ask for arrays that are elsewhere. Answers what it
  /// was before.
  bool into_cell(bool is_one) noexcept { return std::exchange(into_cell_, is_one); }
  bool into_cell() const noexcept { return into_cell_; }

  /// Throws decode_failed unless all was read.
  void finish();

  /// A value that can't be: throws decode_failed with what was found and what is allowed.
  [[noreturn]] void refuse_value(std::uint64_t found, const char* allowed, const char* type);
  /// Throws decode_failed with the reason, and where and in which type.
  [[noreturn]] void refuse(const char* reason, const char* type);

 private:
  struct shared_object;

  void need(std::size_t n) {
    if (n > left()) [[unlikely]]
      refuse_short(n);
  }
  std::uint64_t long_count();
  plain_range segment(std::uint64_t n, std::size_t element_bytes, std::uint64_t type_hash,
                      const char* type);
  std::size_t position() const noexcept;
  [[noreturn]] void refuse_short(std::size_t n);
  [[noreturn]] void refuse_count(std::uint64_t n, const char* type);
  [[noreturn]] void refuse_memory(std::uint64_t bytes, const char* type);
  [[noreturn]] void refuse_depth(const char* type);

  const std::byte* at_;
  const std::byte* end_;
  std::uint64_t memory_left_;
  std::uint32_t depth_ = 0;
  bool into_cell_ = false;
  std::size_t next_segment_ = 0;
  std::size_t next_reference_ = 0;
  spec::parcel_view from_;
  std::vector<shared_object> shared_;
};

}  // namespace manta::inline v0::codec
