// SPDX-License-Identifier: Apache-2.0
#include "wire/frame_line.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace manta::inline v0::wire {

namespace {

constexpr std::uint8_t tag_last = 0;
constexpr std::uint8_t tag_more = 1;
constexpr std::size_t length_bytes = sizeof(std::uint64_t);

void gather(std::span<const std::span<const std::byte>> pieces, std::byte* to) noexcept {
  for (const std::span<const std::byte> piece : pieces) {
    to = std::copy(piece.begin(), piece.end(), to);  // a piece may be empty, and nowhere
  }
}

}  // namespace

void frame_sender::send(std::span<const std::span<const std::byte>> pieces, std::size_t size) {
  if (kept_.empty() && size <= ring_.most_bytes()) {
    const std::span<std::byte> room = ring_.reserve(size);
    if (!room.empty()) {
      gather(pieces, room.data());
      ring_.publish(tag_last);
      return;
    }
  }
  kept_frame frame;
  frame.bytes.resize(size);
  gather(pieces, frame.bytes.data());
  kept_.push_back(std::move(frame));
  kept_bytes_ += size;
  flush();
}

bool frame_sender::send_part(kept_frame& of) noexcept {
  const std::size_t left = of.bytes.size() - of.done;
  const bool has_length = of.done == 0 && left > ring_.most_bytes();
  const std::size_t before = has_length ? length_bytes : 0;
  const std::size_t now = std::min(left, ring_.most_bytes() - before);
  const std::span<std::byte> room = ring_.reserve(before + now);
  if (room.empty()) return false;
  const std::uint64_t length = left;
  std::memcpy(room.data(), &length, before);
  std::memcpy(room.data() + before, of.bytes.data() + of.done, now);
  ring_.publish(now == left ? tag_last : tag_more);
  of.done += now;
  return true;
}

bool frame_sender::flush() noexcept {
  while (!kept_.empty()) {
    if (!send_part(kept_.front())) return false;
    if (kept_.front().done != kept_.front().bytes.size()) continue;
    kept_bytes_ -= kept_.front().bytes.size();
    kept_.pop_front();
  }
  return true;
}

bool frame_sender::flush(std::chrono::nanoseconds time) noexcept {
  if (flush()) return true;  // nearly always, and then the clock need not be read
  const auto end = std::chrono::steady_clock::now() + time;
  while (!flush()) {
    ring_.bell();
    const auto left = end - std::chrono::steady_clock::now();
    if (left.count() <= 0) return false;
    const kept_frame& first = kept_.front();
    ring_.wait(std::min(first.bytes.size() - first.done, ring_.most_bytes()), left);
  }
  return true;
}

frame_receiver::got frame_receiver::take(frame_buffer& to) {
  if (done_ > 0) return take_more(to);
  const got is = ring_.take(to);
  if (is != got::message || ring_.tag() == tag_last) return is;
  std::uint64_t length = 0;
  const std::span<const std::byte> first = to.bytes();
  if (ring_.tag() != tag_more || first.size() <= length_bytes) return got::broken;
  std::memcpy(&length, first.data(), length_bytes);
  done_ = first.size() - length_bytes;
  if (length > default_frame_limit || length <= done_) return got::broken;
  whole_ = parts_.reset(static_cast<std::size_t>(length));
  std::memcpy(whole_.data(), first.data() + length_bytes, done_);
  return take_more(to);
}

frame_receiver::got frame_receiver::take_more(frame_buffer& to) {
  for (;;) {
    const got is = ring_.append(whole_, done_);
    if (is != got::message) return is;
    if (ring_.tag() == tag_more) continue;
    if (done_ != whole_.size()) return got::broken;
    done_ = 0;
    std::swap(to, parts_);
    parts_.trim();
    return got::message;
  }
}

}  // namespace manta::inline v0::wire
