// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <manta/base/clock.hpp>
#include <manta/base/export.hpp>
#include <manta/exec/channel_core.hpp>
#include <manta/handles.hpp>
#include <manta/node/shared_thing.hpp>

// channel<T>: a bounded queue between tasks, actors and threads. The mechanism is in
// exec/channel_core.hpp; select over several channels in select.hpp.

namespace manta::inline v0 {

template <class T>
class channel;

namespace detail {

/// The buffer and its core.
template <class T>
struct channel_state {
  explicit channel_state(std::size_t capacity) noexcept : core(capacity, &items) {}
  std::deque<T> items;
  exec::channel_core core;

  static void put(void* items, void* value) {
    static_cast<std::deque<T>*>(items)->push_back(std::move(*static_cast<T*>(value)));
  }
  static void put_copy(void* items, void* value) {
    static_cast<std::deque<T>*>(items)->push_back(*static_cast<const T*>(value));
  }
  static void take(void* items, void* value) {
    auto& all = *static_cast<std::deque<T>*>(items);
    static_cast<std::optional<T>*>(value)->emplace(std::move(all.front()));
    all.pop_front();
  }
  static void put_front(void* items, void* value) {
    static_cast<std::deque<T>*>(items)->push_front(
        std::move(**static_cast<std::optional<T>*>(value)));
  }
};

/// Throws invalid_argument unless a channel can have this capacity.
MANTA_API std::size_t check_capacity(std::size_t capacity);
[[noreturn]] MANTA_API void raise_empty_channel();

/// The way into a channel for the rest of the library.
struct channel_access {
  template <class Channel>
  static auto& state(const Channel& c) {
    if (!c.state_) raise_empty_channel();
    return *c.state_;
  }
  template <class Channel>
  static std::shared_ptr<void> owner(const Channel& c) noexcept {
    return c.state_;
  }
  template <class T>
  static auto make(std::shared_ptr<void> owner) {
    channel<T> out;
    out.state_ = std::static_pointer_cast<channel_state<T>>(std::move(owner));
    return out;
  }
};

}  // namespace detail

/// What a coroutine awaits to receive an item; made by channel::async_receive.
template <class T>
struct receive_wait {
  channel<T> from;  ///< the channel
};
/// What a coroutine awaits for an item or the end; made by channel::async_next.
template <class T>
struct next_wait {
  channel<T> from;  ///< the channel
};
/// What a coroutine awaits to send an item; made by channel::async_send.
template <class T>
struct send_wait {
  channel<T> to;  ///< the channel
  T value;        ///< the item
};

/// A handle to a bounded queue of items of type T with several producers and consumers. Handles are
/// copied into tasks, actors and other threads; the queue lives as long as a handle to it. Items
/// come out in the order in which they went in, and who waits longest is served first. A thread
/// that waits lends its core.
///
/// Any thread may use a handle and its copies; one handle object is externally synchronised. A
/// default-made handle is empty: anything but assignment throws invalid_argument. The item's move
/// constructor runs under the channel's lock and must not use the channel. A task that waits gets
/// cancelled when it is cancelled, or its runtime ends.
///
/// A handle may go to isolated workers and to other nodes, in arguments, results and inside of
/// other values: the queue stays in the node that made it. Elsewhere each call, also size() and
/// is_closed(), asks that node, and throws node_lost when it is lost, cancelled when the runtime
/// ends, store_full when 65,536 calls of one node wait there, or 512 MiB of what it sends. A call
/// that waits when its own node is lost takes no item and sends none; an item that was on its way
/// there is lost. One that comes to a task elsewhere which is cancelled just then goes back to its
/// place by a message of its own: soon after the task has ended. Items have to be able to travel,
/// else the handle stays (unsupported).
///
/// Cost: about 40 ns for each send or receive that has not to wait; no allocation for an item but
/// what std::deque needs. From elsewhere two messages for each call, and the copy of the item.
template <class T>
class channel {
  static_assert(std::is_object_v<T> && !std::is_const_v<T>,
                "manta::channel<T>: T must be an object type that is not const");

 public:
  /// The type of the items.
  using value_type = T;

  /// Walks the items as they come: an input iterator that ends when the channel is closed and
  /// empty.
  class iterator {
   public:
    using iterator_concept = std::input_iterator_tag;  ///< walks once, forward
    using difference_type = std::ptrdiff_t;            ///< as iterators must have; without use here
    using value_type = T;                              ///< what it walks over

