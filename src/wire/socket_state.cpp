// SPDX-License-Identifier: Apache-2.0
#include "wire/socket_state.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <manta/base/check.hpp>

#include "wire/socket_connection.hpp"

namespace manta::inline v0::wire {

namespace {

// The answers of the other end are awaited as long as somebody waits here.
class awaiting {
 public:
  explicit awaiting(loop_core& at) noexcept : at_(at) { at_.await(1); }
  ~awaiting() { at_.await(-1); }
  awaiting(const awaiting&) = delete;
  awaiting& operator=(const awaiting&) = delete;

 private:
  loop_core& at_;
};

}  // namespace

result<void> socket_state::check_size(std::size_t size) const {
  if (size != 0 && size <= how_.frame_limit) return {};
  return error(errc::invalid_argument,
               fmt::format("wire: a message of {} bytes was to be sent, a link carries 1 to {}; "
                           "send less at once, or raise the limit of both ends",
                           size, how_.frame_limit));
}

result<void> socket_state::send(pieces_view pieces, std::size_t size) {
  if (result<void> may = check_size(size); !may) return may;
  sent_message copy;
  std::byte* to = copy.own.reset(size).data();
  for (const auto piece : pieces) to = std::copy(piece.begin(), piece.end(), to);
  return send(std::move(copy));
}

result<void> socket_state::send_kept(std::shared_ptr<const frame_buffer> message) {
  if (result<void> may = check_size(message->bytes().size()); !may) return may;
  return send(sent_message{.kept = std::move(message)});
}

result<void> socket_state::send(sent_message message) {
  const std::size_t size = message.bytes().size();
  {
    const std::lock_guard lock(mutex_);
    if (ended_.has_value()) return *ended_;
    if (waiting_messages_ >= how_.most_messages ||
        (waiting_messages_ > 0 && waiting_bytes_ + size > how_.most_bytes)) {
      return error(
          errc::store_full,
          fmt::format("wire: a message of {} bytes was to be sent, {} messages of {} bytes "
                      "wait for the other process, allowed are {} of {}; send it when some "
                      "of them have left",
                      size, waiting_messages_, waiting_bytes_, how_.most_messages,
                      how_.most_bytes));
    }
    outgoing_.push_back(std::move(message));
    ++waiting_messages_;
    waiting_bytes_ += size;
    if (std::exchange(is_told_, true)) return {};
  }
  try {
    at_->post([self = shared_from_this()] {
      if (self->connection != nullptr) self->connection->send_batch();
    });
  } catch (const std::bad_alloc&) {
    // It is taken, and leaves when the loop is told of another one.
    const std::lock_guard lock(mutex_);
    is_told_ = false;
  }
  return {};
}

void socket_state::next_batch(std::vector<sent_message>& to, std::size_t messages,
                              std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  std::size_t taken = 0;
  while (!outgoing_.empty() && to.size() < messages && taken < bytes) {
    taken += outgoing_.front().bytes().size();
    to.push_back(std::move(outgoing_.front()));
    outgoing_.pop_front();
  }
  is_told_ = !outgoing_.empty();
}

void socket_state::batch_is_there(std::size_t messages, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  MANTA_CHECK_VALUE(waiting_messages_ >= messages && waiting_bytes_ >= bytes, messages);
  waiting_messages_ -= messages;
  waiting_bytes_ -= bytes;
}

bool socket_state::has_outgoing() const {
  const std::lock_guard lock(mutex_);
  return !outgoing_.empty();
}

void socket_state::arrive(std::vector<frame_buffer> batch) {
  {
    const std::lock_guard lock(mutex_);
    for (frame_buffer& one : batch) {
      incoming_bytes_ += one.bytes().size();
      incoming_.push_back(std::move(one));
    }
  }
  arrived_.notify_all();  // not under the lock, for which the woken would wait
  tell();
}

socket_state::room socket_state::room_now() const {
  const std::size_t used = std::min<std::size_t>(incoming_.size(), how_.credit_messages);
  const std::size_t used_bytes = std::min<std::size_t>(incoming_bytes_, how_.credit_bytes);
  return {how_.credit_messages - used, how_.credit_bytes - used_bytes};
}

socket_state::room socket_state::ask_room() {
  const std::lock_guard lock(mutex_);
  const room now = room_now();
  wants_room_ = now.messages == 0 || now.bytes == 0;
  return now;
}

link::got socket_state::take(frame_buffer& to) {
  bool has_room = false;
  {
    const std::lock_guard lock(mutex_);
    if (incoming_.empty()) return ended_.has_value() ? link::got::ended : link::got::nothing;
    to = std::move(incoming_.front());
    incoming_.pop_front();
    incoming_bytes_ -= to.bytes().size();
    if (wants_room_) {
      // Half of it, so that a taker that is just as fast does not answer each message.
      const room now = room_now();
      has_room = now.messages * 2 >= how_.credit_messages && now.bytes * 2 >= how_.credit_bytes;
      if (has_room) wants_room_ = false;
    }
  }
  if (has_room) {
    at_->post([self = shared_from_this()] {
      if (self->connection != nullptr) self->connection->give_room();
    });
  }
  return link::got::message;
}

bool socket_state::wait(std::chrono::nanoseconds time) {
  const auto has_news = [&] { return !incoming_.empty() || ended_.has_value(); };
  std::unique_lock lock(mutex_);
  if (has_news()) return true;
  if (time.count() <= 0) return false;
  const awaiting here(*at_);
  const auto most = std::min<std::chrono::nanoseconds>(time, std::chrono::hours(1));
  return arrived_.wait_for(lock, most, has_news);
}

void socket_state::on_arrival(std::function<void()> tell) {
  {
    const std::lock_guard telling(tell_mutex_);
    tell_ = std::move(tell);
    if (tell_ == nullptr) return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (incoming_.empty() && !ended_.has_value()) return;
  }
  // What came before it was set.
  if (!at_->post([self = shared_from_this()] { self->tell(); })) this->tell();
}

void socket_state::tell() {
  const std::lock_guard telling(tell_mutex_);
  if (tell_ == nullptr) return;
  const std::function<void()> now = tell_;  // it may replace itself
  now();
}

link_state socket_state::state() const {
  const std::lock_guard lock(mutex_);
  return {ended_, waiting_messages_, waiting_bytes_, greeted_in_, was_reset_, cluster_, process_};
}

bool socket_state::set_end(error why, bool was_reset) {
  const std::lock_guard lock(mutex_);
  if (ended_.has_value()) return false;
  was_reset_ = was_reset;
  ended_.emplace(std::move(why));
  outgoing_.clear();
  arrived_.notify_all();
  return true;
}

void socket_state::end(error why, bool was_reset) {
  if (set_end(std::move(why), was_reset)) tell();
}

// By the loop: who closes may hold what is needed by whoever is told.
void socket_state::close() {
  const bool is_new =
      set_end(error(errc::cancelled, "wire: the connection was closed by this process"), false);
  at_->post([self = shared_from_this(), is_new] {
    if (self->connection != nullptr) self->connection->stop();
    if (is_new) self->tell();
  });
}

socket_link::~socket_link() {
  state_->on_arrival(nullptr);
  state_->close();
}

}  // namespace manta::inline v0::wire
