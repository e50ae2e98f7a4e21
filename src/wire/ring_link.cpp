// SPDX-License-Identifier: Apache-2.0
#include "wire/ring_link.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <poll.h>

#include <manta/base/clock.hpp>

namespace manta::inline v0::wire {

namespace {

constexpr std::chrono::nanoseconds look_every = std::chrono::milliseconds(5);
constexpr int spins = 200;

}  // namespace

ring_link::ring_link(const ring_memory& in, const ring_memory& out, int life)
    : life_(life), sender_(out), receiver_(in) {}

ring_link::~ring_link() {
  ring_link::on_arrival(nullptr);
  ring_link::close();
}

result<void> ring_link::send(std::span<const std::span<const std::byte>> pieces, std::size_t size) {
  if (size == 0 || size > default_frame_limit) {
    return error(errc::invalid_argument,
                 fmt::format("wire: a message of {} bytes was to be sent, a link carries 1 to {}; "
                             "send less at once",
                             size, default_frame_limit));
  }
  {
    const std::lock_guard lock(state_mutex_);
    if (ended_.has_value()) return *ended_;
  }
  const std::lock_guard lock(out_mutex_);
  if (sender_.is_behind()) sender_.flush();
  if (sender_.is_behind() && sender_.kept_bytes() + size > most_bytes) {
    return error(
        errc::store_full,
        fmt::format("wire: a message of {} bytes was to be sent, {} bytes wait for room in "
                    "the ring, allowed are {}; send it when some of them have left",
                    size, sender_.kept_bytes(), most_bytes));
  }
  sender_.send(pieces, size);
  sender_.bell();
  return {};
}

// True: nothing is left to send.
bool ring_link::flush() {
  const std::lock_guard lock(out_mutex_);
  if (!sender_.is_behind()) return true;
  const bool is_empty = sender_.flush();
  sender_.bell();
  return is_empty;
}

link::got ring_link::take(frame_buffer& to) {
  flush();
  const std::lock_guard lock(in_mutex_);
  switch (receiver_.take(to)) {
    case frame_receiver::got::message:
      return got::message;
    case frame_receiver::got::broken:
      end(error(errc::decode_failed,
                "wire: a message was to come out of a ring, found what no writer of ours leaves; "
                "nothing is read from it any more: end the other process"));
      break;
    case frame_receiver::got::nothing:
      break;
  }
  const std::lock_guard state(state_mutex_);
  return ended_.has_value() ? got::ended : got::nothing;
}

bool ring_link::has_news() const {
  if (receiver_.has_message()) return true;
  const std::lock_guard lock(state_mutex_);
  return ended_.has_value();
}

bool ring_link::wait(std::chrono::nanoseconds time) {
  const base::time_point until = base::after(time);
  while (!has_news()) {
    const bool is_behind = !flush();
    const auto left = until - base::now();
    if (left.count() <= 0) return false;
    // Who waits for room as well looks more often.
    const auto most = is_behind ? look_every / 50 : look_every;
    if (!receiver_.ring().wait(spins, std::min<std::chrono::nanoseconds>(left, most))) {
      look_for_death();
    }
  }
  tell();
  return true;
}

void ring_link::look_for_death() const {
  if (life_ < 0) return;
  pollfd it{life_, POLLIN, 0};
  if (poll(&it, 1, 0) <= 0 || it.revents == 0) return;
  if (receiver_.has_message()) return;  // first what it said
  end(error(errc::node_lost,
            "wire: the process at the other end of a ring has ended; what was sent and not "
            "answered may be lost: send it to another one"));
}

void ring_link::end(error why) const {
  const std::lock_guard lock(state_mutex_);
  if (!ended_.has_value()) ended_.emplace(std::move(why));
}

void ring_link::on_arrival(std::function<void()> tell) {
  const std::lock_guard lock(tell_mutex_);
  tell_ = std::move(tell);
}

void ring_link::tell() {
  const std::lock_guard lock(tell_mutex_);
  if (tell_ == nullptr) return;
  const std::function<void()> now = tell_;  // it may replace itself
  now();
}

void ring_link::close() {
  end(error(errc::cancelled, "wire: the rings were closed by this process"));
}

link_state ring_link::state() const {
  look_for_death();
  const std::scoped_lock lock(out_mutex_, state_mutex_);
  return {ended_, sender_.kept_count(), sender_.kept_bytes()};
}

}  // namespace manta::inline v0::wire