    /// Made by channel::begin.
    explicit iterator(const channel* of) : of_(of), item_(of->next()) {}
    /// The item; it may be moved from.
    T& operator*() const noexcept { return *item_; }
    /// Waits for the next item.
    iterator& operator++() {
      item_ = of_->next();
      return *this;
    }
    /// The same.
    void operator++(int) { item_ = of_->next(); }
    /// Whether the channel was found closed and empty.
    friend bool operator==(const iterator& i, std::default_sentinel_t /*end*/) noexcept {
      return !i.item_.has_value();
    }

   private:
    const channel* of_;
    mutable std::optional<T> item_;
  };

  /// An empty handle.
  channel() noexcept = default;
  /// A new channel that holds up to `capacity` items, 1 or more, else throws invalid_argument.
  explicit channel(std::size_t capacity)
      : state_(std::make_shared<detail::channel_state<T>>(detail::check_capacity(capacity))) {}

  /// Puts an item in, waiting while the channel is full. Throws channel_closed when it is closed,
  /// or becomes so meanwhile, and what moving the item throws.
  void send(T value) const {
    static_cast<void>(put(&detail::channel_state<T>::put, &value, std::nullopt));
  }
  /// The same with a limit: false when it was full all the time; then `value` was not touched.
  bool send(T&& value, duration timeout) const {
    return put(&detail::channel_state<T>::put, &value, base::after(timeout));
  }
  /// The same with a copy of `value`.
  bool send(const T& value, duration timeout) const {
    return put(&detail::channel_state<T>::put_copy, const_cast<T*>(&value), base::after(timeout));
  }
  /// The same without waiting.
  bool try_send(T&& value) const { return try_put(&detail::channel_state<T>::put, &value); }
  /// The same with a copy of `value`.
  bool try_send(const T& value) const {
    return try_put(&detail::channel_state<T>::put_copy, const_cast<T*>(&value));
  }

  /// Takes the oldest item, waiting for one. Throws channel_closed when the channel is closed and
  /// empty, or becomes so meanwhile.
  T receive() const {
    std::optional<T> item;
    if (take(item, std::nullopt) == exec::wish_state::closed) exec::raise_channel_closed(false);
    return std::move(*item);
  }
  /// The same with a limit: empty when none came.
  std::optional<T> receive(duration timeout) const {
    std::optional<T> item;
    if (take(item, base::after(timeout)) == exec::wish_state::closed) {
      exec::raise_channel_closed(false);
    }
    return item;
  }
  /// The same without waiting.
  std::optional<T> try_receive() const {
    std::optional<T> item;
    const exec::wish w{.move = &detail::channel_state<T>::take, .value = &item};
    if (detail::channel_access::state(*this).core.attempt(w) == exec::wish_state::closed) {
      exec::raise_channel_closed(false);
    }
    return item;
  }
  /// Takes the oldest item, waiting for one; empty when the channel is closed and empty.
  std::optional<T> next() const {
    std::optional<T> item;
    take(item, std::nullopt);
    return item;
  }
  /// `co_await c.async_receive()` is receive() in a coroutine: it is suspended instead of a thread
  /// (include channel_await.hpp, or all of manta).
  receive_wait<T> async_receive() const { return {*this}; }
  /// `co_await c.async_next()` is next() in a coroutine.
  next_wait<T> async_next() const { return {*this}; }
  /// `co_await c.async_send(value)` is send(value) in a coroutine.
  send_wait<T> async_send(T value) const { return {*this, std::move(value)}; }

  /// `for (T& item : c)` takes items until the channel is closed and empty.
  iterator begin() const { return iterator(this); }
  /// The end of the range.
  std::default_sentinel_t end() const noexcept { return {}; }

  /// Nothing more can be sent; what is in the channel can still be received. Who waits to send gets
  /// channel_closed at once, who waits to receive when it is empty. False when it was closed
  /// already.
  bool close() const { return detail::channel_access::state(*this).core.close(); }
  /// Whether it was closed. It may still have items.
  bool is_closed() const { return detail::channel_access::state(*this).core.is_closed(); }
  /// Items in it now.
  std::size_t size() const { return detail::channel_access::state(*this).core.size(); }
  /// Items it can hold.
  std::size_t capacity() const { return detail::channel_access::state(*this).core.capacity(); }
  /// Whether this is a handle to a channel.
  bool valid() const noexcept { return static_cast<bool>(state_); }
  /// Two handles are equal when they are to the same channel.
  friend bool operator==(const channel& a, const channel& b) noexcept {
    return a.state_ == b.state_;
  }

