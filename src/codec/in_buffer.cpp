// SPDX-License-Identifier: Apache-2.0
#include <manta/codec/in_buffer.hpp>

#include <new>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <manta/codec/codec.hpp>
#include <manta/spec/error.hpp>

namespace manta::inline v0::codec {

namespace {

constexpr unsigned bits_of_a_count = 64;

std::uint64_t bytes_of(const spec::parcel_view& from) noexcept {
  std::uint64_t sum = from.head.size();
  for (const spec::segment_view& one : from.segments) sum += one.bytes.size();
  return sum;
}

// What is at fault, after "decode: ", and what to do about it.
[[noreturn]] void fail(std::string what) {
  raise(errc::decode_failed,
        fmt::format("decode: {}; the bytes are damaged, or were not written by this program's "
                    "build",
                    std::move(what)));
}

std::string readable(const char* type) { return readable_name(type); }

}  // namespace

struct in_buffer::shared_object {
  std::shared_ptr<void> object;  // null while it is read
  std::uint64_t type = 0;
};

in_buffer::in_buffer(const spec::parcel_view& from) noexcept
    : at_(from.head.data()),
      end_(from.head.data() + from.head.size()),
      memory_left_(most_memory(bytes_of(from))),
      from_(from) {}

in_buffer::~in_buffer() = default;

std::size_t in_buffer::position() const noexcept {
  return static_cast<std::size_t>(at_ - from_.head.data());
}

std::uint64_t in_buffer::long_count() {
  std::uint64_t n = 0;
  for (unsigned shift = 0; shift < bits_of_a_count; shift += 7) {
    need(1);
    const auto byte = std::to_integer<std::uint64_t>(*at_++);
    const std::uint64_t part = byte & 0x7fU;
    if (shift == 63 && part > 1) break;
    n |= part << shift;
    if (byte < 0x80) return n;
  }
  fail(fmt::format("the count before byte {} has more than 64 bits", position()));
}

in_buffer::plain_range in_buffer::segment(std::uint64_t n, std::size_t element_bytes,
                                          std::uint64_t type_hash, const char* type) {
  if (next_segment_ >= from_.segments.size()) {
    fail(fmt::format("{} asks for segment {}, there are {}", readable(type), next_segment_,
                     from_.segments.size()));
  }
  const spec::segment_view& segment = from_.segments[next_segment_];
  if (segment.type != type_hash || segment.element_bytes != element_bytes) {
    fail(fmt::format("segment {} has elements of another type ({} bytes each) than {} ({} bytes)",
                     next_segment_, segment.element_bytes, readable(type), element_bytes));
  }
  if (segment.bytes.size() % element_bytes != 0 || segment.bytes.size() / element_bytes != n) {
    fail(fmt::format("segment {} has {} bytes, {} elements of {} bytes were told", next_segment_,
                     segment.bytes.size(), n, element_bytes));
  }
  ++next_segment_;
  return {segment.bytes.data(), static_cast<std::size_t>(n), true};
}

in_buffer::shared_place in_buffer::shared(std::uint64_t type_hash, const char* type) {
  const std::uint64_t number = count();
  if (number == 0) return {};
  if (number == shared_.size() + 1) {
    shared_.push_back({nullptr, type_hash});
    return {nullptr, static_cast<std::size_t>(number), true};
  }
  if (number > shared_.size()) {
    fail(fmt::format("{} points to object {}, {} came before", readable(type), number,
                     shared_.size()));
  }
  const shared_object& known = shared_[static_cast<std::size_t>(number) - 1];
  if (known.type != type_hash) {
    fail(fmt::format("{} points to object {}, which is of another type", readable(type), number));
  }
  if (known.object == nullptr) {
    fail(fmt::format("{} points to object {}, which contains it and has no default constructor",
                     readable(type), number));
  }
  return {known.object, static_cast<std::size_t>(number), false};
}

void in_buffer::made_shared(std::size_t number, std::shared_ptr<void> object) {
  shared_[number - 1].object = std::move(object);
}

const spec::reference& in_buffer::reference(spec::reference_kind kind, std::uint64_t type_hash,
                                            const char* type) {
  if (next_reference_ >= from_.references.size()) {
    fail(fmt::format("{} asks for reference {}, there are {}", readable(type), next_reference_,
                     from_.references.size()));
  }
  const spec::reference& found = from_.references[next_reference_];
  if (found.kind != kind || found.type != type_hash) {
    fail(fmt::format("reference {} is to something else than a {}", next_reference_,
                     readable(type)));
  }
  ++next_reference_;
  return found;
}

void in_buffer::finish() {
  if (left() != 0) fail(fmt::format("{} bytes are left over after byte {}", left(), position()));
  if (next_segment_ != from_.segments.size()) {
    fail(fmt::format("{} of {} segments were asked for", next_segment_, from_.segments.size()));
  }
  if (next_reference_ != from_.references.size()) {
    fail(fmt::format("{} of {} references were asked for", next_reference_,
                     from_.references.size()));
  }
}

void in_buffer::refuse_value(std::uint64_t found, const char* allowed, const char* type) {
  fail(fmt::format("{} before byte {} is {}, allowed are {}", readable(type), position(), found,
                   allowed));
}

void in_buffer::refuse(const char* reason, const char* type) {
  fail(fmt::format("{} before byte {}: {}", readable(type), position(), reason));
}

void in_buffer::refuse_short(std::size_t n) {
  fail(fmt::format("{} bytes are needed at byte {}, {} are left", n, position(), left()));
}

void in_buffer::refuse_count(std::uint64_t n, const char* type) {
  fail(fmt::format("{} at byte {} has {} elements, {} bytes are left", readable(type), position(),
                   n, left()));
}

void in_buffer::refuse_memory(std::uint64_t bytes, const char* type) {
  fail(fmt::format("{} at byte {} takes {} bytes of memory, {} are granted for what was sent",
                   readable(type), position(), bytes, memory_left_));
}

void in_buffer::refuse_depth(const char* type) {
  depth_ = 0;
  fail(
      fmt::format("{} at byte {} lies more than {} deep", readable(type), position(), most_nested));
}

void raise_decode_failed(const char* type) {
  try {
    throw;
  } catch (const decode_failed&) {
    throw;
  } catch (const node_lost&) {
    throw;  // it had an array in the value, which had to be fetched; so have the next ones
  } catch (const object_lost&) {
    throw;
  } catch (const store_full&) {
    throw;
  } catch (const out_of_memory&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& thrown) {
    fail(fmt::format("{}: its functions threw \"{}\"", readable(type), thrown.what()));
  } catch (...) {
    fail(fmt::format("{}: its functions threw something", readable(type)));
  }
}

}  // namespace manta::inline v0::codec
