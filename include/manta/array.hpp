// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <manta/base/export.hpp>
#include <manta/base/type_name.hpp>
#include <manta/handles.hpp>
#include <manta/node/array_block.hpp>
#include <manta/travel.hpp>

// array: many values of one plain type that are written once and then shared without copying.
//
//   make_array<T>(shape) -> unsealed_array<T> --fill--> seal() -> array<T>, copied at will
//
// The values lie in the store of the node (config::store_bytes). A handle keeps them in memory, but
// where it is part of a result or object that nobody reads (config::spill_folder). It goes into
// tasks, actors and other values as a reference; isolated workers read them where they lie, too.

namespace manta::inline v0 {

/// How many elements an array has in each direction, the last one varying fastest: 1 to 8
/// directions of 1 or more. A value.
class MANTA_API array_shape {
 public:
  /// The most directions that there may be.
  static constexpr std::size_t most_directions = 8;

  /// No direction: the shape of an empty handle.
  array_shape() noexcept = default;
  /// One direction.
  array_shape(std::size_t elements) noexcept : rank_(1) { extents_[0] = elements; }
  /// The elements in each direction; throws invalid_argument for more than 8.
  array_shape(std::initializer_list<std::size_t> extents)
      : array_shape(std::span(extents.begin(), extents.size())) {}
  /// The same.
  explicit array_shape(std::span<const std::size_t> extents);

  /// The number of directions.
  std::size_t rank() const noexcept { return rank_; }
  /// The elements in a direction, which is below rank().
  std::size_t operator[](std::size_t direction) const noexcept { return extents_[direction]; }
  const std::size_t* begin() const noexcept { return extents_.data(); }        ///< the extents
  const std::size_t* end() const noexcept { return extents_.data() + rank_; }  ///< theirs
  friend bool operator==(const array_shape&, const array_shape&) = default;

 private:
  std::array<std::size_t, most_directions> extents_{};
  std::size_t rank_ = 0;
};

namespace detail {

/// The bytes of an array; throws invalid_argument when there is no such array.
MANTA_API std::uint64_t bytes_of_array(const array_shape& shape, std::size_t element_bytes);
/// Throws invalid_argument unless `shape` has so many elements.
MANTA_API void check_array_shape(const array_shape& shape, std::size_t elements,
                                 std::size_t element_bytes);

template <class T>
constexpr bool check_array_element() {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T> && alignof(T) <= 64,
                "manta: an array holds a plain type: trivially copyable, not const, aligned to at "
                "most 64; use a std::vector for others");
  return check_travel<T>();
}

struct array_access;

}  // namespace detail

/// Many values of a plain type T, written once and shared by all who have a handle. Copying the
/// handle costs an atomic increment, however large the array; holding it keeps the values in
/// memory. Any thread may read; handles themselves are externally synchronised, like a shared_ptr.
template <class T>
class array {
 public:
  using value_type = T;  ///< as of std containers
  static_assert(detail::check_array_element<T>());

  /// An empty handle: no elements, and a shape without directions.
  array() noexcept = default;
  /// Another handle to the same values.
  array(const array& other) noexcept : block_(other.block_), shape_(other.shape_) {
    if (block_ != nullptr) block_->hold();
  }
  /// Takes the handle over; `other` is empty then.
  array(array&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)), shape_(std::exchange(other.shape_, {})) {}
  /// Gives up what this was.
  array& operator=(array other) noexcept {
    std::swap(block_, other.block_);
    std::swap(shape_, other.shape_);
    return *this;
  }
  ~array() {
    if (block_ != nullptr) block_->drop();
  }

  /// The values, one after the other. They stay as long as there is a handle.
  std::span<const T> span() const noexcept { return {data(), size()}; }
  /// The first of them, aligned to 64; null for an empty handle.
  const T* data() const noexcept {
    return block_ == nullptr ? nullptr : reinterpret_cast<const T*>(block_->bytes().data());
  }
  /// How many there are.
  std::size_t size() const noexcept {
    return block_ == nullptr ? 0 : block_->bytes().size() / sizeof(T);
  }
  /// How many in each direction.
  const array_shape& shape() const noexcept { return shape_; }
  /// The element of that index, which is below size().
  const T& operator[](std::size_t index) const noexcept { return data()[index]; }
  const T* begin() const noexcept { return data(); }         ///< the values
  const T* end() const noexcept { return data() + size(); }  ///< theirs
  /// Whether this is a handle to an array.
  bool valid() const noexcept { return block_ != nullptr; }

 private:
  friend struct detail::array_access;
  // Takes a hold over.
  array(node::array_block* block, const array_shape& shape) noexcept
      : block_(block), shape_(shape) {}

  node::array_block* block_ = nullptr;
  array_shape shape_;
};