 private:
  friend struct detail::channel_access;
  using step = void (*)(void*, void*);

  bool put(step move, T* value, const base::deadline& deadline) const {
    exec::wish w{.move = move, .value = value, .is_send = true};
    return sent(detail::channel_access::state(*this).core.perform(w, deadline));
  }
  bool try_put(step move, T* value) const {
    const exec::wish w{.move = move, .value = value, .is_send = true};
    return sent(detail::channel_access::state(*this).core.attempt(w));
  }
  static bool sent(exec::wish_state state) {
    if (state == exec::wish_state::closed) exec::raise_channel_closed(true);
    return state == exec::wish_state::met;
  }
  exec::wish_state take(std::optional<T>& item, const base::deadline& deadline) const {
    exec::wish w{.move = &detail::channel_state<T>::take, .value = &item};
    return detail::channel_access::state(*this).core.perform(w, deadline);
  }

  std::shared_ptr<detail::channel_state<T>> state_;
};

}  // namespace manta::inline v0

namespace manta::inline v0::detail {

/// The items of a channel of T for who knows no T; a box is a std::optional<T>.
template <class T>
struct channel_items {
  using box = std::optional<T>;
  static void* make_box() { return new box; }
  static void drop_box(void* at) noexcept { delete static_cast<box*>(at); }
  static void write(const void* value, codec::out_archive& out) {
    codec::write(out, *static_cast<const T*>(value));
  }
  static void write_box(const void* at, codec::out_archive& out) {
    codec::write(out, **static_cast<const box*>(at));
  }
  static void read(void* at, codec::in_archive& in) {
    static_cast<box*>(at)->emplace(codec::read<T>(in));
  }
  static void put(void* items, void* at) {
    static_cast<std::deque<T>*>(items)->push_back(std::move(**static_cast<box*>(at)));
  }
  static constexpr node::item_ops ops{.make_box = make_box,
                                      .drop_box = drop_box,
                                      .write = write,
                                      .write_box = write_box,
                                      .read = read,
                                      .put = put,
                                      .put_front = channel_state<T>::put_front,
                                      .take = channel_state<T>::take};
  /// Null: they can't travel.
  static constexpr const node::item_ops* known() noexcept {
    if constexpr (node::can_travel<T>) {
      return &ops;
    } else {
      return nullptr;
    }
  }
};

/// Stands for a channel of another process.
template <class T>
struct channel_mirror {
  channel_mirror(std::shared_ptr<node::far_link> to, std::size_t capacity)
      : link(std::move(to)), state(capacity) {
    state.core.stand_for(link->channel);
  }
  std::shared_ptr<node::far_link> link;
  channel_state<T> state;

  static std::shared_ptr<void> make(const std::shared_ptr<node::far_link>& link,
                                    std::uint64_t capacity) {
    const auto made = std::make_shared<channel_mirror>(link, static_cast<std::size_t>(capacity));
    return std::shared_ptr<channel_state<T>>(made, &made->state);
  }
};

}  // namespace manta::inline v0::detail

namespace manta::inline v0::codec {

/// Goes as the same channel.
template <class T>
struct custom<channel<T>> {
  static constexpr auto kind = spec::reference_kind::channel;
  static void write(out_archive& out, const channel<T>& c) {
    node::shared_thing thing{.owner = detail::channel_access::owner(c),
                             .items = detail::channel_items<T>::known(),
                             .kind = kind};
    if (thing.owner != nullptr) thing.core = &detail::channel_access::state(c).core;
    node::write_thing<channel<T>>(out, std::move(thing), c.valid() ? c.capacity() : 0);
  }
  static channel<T> read(in_archive& in) {
    return detail::channel_access::make<T>(node::read_thing<channel<T>>(
        in, kind, detail::channel_items<T>::known(), &detail::channel_mirror<T>::make));
  }
};

}  // namespace manta::inline v0::codec
