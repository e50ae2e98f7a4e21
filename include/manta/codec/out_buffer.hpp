// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <manta/base/export.hpp>
#include <manta/spec/parcel.hpp>

// Where values are written to.
//
// Problem. A value has to become bytes without an allocation for each, a large array in it must not
// be copied more than once, and the handles in it have to be known to who ships it.
//
// Idea. Three lists, kept for the next value: the head, bytes one after the other; segments, large
// ranges of plain values beside it; references, the handles. The head says when the next segment or
// reference comes, so both need no place of their own.
//
//     head        5 h e l l o | 2000000+segment | 1 ...
//     segments    [ 1,000,000 doubles ]           borrowed, or copied to where the sink says
//     references  [ future 7 ]                    lent: held until they are taken or dropped
//
// The format. Numbers as they lie in memory, little-endian; counts in groups of 7 bits, the lowest
// first, the top bit of a byte says that another follows; a range of plain values begins with its
// count times 2, plus 1 when it is a segment. Everything takes at least one byte, so that a count
// is at most the number of bytes left.
//
// Limits. 256 values inside of each other; memory that decoding takes, see most_memory. Both are
// kept by the writer, too: what can't be read is refused where it is written.
//
// Threads: one at a time. Cost: a comparison and a copy for each value; no allocation once warm.

namespace manta::inline v0::codec {

/// Values inside of each other, counted where a type can be inside of itself: at pointers,
/// containers, optionals and variants.
inline constexpr std::uint32_t most_nested = 256;
/// Ranges of at least so many bytes travel as segments.
inline constexpr std::size_t segment_from = 4096;

/// What decoding a value of `bytes` (head and segments together) may take in memory beside what
/// ranges of plain values take, which are as large as their bytes: 16 MiB and 256 times the bytes.
constexpr std::uint64_t most_memory(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t base = std::uint64_t{16} << 20U;
  constexpr std::uint64_t factor = 256;
  return bytes > (UINT64_MAX - base) / factor ? UINT64_MAX : base + factor * bytes;
}

/// Gives the memory that a segment is written to.
class segment_sink {
 public:
  virtual ~segment_sink() = default;
  /// `bytes` bytes that begin at a multiple of 64. Throws what it has to when there are none.
  virtual std::byte* take(std::size_t bytes) = 0;
};

/// A handle that was lent: who drops the parcel gives it back.
struct lent_reference {
  spec::reference as;
  void (*give_back)(const spec::reference& lent) noexcept = nullptr;  // null: nothing to do
};

class MANTA_API out_buffer {
 public:
  /// `sink`: where segments are copied to; null: they are borrowed, and what is encoded has to stay
  /// until the parcel was used.
  explicit out_buffer(segment_sink* sink = nullptr) noexcept;
  ~out_buffer();
  out_buffer(const out_buffer&) = delete;
  out_buffer& operator=(const out_buffer&) = delete;

  /// Forgets what was written and gives back what was lent. Keeps up to 8 MiB for the next value.
  void clear() noexcept;

  void bytes(const void* from, std::size_t n) {
    if (n == 0) return;  // an empty range may have no address
    if (n > room()) [[unlikely]]
      grow(n);
    std::memcpy(at_, from, n);
    at_ += n;
  }
  template <class T>
  requires(std::is_trivially_copyable_v<T>) void raw(const T& value) {
    bytes(&value, sizeof value);
  }
  void count(std::uint64_t n) {
    if (n < 0x80) {
      raw(static_cast<std::uint8_t>(n));
    } else {
      long_count(n);
    }
  }
  /// `count` plain values that lie one after the other.
  void range(const void* from, std::size_t count, std::size_t element_bytes, std::uint64_t type) {
    const std::size_t size = count * element_bytes;
    if (size >= segment_from) [[unlikely]]
      return segment(from, count, element_bytes, type);
    if (count < 0x40 && count != 0 && size < room()) [[likely]] {
      // Short text: one look for the count and for what is counted.
      *at_ = static_cast<std::byte>(count * 2);
      std::memcpy(at_ + 1, from, size);
      at_ += size + 1;
      return;
    }
    this->count(std::uint64_t{count} * 2);
    bytes(from, size);
  }

