// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <manta/base/id.hpp>

#include "wire/link.hpp"
#include "wire/loop_core.hpp"
#include "wire/socket_link.hpp"

// What the threads that use a socket's link share with the loop: two queues and the end.
// Threads: any.

namespace manta::inline v0::wire {

class socket_connection;

/// What is to be sent: its own bytes, or somebody's.
struct sent_message {
  frame_buffer own = {};
  std::shared_ptr<const frame_buffer> kept = {};

  std::span<const std::byte> bytes() const noexcept {
    return kept == nullptr ? own.bytes() : kept->bytes();
  }
};

class socket_state : public std::enable_shared_from_this<socket_state> {
 public:
  using pieces_view = std::span<const std::span<const std::byte>>;

  /// `greeted_in`: see link_state.
  socket_state(std::shared_ptr<loop_core> at, const socket_settings& how,
               std::chrono::nanoseconds greeted_in = {})
      : at_(std::move(at)), how_(how), greeted_in_(greeted_in) {}

  /// The other end has greeted.
  void met(const base::id& cluster, const base::id& process) {
    const std::lock_guard lock(mutex_);
    cluster_ = cluster;
    process_ = process;
  }

  // For the link.
  result<void> send(pieces_view pieces, std::size_t size);
  result<void> send_kept(std::shared_ptr<const frame_buffer> message);
  link::got take(frame_buffer& to);
  bool wait(std::chrono::nanoseconds time);
  void on_arrival(std::function<void()> tell);
  void close();
  link_state state() const;

  // For the connection, on the loop.
  const socket_settings& settings() const noexcept { return how_; }
  loop_core& at() const noexcept { return *at_; }
  /// Moves messages to `to`: at most so many, and no more once they have so many bytes.
  void next_batch(std::vector<sent_message>& to, std::size_t messages, std::size_t bytes);
  /// The batch has arrived.
  void batch_is_there(std::size_t messages, std::size_t bytes);
  bool has_outgoing() const;
  void arrive(std::vector<frame_buffer> batch);
  /// What may still come; 0 of either: nothing, and the connection is told when there is some.
  struct room {
    std::size_t messages = 0;
    std::size_t bytes = 0;
  };
  room ask_room();
  /// Once; later ones change nothing. `tell` is called for what came and for the end.
  void end(error why, bool was_reset = false);
  void tell();

  /// The loop's thread alone: where it lives, null before and after.
  socket_connection* connection = nullptr;

 private:
  room room_now() const;  // with mutex_
  result<void> check_size(std::size_t size) const;
  result<void> send(sent_message message);
  bool set_end(error why, bool was_reset);

  const std::shared_ptr<loop_core> at_;
  const socket_settings how_;
  const std::chrono::nanoseconds greeted_in_;

  mutable std::mutex mutex_;  // guards all below up to tell_mutex_
  base::id cluster_;
  base::id process_;
  std::condition_variable arrived_;
  std::deque<sent_message> outgoing_;
  std::size_t waiting_messages_ = 0;  // of outgoing_ and of the batch under way
  std::size_t waiting_bytes_ = 0;
  bool is_told_ = false;  // the loop knows of outgoing_
  std::deque<frame_buffer> incoming_;
  std::size_t incoming_bytes_ = 0;
  bool wants_room_ = false;  // the connection holds an answer back
  std::optional<error> ended_;
  bool was_reset_ = false;

  // Held while `tell_` runs; recursive, for a call that replaces itself.
  std::recursive_mutex tell_mutex_;
  std::function<void()> tell_;  // guarded by tell_mutex_
};

/// The user's end.
class socket_link final : public link {
 public:
  explicit socket_link(std::shared_ptr<socket_state> state) noexcept : state_(std::move(state)) {}
  ~socket_link() override;

  result<void> send(std::span<const std::span<const std::byte>> pieces, std::size_t size) override {
    return state_->send(pieces, size);
  }
  result<void> send_kept(const std::shared_ptr<const frame_buffer>& message) override {
    return state_->send_kept(message);
  }
  got take(frame_buffer& to) override { return state_->take(to); }
  bool wait(std::chrono::nanoseconds time) override { return state_->wait(time); }
  void on_arrival(std::function<void()> tell) override { state_->on_arrival(std::move(tell)); }
  void close() override { state_->close(); }
  link_state state() const override { return state_->state(); }

 private:
  std::shared_ptr<socket_state> state_;
};

}  // namespace manta::inline v0::wire
