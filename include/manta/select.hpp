// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <manta/channel.hpp>

// select: one of several sends and receives, on channels of any types.

namespace manta::inline v0 {

/// A case of select: to receive from a channel; made by on_receive.
template <class T, class F>
class receive_case {
 public:
  /// As on_receive.
  receive_case(channel<T> from, F then) : from_(std::move(from)), then_(std::move(then)) {}
  /// The case for the engine.
  exec::select_case prepare() {
    auto& state = detail::channel_access::state(from_);
    return {.on = &state.core, .want = {.move = &state.take, .value = &item_}};
  }
  /// Calls the function; the item was received.
  void finish() { std::move(then_)(std::move(*item_)); }

 private:
  channel<T> from_;
  F then_;
  std::optional<T> item_;
};

/// A case of select: to send to a channel; made by on_send.
template <class T, class F>
class send_case {
 public:
  /// As on_send.
  send_case(channel<T> to, T value, F then)
      : to_(std::move(to)), value_(std::move(value)), then_(std::move(then)) {}
  /// The case for the engine.
  exec::select_case prepare() {
    auto& state = detail::channel_access::state(to_);
    return {.on = &state.core, .want = {.move = &state.put, .value = &value_, .is_send = true}};
  }
  /// Calls the function; the item was sent.
  void finish() { std::move(then_)(); }

 private:
  channel<T> to_;
  T value_;
  F then_;
};

/// For select: receive an item from `from`, then call `then(T item)`.
template <class T, class F>
receive_case<T, std::decay_t<F>> on_receive(const channel<T>& from, F&& then) {
  static_assert(std::is_invocable_v<std::decay_t<F>&&, T&&>,
                "manta::on_receive: the function must take an item of the channel");
  return {from, std::forward<F>(then)};
}

/// For select: send `value` to `to`, then call `then()`.
template <class T, class F>
send_case<T, std::decay_t<F>> on_send(const channel<T>& to, std::type_identity_t<T> value,
                                      F&& then) {
  static_assert(std::is_invocable_v<std::decay_t<F>&&>,
                "manta::on_send: the function must take no arguments");
  return {to, std::move(value), std::forward<F>(then)};
}
/// For select: send `value` to `to`.
template <class T>
auto on_send(const channel<T>& to, std::type_identity_t<T> value) {
  return on_send(to, std::move(value), [] {});
}

namespace detail {

template <class Case>
concept is_select_case = requires(Case& c) {
  { c.prepare() } -> std::same_as<exec::select_case>;
  c.finish();
};

template <class... Cases>
std::optional<std::size_t> select_until(const base::deadline& deadline, Cases&... cases) {
  static_assert(sizeof...(Cases) > 0, "manta::select: pass at least one case");
  std::array<exec::select_case, sizeof...(Cases)> all{cases.prepare()...};
  const auto chosen = exec::select_one(all.data(), all.size(), deadline);
  if (!chosen) return chosen;
  std::size_t i = 0;
  ((i++ == *chosen ? cases.finish() : void()), ...);
  return chosen;
}

}  // namespace detail

/// Waits until one of the cases can happen, lets it happen and calls its function on this thread:
///
///     manta::select(manta::on_receive(numbers, [](int n) { ... }),
///                   manta::on_receive(texts, [](std::string s) { ... }),
///                   manta::on_send(results, value, [] { ... }));
///
/// Exactly one case happens; its position is the answer. When several can, the first one from a
/// starting point that moves on with each call is taken, so that none is always passed over. A case
/// on a closed channel does not happen; when that is true of all, throws channel_closed. Throws
/// also what the function throws. A thread that waits lends its core. Any thread. Cost: two locks
/// for each case when it has to wait.
///
/// A case may be on a channel of another node. When there is room for a send that has waited, its
/// node keeps that until it hears whether the send is still wanted, one round trip, or that who
/// waits is lost. With a limit it may end that much later, once a send has such room. Throws
/// node_lost when such a node is lost meanwhile, and store_full as channel<T> says.
template <detail::is_select_case... Cases>
std::size_t select(Cases... cases) {
  return *detail::select_until(std::nullopt, cases...);
}
/// The same with a limit: empty when nothing happened. Zero asks without waiting.
template <detail::is_select_case... Cases>
std::optional<std::size_t> select(duration timeout, Cases... cases) {
  return detail::select_until(base::after(timeout), cases...);
}

}  // namespace manta::inline v0
