// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <optional>
#include <utility>

#include <manta/awaitable.hpp>
#include <manta/channel.hpp>
#include <manta/semaphore.hpp>

// Channels and semaphores in coroutines: sources for detail::awaiter (awaitable.hpp).

namespace manta::inline v0 {

namespace detail {

/// A wish of a coroutine. Lives in its frame and is not moved.
template <class T>
class wish_source {
 public:
  wish_source(const wish_source&) = delete;
  wish_source& operator=(const wish_source&) = delete;

  bool is_ready() {
    if (core().stands_for() != nullptr) return false;  // asked once, when it is to wait
    want_.state = core().attempt(want_);
    return want_.state != exec::wish_state::open;
  }
  bool add_waiter(exec::waiter* w) {
    group_.tell = w;
    return !core().enlist(want_);
  }
  bool remove_waiter(exec::waiter* /*w*/) noexcept { return core().withdraw(want_); }

 protected:
  explicit wish_source(channel<T>&& of) : of_(std::move(of)) {
    want_.group = &group_;
    static_cast<void>(core());  // throws for an empty handle
  }
  ~wish_source() = default;
  exec::channel_core& core() const { return channel_access::state(of_).core; }
  /// How the wish ended.
  exec::wish_state outcome() {
    if (want_.failure) std::rethrow_exception(want_.failure);
    return want_.state;
  }

  channel<T> of_;
  exec::wish want_;
  exec::wish_group group_;
};

/// To receive. An item that comes for a coroutine which is cancelled before it goes on is put back.
template <class T, bool EndIsError>
class receive_source : public wish_source<T> {
 public:
  explicit receive_source(channel<T>&& from) : wish_source<T>(std::move(from)) {
    this->want_.move = &channel_state<T>::take;
    this->want_.value = &item_;
  }
  ~receive_source() {
    if (item_) this->core().restore(&channel_state<T>::put_front, &item_);
  }
  auto take() {
    if constexpr (EndIsError) {
      if (this->outcome() == exec::wish_state::closed) exec::raise_channel_closed(false);
      T out = std::move(*item_);
      item_.reset();
      return out;
    } else {
      static_cast<void>(this->outcome());
      return std::exchange(item_, std::nullopt);
    }
  }

 private:
  std::optional<T> item_;
};

/// To send.
template <class T>
class send_source : public wish_source<T> {
 public:
  send_source(channel<T>&& to, T&& value)
      : wish_source<T>(std::move(to)), value_(std::move(value)) {
    this->want_.is_send = true;
    this->want_.move = &channel_state<T>::put;
    this->want_.value = &value_;
  }
  void take() {
    if (this->outcome() == exec::wish_state::closed) exec::raise_channel_closed(true);
  }

 private:
  T value_;
};

/// To acquire. Permits granted to a coroutine which is cancelled before it goes on are given back.
class permit_source {
 public:
  explicit permit_source(permit_wait&& of) : of_(std::move(of.of)) {
    static_cast<void>(of_.checked(of.count));
    request_.count = of.count;
  }
  permit_source(const permit_source&) = delete;
  permit_source& operator=(const permit_source&) = delete;
  ~permit_source() {
    if (is_owed_ && request_.failure == nullptr) of_.core_->release(request_.count);
  }

  bool is_ready() {
    if (of_.core_->stands_for() != nullptr) return false;
    return is_owed_ = of_.core_->attempt(request_.count);
  }
  bool add_waiter(exec::waiter* w) noexcept {
    request_.tell = w;
    is_owed_ = true;  // unless it is taken back
    return !of_.core_->enlist(request_);
  }
  bool remove_waiter(exec::waiter* /*w*/) noexcept {
    const bool was_listed = of_.core_->withdraw(request_);
    if (was_listed) is_owed_ = false;
    return was_listed;
  }
  permit take() {
    is_owed_ = false;
    if (request_.failure != nullptr) std::rethrow_exception(request_.failure);
    return permit(of_.core_, request_.count);
  }

 private:
  semaphore of_;
  exec::permit_request request_;
  bool is_owed_ = false;
};

}  // namespace detail

/// Makes `co_await c.async_receive()` work.
template <class T>
auto manta_await(receive_wait<T>&& x) {
  return detail::awaiter<detail::receive_source<T, true>>(std::move(x.from));
}
/// Makes `co_await c.async_next()` work.
template <class T>
auto manta_await(next_wait<T>&& x) {
  return detail::awaiter<detail::receive_source<T, false>>(std::move(x.from));
}
/// Makes `co_await c.async_send(value)` work.
template <class T>
auto manta_await(send_wait<T>&& x) {
  return detail::awaiter<detail::send_source<T>>(std::move(x.to), std::move(x.value));
}
/// Makes `co_await s.async_acquire(n)` work.
inline auto manta_await(permit_wait&& x) {
  return detail::awaiter<detail::permit_source>(std::move(x));
}

}  // namespace manta::inline v0
