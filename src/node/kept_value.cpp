// SPDX-License-Identifier: Apache-2.0
#include <manta/node/kept_value.hpp>

#include <cstring>
#include <new>

#include <fmt/format.h>

#include <manta/base/machine.hpp>

namespace manta::inline v0::node {

namespace {

constexpr std::string_view mark("mv\1\0\0\0\0\0", 8);
constexpr std::size_t range_alignment = 64;

constexpr std::size_t aligned(std::size_t n) noexcept {
  return (n + range_alignment - 1) / range_alignment * range_alignment;
}

void add_number(std::string& to, std::uint64_t n) {
  to.append(reinterpret_cast<const char*>(&n), sizeof n);
}
void add_bytes(std::string& to, std::span<const std::byte> bytes) {
  to.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

[[noreturn]] void refuse(std::string_view key, const std::string& why) {
  raise(errc::decode_failed, fmt::format("the value of \"{}\" {}", key, why));
}

/// Takes numbers from the front of what is left.
class numbers {
 public:
  numbers(std::string_view from, std::string_view key) : left_(from), key_(key) {}
  std::uint64_t next() {
    std::uint64_t n = 0;
    if (left_.size() < sizeof n) refuse(key_, "is cut short; it was not written by manta::kv");
    std::memcpy(&n, left_.data(), sizeof n);
    left_.remove_prefix(sizeof n);
    return n;
  }
  std::size_t left() const noexcept { return left_.size(); }

 private:
  std::string_view left_;
  std::string_view key_;
};

}  // namespace

std::string keep(const spec::parcel_view& value, const char* spelled_type) {
  if (!value.references.empty()) {
    raise(errc::encode_failed,
          fmt::format("kv: a {} has handles in it (futures, actors or the like), which can't be "
                      "kept; keep what they stand for",
                      readable_name(spelled_type)));
  }
  std::string out(mark);
  add_number(out, base::hash_name(spelled_type));
  add_number(out, value.head.size());
  add_number(out, value.segments.size());
  for (const spec::segment_view& one : value.segments) {
    add_number(out, one.bytes.size());
    add_number(out, one.type);
    add_number(out, one.element_bytes);
  }
  add_bytes(out, value.head);
  for (const spec::segment_view& one : value.segments) {
    out.resize(aligned(out.size()));
    add_bytes(out, one.bytes);
  }
  return out;
}

kept_value::kept_value(std::string_view bytes, const char* spelled_type, std::string_view key) {
  if (!bytes.starts_with(mark)) refuse(key, "was not written by this version of manta::kv");
  numbers from(bytes.substr(mark.size()), key);
  if (from.next() != base::hash_name(spelled_type)) {
    refuse(key, fmt::format("is of another type than {}; ask for the one it was written with",
                            readable_name(spelled_type)));
  }
  const std::uint64_t head = from.next();
  const std::uint64_t segments = from.next();
  if (segments > from.left() / 24) refuse(key, "is cut short");
  segments_.resize(static_cast<std::size_t>(segments));
  std::vector<std::uint64_t> sizes;
  for (spec::segment_view& one : segments_) {
    sizes.push_back(from.next());
    one.type = from.next();
    one.element_bytes = static_cast<std::uint32_t>(from.next());
  }
  memory_.reset(
      static_cast<std::byte*>(::operator new (bytes.size(), std::align_val_t{range_alignment})));
  base::welcome_large_pages(memory_.get(), bytes.size());
  std::memcpy(memory_.get(), bytes.data(), bytes.size());
  std::size_t at = bytes.size() - from.left();
  const auto take = [&](std::uint64_t n) {
    if (at > bytes.size() || n > bytes.size() - at) refuse(key, "is cut short");
    const std::span<const std::byte> part(memory_.get() + at, static_cast<std::size_t>(n));
    at += part.size();
    return part;
  };
  parcel_.head = take(head);
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    at = aligned(at);
    segments_[i].bytes = take(sizes[i]);
  }
  if (at != bytes.size()) refuse(key, "has more bytes than it says");
  parcel_.segments = segments_;
}

}  // namespace manta::inline v0::node