/// An array that is being written; made by make_array. Its room is given back when it goes
/// unsealed. Movable; externally synchronised, though several threads may write different parts.
template <class T>
class unsealed_array {
 public:
  static_assert(detail::check_array_element<T>());
  /// Takes the room over; `other` has none then.
  unsealed_array(unsealed_array&&) noexcept = default;
  /// Gives back what this had.
  unsealed_array& operator=(unsealed_array&&) noexcept = default;

  /// The elements, of any content until they are written.
  std::span<T> span() const noexcept { return {data(), size()}; }
  /// The first of them, aligned to 64.
  T* data() const noexcept { return reinterpret_cast<T*>(room_->bytes().data()); }
  /// How many there are.
  std::size_t size() const noexcept { return room_->bytes().size() / sizeof(T); }
  /// How many in each direction.
  const array_shape& shape() const noexcept { return shape_; }
  /// The element of that index, which is below size().
  T& operator[](std::size_t index) const noexcept { return data()[index]; }
  /// Makes all elements that value.
  void fill(const T& value) const { std::fill_n(data(), size(), value); }
  /// From now on nobody writes it, and everybody may read it. This has no room any more.
  [[nodiscard]] array<T> seal() &&;

 private:
  friend struct detail::array_access;
  unsealed_array(std::unique_ptr<node::array_making> room, const array_shape& shape) noexcept
      : room_(std::move(room)), shape_(shape) {}

  std::unique_ptr<node::array_making> room_;
  array_shape shape_;
};

namespace detail {

/// The ways into a handle that only the engine takes.
struct array_access {
  template <class T>
  static array<T> make(node::array_block* block, const array_shape& shape) noexcept {
    return array<T>(block, shape);
  }
  template <class T>
  static unsealed_array<T> make_room(const array_shape& shape) {
    return unsealed_array<T>(node::make_array_room(bytes_of_array(shape, sizeof(T))), shape);
  }
  template <class T>
  static node::array_block* block(const array<T>& of) noexcept {
    return of.block_;
  }
  template <class T>
  static node::array_block*& handle(array<T>& of) noexcept {
    return of.block_;
  }
  template <class T>
  static node::array_block* const& handle(const array<T>& of) noexcept {
    return of.block_;
  }
};

template <class Range>
concept sized_values = requires(const Range& r) {
  *std::begin(r);
  std::size(r);
};
template <class Range>
using range_element_t = std::remove_cvref_t<decltype(*std::begin(std::declval<const Range&>()))>;

/// Shapes come from anybody's bytes: one that the block does not have is no shape.
MANTA_API void write_array_shape(codec::out_archive& out, const array_shape& shape);
MANTA_API array_shape read_array_shape(codec::in_archive& in, const char* type);
/// Throws decode_failed unless they belong together.
MANTA_API void check_array_bytes(codec::in_archive& in, const array_shape& shape,
                                 std::size_t element_bytes, std::size_t bytes, const char* type);
/// Copies to memory that nobody reads soon.
MANTA_API void copy_into_array(std::span<std::byte> to, const void* from);

}  // namespace detail

template <class T>
array<T> unsealed_array<T>::seal() && {
  const std::unique_ptr<node::array_making> room = std::move(room_);
  return detail::array_access::make<T>(room->seal(), shape_);
}

/// Room for an array of that shape, to be written and then sealed: in the store of this process,
/// or, in an isolated worker, of its node. Waits for room up to config::store_wait_ms, without
/// lending its core. Throws invalid_argument for a shape without elements or with more than memory
/// can have, store_full with who holds what, no_runtime, unsupported. Any thread. Cost: no page is
/// touched; pages of the store that were used before are written ten times faster than new ones.
template <class T>
[[nodiscard]] unsealed_array<T> make_array(const array_shape& shape) {
  return detail::array_access::make_room<T>(shape);
}