  /// While `is_passing` what is written does not stay until the parcel is used: large ranges are
  /// copied into the head, not borrowed. Answers what it was before.
  bool passing(bool is_passing) noexcept { return std::exchange(is_passing_, is_passing); }

  /// What is written from here on goes to that other node, where little of this one's memory can be
  /// read in place: what can't goes as bytes. 0: it stays in this one.
  void for_node(std::uint64_t node) noexcept { node_ = node; }
  std::uint64_t node() const noexcept { return node_; }
  /// What is written will lie in a cell there, whose readers ask first (node/rest.hpp): large
  /// arrays that can be asked for may stay here. Until clear().
  void into_cell(bool is_one) noexcept { into_cell_ = is_one; }
  bool into_cell() const noexcept { return into_cell_; }
  /// Who reads what is written can wait for each large array in it. Until clear().
  void reader_waits(bool does) noexcept { reader_waits_ = does; }
  bool reader_waits() const noexcept { return reader_waits_; }
  /// Of a value for a cell: an array handle that its readers find. Throws std::bad_alloc.
  void may_stay(const void* handle) { may_stay_.push_back(handle); }
  /// Whether it was one.
  bool stays(const void* handle) const noexcept;
  /// Gives `held` back when what was written is forgotten: a range that was written lies in it.
  void keep(const lent_reference& held);

  /// Decoding will take so much memory beside what lies in the value itself.
  void charge(std::uint64_t bytes) noexcept { charged_ += bytes; }
  /// A value inside of the one that is written begins, and ends.
  void enter() {
    if (++depth_ > most_nested) [[unlikely]]
      refuse_depth();
  }
  void leave() noexcept { --depth_; }

  /// Writes which object a shared pointer points to; true when it is the first one that does, and
  /// the object has to follow.
  bool shared(const void* object, std::uint64_t type);
  /// Notes a handle; its place in the list is its place among the handles written. Takes over the
  /// hold that `lent.give_back` gives back.
  void refer(const lent_reference& lent);

  /// Ends a value. Throws encode_failed when decoding it would take more memory than it may.
  void finish();
  /// What was written; valid until the next call.
  spec::parcel_view view();
  /// Bytes of head and segments.
  std::size_t size() const noexcept {
    return static_cast<std::size_t>(at_ - head_.get()) + segment_bytes_;
  }
  /// What was lent so far, in the order of the parcel's references.
  const std::vector<lent_reference>& lent() const noexcept { return lent_; }
  /// The parcel was decoded by who has taken all references over: nothing is given back any more.
  void lent_is_taken() noexcept { lent_.clear(); }

 private:
  struct identities;

  std::size_t room() const noexcept { return static_cast<std::size_t>(end_ - at_); }
  void grow(std::size_t n);
  void long_count(std::uint64_t n);
  void segment(const void* from, std::size_t count, std::size_t element_bytes, std::uint64_t type);
  [[noreturn]] void refuse_depth();
  static void give_back(std::vector<lent_reference>& all) noexcept;

  std::byte* at_ = nullptr;
  std::byte* end_ = nullptr;
  std::unique_ptr<std::byte[]> head_;
  std::uint64_t charged_ = 0;
  std::size_t segment_bytes_ = 0;
  std::uint32_t depth_ = 0;
  bool is_passing_ = false;
  bool into_cell_ = false;
  bool reader_waits_ = false;
  std::uint64_t node_ = 0;
  segment_sink* sink_;
  std::vector<spec::segment_view> segments_;
  std::vector<lent_reference> lent_;
  std::vector<lent_reference> kept_;
  std::vector<const void*> may_stay_;
  std::vector<spec::reference> references_;
  std::unique_ptr<identities> identities_;
};

}  // namespace manta::inline v0::codec
