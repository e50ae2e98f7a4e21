// SPDX-License-Identifier: Apache-2.0
#include <manta/codec/out_buffer.hpp>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <manta/base/check.hpp>
#include <manta/spec/error.hpp>

namespace manta::inline v0::codec {

namespace {

constexpr std::size_t first_room = 256;
constexpr std::size_t kept_room = std::size_t{8} << 20U;

struct object_hash {
  std::size_t operator()(const std::pair<const void*, std::uint64_t>& key) const noexcept {
    return std::hash<const void*>()(key.first) ^ static_cast<std::size_t>(key.second);
  }
};

}  // namespace

// Which objects were written already. By type, too: an object and its first field lie at one place.
struct out_buffer::identities {
  std::unordered_map<std::pair<const void*, std::uint64_t>, std::uint64_t, object_hash> numbers;
};

out_buffer::out_buffer(segment_sink* sink) noexcept : sink_(sink) {}
out_buffer::~out_buffer() { clear(); }

void out_buffer::give_back(std::vector<lent_reference>& all) noexcept {
  for (const lent_reference& one : all) {
    if (one.give_back != nullptr) one.give_back(one.as);
  }
  all.clear();
}

void out_buffer::clear() noexcept {
  give_back(lent_);
  give_back(kept_);
  segments_.clear();
  segment_bytes_ = 0;
  charged_ = 0;
  depth_ = 0;
  is_passing_ = false;
  into_cell_ = false;
  reader_waits_ = false;
  may_stay_.clear();
  identities_.reset();
  if (static_cast<std::size_t>(end_ - head_.get()) > kept_room) {
    head_.reset();
    end_ = nullptr;
  }
  at_ = head_.get();
}

// Those are large, and few.
bool out_buffer::stays(const void* handle) const noexcept {
  return std::ranges::find(may_stay_, handle) != may_stay_.end();
}

void out_buffer::grow(std::size_t n) {
  const auto used = static_cast<std::size_t>(at_ - head_.get());
  const auto room = static_cast<std::size_t>(end_ - head_.get());
  const std::size_t wanted = std::max({first_room, 2 * room, used + n});
  std::unique_ptr<std::byte[]> larger(new std::byte[wanted]);
  if (used != 0) std::memcpy(larger.get(), head_.get(), used);
  head_ = std::move(larger);
  at_ = head_.get() + used;
  end_ = head_.get() + wanted;
}

void out_buffer::long_count(std::uint64_t n) {
  for (; n >= 0x80; n >>= 7U) raw(static_cast<std::uint8_t>(n | 0x80U));
  raw(static_cast<std::uint8_t>(n));
}

void out_buffer::segment(const void* from, std::size_t count, std::size_t element_bytes,
                         std::uint64_t type) {
  const std::size_t size = count * element_bytes;
  if (is_passing_ && sink_ == nullptr) {
    this->count(std::uint64_t{count} * 2);
    return bytes(from, size);
  }
  this->count(std::uint64_t{count} * 2 + 1);
  const auto* begin = static_cast<const std::byte*>(from);
  if (sink_ != nullptr) {
    std::byte* const to = sink_->take(size);
    std::memcpy(to, from, size);
    begin = to;
  }
  segments_.push_back({{begin, size}, type, static_cast<std::uint32_t>(element_bytes)});
  segment_bytes_ += size;
}

void out_buffer::refuse_depth() {
  depth_ = 0;
  raise(errc::encode_failed,
        fmt::format("encode: values lie more than {} deep in each other; hand on long chains as a "
                    "vector instead",
                    most_nested));
}

bool out_buffer::shared(const void* object, std::uint64_t type) {
  if (object == nullptr) {
    count(0);
    return false;
  }
  if (!identities_) identities_ = std::make_unique<identities>();
  auto& numbers = identities_->numbers;
  const auto [place, is_new] = numbers.try_emplace({object, type}, numbers.size() + 1);
  count(place->second);
  return is_new;
}

namespace {

// It is given back in any case.
void note(std::vector<lent_reference>& in, const lent_reference& one) {
  try {
    in.push_back(one);
  } catch (...) {
    if (one.give_back != nullptr) one.give_back(one.as);
    throw;
  }
}

}  // namespace

void out_buffer::refer(const lent_reference& lent) { note(lent_, lent); }

void out_buffer::keep(const lent_reference& held) { note(kept_, held); }

void out_buffer::finish() {
  MANTA_CHECK(depth_ == 0);
  const std::uint64_t bytes = size();
  if (charged_ <= most_memory(bytes)) return;
  raise(errc::encode_failed,
        fmt::format("encode: {} bytes would become {} bytes of memory, more than the {} that a "
                    "reader grants them; leave out what is empty, or send it in parts",
                    bytes, charged_, most_memory(bytes)));
}

spec::parcel_view out_buffer::view() {
  references_.clear();
  for (const lent_reference& lent : lent_) references_.push_back(lent.as);
  return {{head_.get(), static_cast<std::size_t>(at_ - head_.get())}, segments_, references_};
}

}  // namespace manta::inline v0::codec
