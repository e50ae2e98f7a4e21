// SPDX-License-Identifier: Apache-2.0
#include "fuzz/harness.hpp"

#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace {

// One thread runs a target; libFuzzer's others take no part in the counting.
thread_local std::uint64_t live = 0;
thread_local std::uint64_t peak = 0;

void* counted(std::size_t n) noexcept {
  void* const p = std::malloc(n == 0 ? 1 : n);
  if (p == nullptr) return nullptr;
  live += malloc_usable_size(p);
  peak = std::max(peak, live);
  return p;
}

void* counted_or_throw(std::size_t n) {
  if (void* const p = counted(n); p != nullptr) return p;
  throw std::bad_alloc();
}

void give_back(void* p) noexcept {
  if (p == nullptr) return;
  live -= malloc_usable_size(p);
  std::free(p);
}

}  // namespace

void* operator new(std::size_t n) { return counted_or_throw(n); }
void* operator new[](std::size_t n) { return counted_or_throw(n); }
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return counted(n); }
void* operator new[](std::size_t n, const std::nothrow_t&) noexcept { return counted(n); }
void operator delete(void* p) noexcept { give_back(p); }
void operator delete[](void* p) noexcept { give_back(p); }
void operator delete(void* p, std::size_t) noexcept { give_back(p); }
void operator delete[](void* p, std::size_t) noexcept { give_back(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { give_back(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { give_back(p); }

namespace fuzz {

namespace {

constexpr std::uint64_t words_room = std::uint64_t{64} << 10U;  // for what a refusal says

// All that ranges of the targets' types hold, and something that none does.
constexpr element elements[] = {
    {codec::type_hash<char>, 1},
    {codec::type_hash<std::uint8_t>, 1},
    {codec::type_hash<std::int16_t>, 2},
    {codec::type_hash<std::int32_t>, 4},
    {codec::type_hash<std::uint64_t>, 8},
    {codec::type_hash<float>, 4},
    {codec::type_hash<double>, 8},
    {codec::type_hash<test::pixel>, sizeof(test::pixel)},
    {codec::type_hash<test::opaque>, sizeof(test::opaque)},
    {1, 1},
};

knot* first_knot = nullptr;

}  // namespace

void fail(const char* what, const char* type, const char* detail) {
  std::fprintf(stderr, "fuzz: %s (%s) %s\n", what, type, detail);
  std::abort();
}

std::uint64_t live_bytes() noexcept { return live; }
void restart_peak() noexcept { peak = live; }
std::uint64_t peak_bytes() noexcept { return peak; }

knot::knot() : after_(std::exchange(first_knot, this)) {
  if (after_ != nullptr) after_->before_ = this;
}

knot::~knot() {
  (before_ == nullptr ? first_knot : before_->after_) = after_;
  if (after_ != nullptr) after_->before_ = before_;
}

void knot::break_circles() noexcept {
  while (first_knot != nullptr) {
    // The knot itself may go with what it points to, and others with it: then from the begin.
    knot* at = first_knot;
    while (at != nullptr && at->next_ == nullptr) at = at->after_;
    if (at == nullptr) return;
    const std::shared_ptr<knot> next = std::move(at->next_);
  }
}

std::uint8_t cutter::byte() {
  const auto one = take(1);
  return one.empty() ? std::uint8_t{0} : std::to_integer<std::uint8_t>(one[0]);
}

std::size_t cutter::length() {
  const std::size_t low = byte();
  return low | static_cast<std::size_t>(byte()) << 8U;
}

std::span<const std::byte> cutter::take(std::size_t n) {
  const auto taken = left_.first(std::min(n, left_.size()));
  left_ = left_.subspan(taken.size());
  return taken;
}

block::block(std::span<const std::byte> from, std::size_t behind)
    : memory_(
          static_cast<std::byte*>(::operator new[](from.size() + behind, std::align_val_t{64}))),
      behind_(behind),
      size_(from.size()) {
  if (!from.empty()) std::memcpy(memory_.get() + behind, from.data(), from.size());
}

parcel::parcel(std::span<const std::uint8_t> input) {
  cutter cut(input);
  const unsigned shape = cut.byte();
  const std::size_t head_bytes = cut.length();
  const std::size_t behind = (shape & 16U) != 0 ? 1 : 0;
  std::vector<std::size_t> lengths;
  for (unsigned i = 0; i < (shape & 3U); ++i) {
    const element& of = elements[cut.byte() % std::size(elements)];
    const std::uint32_t other = cut.byte();
    segments_.push_back({{}, of.type, other == 0 ? of.bytes : other - 1});
    lengths.push_back(cut.length());
  }
  for (unsigned i = 0; i < (shape >> 2U & 3U); ++i) {
    manta::spec::reference one;
    one.kind = static_cast<manta::spec::reference_kind>(cut.byte());
    one.type = cut.byte() == 0 ? codec::type_hash<handle> : 1;
    one.what = {i, 7};
    references_.push_back(one);
  }
  head_ = block(cut.take(head_bytes));
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    parts_.emplace_back(cut.take(lengths[i]), behind);
    segments_[i].bytes = parts_.back().bytes();
  }
}

std::uint64_t parcel::size_bytes() const {
  std::uint64_t sum = head_.bytes().size();
  for (const auto& one : segments_) sum += one.bytes.size();
  return sum;
}

void same(const test::kept_parcel& a, const test::kept_parcel& b, const char* type) {
  const auto are_equal = [](const auto& x, const auto& y) {
    return x.type == y.type && x.element_bytes == y.element_bytes;
  };
  if (a.head != b.head) fail("a copy has another head", type);
  if (a.segments != b.segments) fail("a copy has other segments", type);
  if (!std::equal(a.views.begin(), a.views.end(), b.views.begin(), b.views.end(), are_equal)) {
    fail("a copy has segments of other types", type);
  }
  if (a.references != b.references) fail("a copy has other references", type);
}

void memory_is_granted(const parcel& from, std::uint64_t before, const char* type) {
  const std::uint64_t bytes = from.size_bytes();
  const std::uint64_t most = codec::most_memory(bytes) + bytes + words_room;
  const std::uint64_t taken = peak - std::min(before, peak);
  if (taken <= most) return;
  const std::string detail = std::to_string(taken) + " taken, granted are " + std::to_string(most);
  fail("decoding takes more memory than is granted", type, detail.c_str());
}

}  // namespace fuzz

namespace manta::inline v0::codec {

void custom<fuzz::handle>::write(out_archive& out, const fuzz::handle& value) {
  spec::reference to;
  to.what = {value.number, 7};
  to.type = type_hash<fuzz::handle>;
  out.raw(std::uint8_t{0});
  out.refer({to});
}

fuzz::handle custom<fuzz::handle>::read(in_archive& in) {
  const char* const type = name_of<fuzz::handle>();
  if (in.flag(type)) in.refuse("its byte has to be 0", type);
  return {in.reference(spec::reference_kind::future, type_hash<fuzz::handle>, type).what.high};
}

}  // namespace manta::inline v0::codec