/// An array with a copy of the elements of `values`, a range that knows its size: of the shape
/// given, which has as many elements, or of one direction. Throws what the other one does.
template <detail::sized_values Range>
[[nodiscard]] auto make_array(const Range& values, const array_shape& shape = {})
    -> array<detail::range_element_t<Range>> {
  using T = detail::range_element_t<Range>;
  const auto count = static_cast<std::size_t>(std::size(values));
  const array_shape asked = shape.rank() == 0 ? array_shape(count) : shape;
  detail::check_array_shape(asked, count, sizeof(T));
  unsealed_array<T> made = detail::array_access::make_room<T>(asked);
  if constexpr (requires { std::data(values); }) {
    detail::copy_into_array(std::as_writable_bytes(made.span()), std::data(values));
  } else {
    std::copy_n(std::begin(values), count, made.data());
  }
  return std::move(made).seal();
}

}  // namespace manta::inline v0

namespace manta::inline v0::codec {

/// A byte: 0 for an empty handle, 1 for a reference beside the bytes, 2 for the bytes themselves
/// (of what is in no store, and of most that goes to another node). Then the shape.
template <class T>
struct custom<array<T>> {
  static void write(out_archive& out, const array<T>& a) {
    node::array_block* const block = detail::array_access::block(a);
    if (block == nullptr) return out.raw(std::uint8_t{0});
    const bool leaves = out.node() != 0;
    const bool goes = leaves && !block->is_read_in(out.node()) && !stays(out, a);
    const bool is_copied = block->is_copied() || goes;
    out.raw(static_cast<std::uint8_t>(is_copied ? 2 : 1));
    detail::write_array_shape(out, a.shape());
    if (!is_copied) return out.refer(held(block));
    if (block->is_away(0)) node::raise_array_away();
    // Its value may be put to rest, or go, before the message has gone.
    if (leaves) out.keep(held(block));
    out.range(a.data(), a.size(), sizeof(T), type_hash<T>);
  }
  static array<T> read(in_archive& in) {
    constexpr const char* type = name_of<array<T>>();
    const auto how = in.template raw<std::uint8_t>();
    if (how == 0) return {};
    if (how > 2) in.refuse_value(how, "0 to 2", type);
    const array_shape shape = detail::read_array_shape(in, type);
    if (how == 2) return read_copy(in, shape);
    const spec::reference& found =
        in.reference(spec::reference_kind::array, type_hash<array<T>>, type);
    auto* const block = found.local != 0 ? reinterpret_cast<node::array_block*>(found.local)
                                         : node::borrow_array(found);
    if (block == nullptr) in.refuse("nobody here knows that array", type);
    if (found.local != 0) block->hold();
    array<T> out = detail::array_access::make<T>(block, shape);
    detail::check_array_bytes(in, shape, sizeof(T), block->bytes().size(), type);
    // A cell's reader asks for it; anybody else reads at once.
    if (!in.into_cell() && block->is_away(0)) node::fetch_arrays({&block, 1});
    return out;
  }

 private:
  // Whether its bytes go when they are read there, and not with the message.
  static bool stays(const out_archive& out, const array<T>& a) {
    const node::array_block& block = *detail::array_access::block(a);
    const bool is_large = block.bytes().size() >= node::least_staying || block.is_away(0);
    const bool is_waited_for =
        (out.reader_waits() && is_large) || out.stays(&detail::array_access::handle(a));
    return is_waited_for && block.may_stay(out.node());
  }
  // With a hold.
  static lent_reference held(node::array_block* block) noexcept {
    block->hold();
    return {{.what = {reinterpret_cast<std::uint64_t>(block), 1},
             .owner = {},
             .type = type_hash<array<T>>,
             .local = reinterpret_cast<std::uint64_t>(block),
             .kind = spec::reference_kind::array},
            [](const spec::reference& lent) noexcept {
              reinterpret_cast<node::array_block*>(lent.local)->drop();
            }};
  }
  static array<T> read_copy(in_archive& in, const array_shape& shape) {
    const auto from = in.range(sizeof(T), type_hash<T>, name_of<array<T>>());
    detail::check_array_bytes(in, shape, sizeof(T), from.count * sizeof(T), name_of<array<T>>());
    const auto room = node::make_array_copy(from.count * sizeof(T));
    std::memcpy(room->bytes().data(), from.at, room->bytes().size());
    return detail::array_access::make<T>(room->seal(), shape);
  }
};

}  // namespace manta::inline v0::codec
