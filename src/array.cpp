// SPDX-License-Identifier: Apache-2.0
#include <manta/array.hpp>

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <manta/spec/error.hpp>

namespace manta::inline v0 {

namespace {

std::string shown(const array_shape& shape) {
  return fmt::format("{{{}}}", fmt::join(shape.begin(), shape.end(), ", "));
}

// The product of all extents and the bytes of an element; false: no number has so many.
bool count_bytes(const array_shape& shape, std::uint64_t element_bytes, std::uint64_t& bytes) {
  bytes = element_bytes;
  for (const std::size_t extent : shape) {
    if (__builtin_mul_overflow(bytes, std::uint64_t{extent}, &bytes)) return false;
  }
  constexpr std::uint64_t most = std::uint64_t{1} << 60U;
  return bytes <= most;
}

}  // namespace

array_shape::array_shape(std::span<const std::size_t> extents) : rank_(extents.size()) {
  if (rank_ > most_directions) {
    raise(errc::invalid_argument,
          fmt::format("manta::array: asked a shape of {} directions, allowed are 1 to {}", rank_,
                      most_directions));
  }
  std::copy(extents.begin(), extents.end(), extents_.begin());
}

namespace detail {

std::uint64_t bytes_of_array(const array_shape& shape, std::size_t element_bytes) {
  const bool is_empty =
      shape.rank() == 0 || std::find(shape.begin(), shape.end(), 0U) != shape.end();
  if (is_empty) {
    raise(errc::invalid_argument,
          fmt::format("manta::make_array: asked an array of the shape {}, which has no elements; "
                      "give it 1 to {} directions with 1 or more in each",
                      shown(shape), array_shape::most_directions));
  }
  std::uint64_t bytes = 0;
  if (!count_bytes(shape, element_bytes, bytes)) {
    raise(
        errc::invalid_argument,
        fmt::format("manta::make_array: asked an array of the shape {} with elements of {} bytes, "
                    "which is more than 2^60 bytes; make a smaller one",
                    shown(shape), element_bytes));
  }
  return bytes;
}

void check_array_shape(const array_shape& shape, std::size_t elements, std::size_t element_bytes) {
  if (bytes_of_array(shape, element_bytes) / element_bytes == elements) return;
  raise(
      errc::invalid_argument,
      fmt::format("manta::make_array: asked an array of the shape {}, and gave {} values; give as "
                  "many as it has elements",
                  shown(shape), elements));
}

void write_array_shape(codec::out_archive& out, const array_shape& shape) {
  out.count(shape.rank());
  for (const std::size_t extent : shape) out.count(extent);
}

array_shape read_array_shape(codec::in_archive& in, const char* type) {
  const std::uint64_t rank = in.count();
  if (rank == 0 || rank > array_shape::most_directions) {
    in.refuse_value(rank, "1 to 8 directions", type);
  }
  std::array<std::size_t, array_shape::most_directions> extents{};
  for (std::size_t i = 0; i < rank; ++i) extents[i] = static_cast<std::size_t>(in.count());
  return array_shape(std::span<const std::size_t>(extents.data(), static_cast<std::size_t>(rank)));
}

void check_array_bytes(codec::in_archive& in, const array_shape& shape, std::size_t element_bytes,
                       std::size_t bytes, const char* type) {
  std::uint64_t asked = 0;
  if (!count_bytes(shape, element_bytes, asked) || asked != bytes || bytes == 0) {
    in.refuse("its shape does not have as many bytes as it has", type);
  }
}

void copy_into_array(std::span<std::byte> to, const void* from) {
  node::fill_array(to, static_cast<const std::byte*>(from));
}

}  // namespace detail

}  // namespace manta::inline v0
